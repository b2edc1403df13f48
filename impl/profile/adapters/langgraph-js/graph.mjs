// The workloads as a StateGraph.

import { Annotation, Command, END, START, StateGraph, interrupt } from "@langchain/langgraph";
import { WORKLOAD, call } from "./settled_kit.mjs";

const State = Annotation.Root({
  done: Annotation({ reducer: (before, more) => [...before, ...more], default: () => [] }),
});

const node = (step) => async () => {
  await call(step);
  return { done: [step] };
};

const approval = () => new Command({ goto: interrupt("b?") === "approve" ? "b" : END });

const gated = async () => (interrupt("c?") === "approve" ? node("c")() : { done: [] });

export function build(checkpointer) {
  const graph = new StateGraph(State).addNode("a", node("a")).addNode("b", node("b")).addEdge(START, "a");
  if (WORKLOAD === "approval") {
    graph.addNode("approval", approval, { ends: ["b", END] }).addEdge("a", "approval");
  } else if (WORKLOAD === "parallel") {
    graph.addNode("c", gated).addEdge("a", "b").addEdge("a", "c");
  } else {
    graph.addNode("c", node("c")).addEdge("a", "b").addEdge("b", "c");
  }
  return graph.compile({ checkpointer });
}
