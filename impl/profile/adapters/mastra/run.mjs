// Mastra: one run of a workflow, its snapshots in LibSQL. A run that waits is resumed, one that was under way is restarted.

import { Mastra } from "@mastra/core";
import { LibSQLStore } from "@mastra/libsql";
import { ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, main } from "./settled_kit.mjs";
import { GATED, workflow as profile } from "./workflow.mjs";

const mastra = new Mastra({
  workflows: { profile },
  storage: new LibSQLStore({ url: `file:${STATE}/mastra.db` }),
  logger: false,
  telemetry: { enabled: false },
});
const workflow = mastra.getWorkflow("profile");

async function open() {
  const run = await workflow.createRunAsync({ runId: RUN });
  process.once("SIGINT", () => run.cancel());
  return run;
}

function ended(result) {
  if (result.status === "success") return OVER;
  if (result.status === "suspended") return WAITS;
  throw result.error ?? new Error(`the run has ${result.status}`);
}

await main({
  start: async () => ended(await (await open()).start({ inputData: {} })),
  resume: async () => {
    const known = await workflow.getWorkflowRunById(RUN);
    if (!known) return UNKNOWN;
    const { status } = known.snapshot;
    if (status === "success") return OVER;
    if (status === "suspended" && !ANSWER) return WAITS;
    const run = await open();
    const asked = { step: GATED, resumeData: { answer: ANSWER } };
    if (status === "suspended") return ended(await run.resume(asked));
    const result = await run.restart();
    return ended(result.status === "suspended" && ANSWER ? await run.resume(asked) : result);
  },
});
