// Restate: one run of a workflow. The server goes on with it by itself, once it and the workflow's endpoint are up.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@restatedev/restate-sdk-clients";
import { serve } from "./server.mjs";
import { ANSWER, OVER, RUN, UNKNOWN, WAITS, WITH_INPUT, main } from "./settled_kit.mjs";

async function client() {
  const { ingress, admin } = await serve();
  const workflow = connect({ url: ingress }).workflowClient({ name: "profile" }, RUN);
  process.once("SIGINT", () => cancel(admin));
  return { workflow }; // the client itself takes `then`, too, for a handler of the workflow
}

async function cancel(admin) {
  const query = `SELECT id FROM sys_invocation WHERE target_service_key = '${RUN}' AND target_handler_name = 'run'`;
  const answer = await fetch(`${admin}/query`, {
    method: "POST",
    headers: { "Content-Type": "application/json", Accept: "application/json" },
    body: JSON.stringify({ query }),
  });
  for (const { id } of (await answer.json()).rows) {
    await fetch(`${admin}/invocations/${id}/cancel`, { method: "PATCH" });
  }
}

/** Gives the answer of a person. Restate takes the first one, and refuses another. */
async function answer(workflow) {
  try {
    await workflow.answer(ANSWER);
  } catch (error) {
    if (error.status !== 409) throw error;
    console.log(error.message);
  }
}

/** Until the run is over, or waits for its approval. */
async function watch(workflow) {
  for (;;) {
    if ((await output(workflow)).ready) return OVER;
    if (await workflow.waits()) return WAITS;
    await sleep(20);
  }
}

/** What the run has ended with, if it has. */
async function output(workflow) {
  try {
    return await workflow.workflowOutput();
  } catch (error) {
    // A run that was cancelled has ended, too.
    if (error.status === 409) throw new Error(JSON.parse(error.responseText).message);
    throw error;
  }
}

await main({
  start: async () => {
    const { workflow } = await client();
    await workflow.workflowSubmit();
    return await watch(workflow);
  },
  resume: async () => {
    const { workflow } = await client();
    if (WITH_INPUT) await workflow.workflowSubmit();
    try {
      if (ANSWER) await answer(workflow);
      return await watch(workflow);
    } catch (error) {
      if (error.status === 404) return UNKNOWN;
      throw error;
    }
  },
});
