// The workloads as a Mastra workflow: one step for each call of the tool.

import { createStep, createWorkflow } from "@mastra/core/workflows";
import { z } from "zod";
import { WORKLOAD, call } from "./settled_kit.mjs";

const schemas = { inputSchema: z.any(), outputSchema: z.any() };

const step = (id) =>
  createStep({
    id,
    ...schemas,
    execute: async () => {
      await call(id);
      return {};
    },
  });

const gated = (id) =>
  createStep({
    id,
    ...schemas,
    resumeSchema: z.object({ answer: z.string() }),
    execute: async ({ resumeData, suspend }) => {
      if (!resumeData) return await suspend({});
      if (resumeData.answer === "approve") await call(id);
      return {};
    },
  });

/** The step that waits for an approval. */
export const GATED = WORKLOAD === "approval" ? "b" : "c";

function build() {
  const workflow = createWorkflow({ id: "profile", ...schemas }).then(step("a"));
  if (WORKLOAD === "approval") return workflow.then(gated("b"));
  if (WORKLOAD === "parallel") return workflow.parallel([step("b"), gated("c")]);
  return workflow.then(step("b")).then(step("c"));
}

export const workflow = build().commit();
