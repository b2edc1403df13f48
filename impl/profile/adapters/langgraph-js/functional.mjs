// The workloads with the functional API: a workflow of tasks.

import { entrypoint, interrupt, task } from "@langchain/langgraph";
import { WORKLOAD, call } from "./settled_kit.mjs";

const step = (name) => task(name, () => call(name));
const [a, b, c] = ["a", "b", "c"].map(step);

const gated = task("gated", async () => {
  if (interrupt("c?") === "approve") await call("c");
});

export function build(checkpointer) {
  return entrypoint({ checkpointer, name: "workflow" }, async () => {
    await a();
    if (WORKLOAD === "approval") {
      if (interrupt("b?") === "approve") await b();
    } else if (WORKLOAD === "parallel") {
      await Promise.all([b(), gated()]);
    } else {
      await b();
      await c();
    }
    return "over";
  });
}
