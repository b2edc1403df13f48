// LangGraph.js: one thread of a graph or of a functional workflow, with its checkpoints in SQLite.

import { Command } from "@langchain/langgraph";
import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite";
import { ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WITH_INPUT, main } from "./settled_kit.mjs";

const { build } = await import(process.env.API === "graph" ? "./graph.mjs" : "./functional.mjs");
const INPUT = { done: [] };

const cancel = new AbortController();
process.once("SIGINT", () => cancel.abort());

async function invoke(message) {
  const app = build(SqliteSaver.fromConnString(`${STATE}/checkpoints.sqlite`));
  const thread = { configurable: { thread_id: RUN } };
  const result = await app.invoke(message, { ...thread, durability: process.env.DURABILITY, signal: cancel.signal });
  return result && typeof result === "object" && "__interrupt__" in result ? WAITS : OVER;
}

await main({
  start: () => invoke(INPUT),
  resume: async () => {
    try {
      return await invoke(ANSWER ? new Command({ resume: ANSWER }) : WITH_INPUT ? INPUT : null);
    } catch (error) {
      if (error.name === "EmptyInputError") return UNKNOWN;
      throw error;
    }
  },
});
