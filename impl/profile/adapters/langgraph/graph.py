"""The workloads as a StateGraph."""

import operator
from collections.abc import Callable
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt


class State(TypedDict):
    done: Annotated[list[str], operator.add]


def build(workload: str, node: Callable[[str], Callable], gated: Callable, retry: RetryPolicy | None) -> StateGraph:
    """`node(step)` is the node that takes a step; `gated` the one that takes `c` after an approval."""
    graph = StateGraph(State)
    graph.add_node("a", node("a"), retry_policy=retry)
    graph.add_node("b", node("b"), retry_policy=retry)
    graph.add_edge(START, "a")
    if workload == "approval":
        graph.add_node("approval", approval, destinations=("b", END))
        graph.add_edge("a", "approval")
    else:
        graph.add_node("c", gated if workload == "parallel" else node("c"), retry_policy=retry)
        graph.add_edge("a", "b")
        graph.add_edge("a" if workload == "parallel" else "b", "c")
    return graph


def approval(_: State) -> Command:
    return Command(goto="b" if interrupt("b?") == "approve" else END)
