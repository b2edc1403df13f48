// A plain script that takes the steps of a workload, and writes down after each one that it is done.

import { existsSync, readFileSync } from "node:fs";
import { ANSWER, OVER, STATE, UNKNOWN, WAITS, WORKLOAD, replace } from "./settled_kit.mjs";

const FILE = `${STATE}/progress.json`;

const read = () => JSON.parse(readFileSync(FILE, "utf8"));
const write = (progress) => replace(FILE, JSON.stringify(progress));

/** `start` and `resume`, where `take(step)` takes one step. */
export function script(take) {
  async function once(step, progress) {
    if (progress.done.includes(step)) return;
    await take(step);
    progress.done.push(step);
    write(progress);
  }

  async function run(progress) {
    await once("a", progress);
    if (WORKLOAD === "steps") {
      await once("b", progress);
      await once("c", progress);
      return OVER;
    }
    if (WORKLOAD === "parallel") await once("b", progress); // `c` waits for a person meanwhile
    if (ANSWER && !progress.answer) write(Object.assign(progress, { answer: ANSWER }));
    if (!progress.answer) return WAITS;
    if (progress.answer === "approve") await once(WORKLOAD === "parallel" ? "c" : "b", progress);
    return OVER;
  }

  return {
    start: () => {
      write({ done: [] });
      return run(read());
    },
    resume: () => (existsSync(FILE) ? run(read()) : UNKNOWN),
  };
}
