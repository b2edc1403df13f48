// The workloads as a Restate workflow: every step is a `ctx.run`, and an approval is a durable promise.

import * as restate from "@restatedev/restate-sdk";
import { WORKLOAD, call } from "./settled_kit.mjs";

async function run(ctx) {
  const step = (name) => ctx.run(name, () => call(name));
  await step("a");
  if (WORKLOAD === "steps") {
    await step("b");
    await step("c");
    return "over";
  }
  const approval = ctx.promise("approval").get();
  if (WORKLOAD === "parallel") await step("b"); // while `approval` is waited for
  ctx.set("waits", true);
  const approved = (await approval) === "approve";
  ctx.clear("waits");
  if (approved) await step(WORKLOAD === "parallel" ? "c" : "b");
  return "over";
}

export const workflow = restate.workflow({
  name: "profile",
  handlers: {
    run,
    answer: (ctx, answer) => ctx.promise("approval").resolve(answer),
    waits: async (ctx) => (await ctx.get("waits")) === true,
  },
});
