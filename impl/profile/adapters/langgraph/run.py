"""LangGraph: one thread of a graph or a functional workflow, with its checkpoints in SQLite."""

import os

import functional
import graph
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import EmptyInputError
from langgraph.types import Command, RetryPolicy, interrupt
from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WITH_INPUT, WORKLOAD, call, main

API, DURABILITY = os.environ["API"], os.environ["DURABILITY"]
RETRY = RetryPolicy() if os.environ.get("RETRY") else None
INPUT = {"done": []}


def node(step: str):
    def run(_: graph.State) -> dict:
        call(step)
        return {"done": [step]}

    return run


def gated(state: graph.State) -> dict:
    return node("c")(state) if interrupt("c?") == "approve" else {"done": []}


def invoke(message) -> int:
    config = {"configurable": {"thread_id": RUN}}
    if API == "mcp":
        import over_mcp

        result = over_mcp.invoke(message, config, DURABILITY)
    else:
        with SqliteSaver.from_conn_string(str(STATE / "checkpoints.sqlite")) as checkpointer:
            if API == "graph":
                app = graph.build(WORKLOAD, node, gated, RETRY).compile(checkpointer=checkpointer)
            else:
                app = functional.build(WORKLOAD, checkpointer)
            result = app.invoke(message, config, durability=DURABILITY)
    return WAITS if isinstance(result, dict) and "__interrupt__" in result else OVER


def start() -> int:
    return invoke(INPUT)


def resume() -> int:
    try:
        return invoke(Command(resume=ANSWER) if ANSWER else INPUT if WITH_INPUT else None)
    except EmptyInputError:
        return UNKNOWN


main(start, resume)
