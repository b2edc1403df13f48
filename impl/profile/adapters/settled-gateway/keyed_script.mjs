// A script that takes all steps of its workload again when it is resumed: each has a key, so that none happens twice. It remembers
// nothing but what a person has answered.

import { linkSync, readFileSync, writeFileSync } from "node:fs";
import { ANSWER, OVER, STATE, WAITS, WORKLOAD } from "./settled_kit.mjs";

const FILE = `${STATE}/answer`;

/** The first answer counts. A link can't replace another, and its file is whole. */
function firstAnswer() {
  const own = `${FILE}.${process.pid}`;
  writeFileSync(own, ANSWER);
  try {
    linkSync(own, FILE);
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
  return readFileSync(FILE, "utf8");
}

/** `start` and `resume`, where `take(step)` takes one step. */
export function script(take) {
  async function gated(step) {
    if (!ANSWER) return WAITS;
    if (firstAnswer() === "approve") await take(step);
    return OVER;
  }

  async function run() {
    await take("a");
    if (WORKLOAD === "approval") return await gated("b");
    if (WORKLOAD === "parallel") return (await Promise.all([gated("c"), take("b")]))[0];
    await take("b");
    await take("c");
    return OVER;
  }

  return { start: run, resume: run };
}
