"""LangGraph's default retry policy around an MCP tool: `python langgraph_retry.py -- COMMAND [ARG…] | URL`.

One node calls the tool through langchain-mcp-adapters, which starts the command, or a session, anew for each call. On its first
two runs the node raises ConnectionError after the tool has returned, as when the answer is lost behind it.
Prints one JSON line: `node_runs`, `returned` (what the tool returned to each run), `result` or `error`.
"""

import asyncio
import json
import os
import sys
from typing import Any, TypedDict

# Tracing would send the run elsewhere if the caller's environment asked for it.
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"

# The same choice as in connection.py.
import mcp.types

if revision := os.environ.get("CLIENT_REVISION"):
    mcp.types.LATEST_PROTOCOL_VERSION = revision

from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

TOOL = os.environ.get("TOOL", "charge")
LOST_ANSWERS = 2


class State(TypedDict):
    result: dict[str, Any] | None


def connection(target: list[str]) -> dict[str, Any]:
    if target[0] != "--":
        return {"transport": "streamable_http", "url": target[0]}
    _, command, *arguments = target
    return {"transport": "stdio", "command": command, "args": arguments, "env": dict(os.environ)}


async def main(target: list[str]) -> None:
    client = MultiServerMCPClient({"server": connection(target)})
    runs = 0
    returned: list[dict[str, Any]] = []

    async def charge(_state: State) -> State:
        nonlocal runs
        runs += 1
        call = {"type": "tool_call", "id": "call-1", "name": TOOL, "args": {"customer": "alice", "cents": 500}}
        message = await tool.ainvoke(call)
        result = {"status": message.status, "content": message.content, "artifact": message.artifact}
        returned.append(result)
        if runs <= LOST_ANSWERS:
            raise ConnectionError("the answer was lost after the tool returned")
        return {"result": result}

    graph = StateGraph(State)
    # The default policy but for its waits: the same errors are retried, as often.
    graph.add_node("charge", charge, retry_policy=RetryPolicy(initial_interval=0.0, jitter=False))
    graph.add_edge(START, "charge")
    graph.add_edge("charge", END)

    result = None
    error = None
    try:
        tool = next(tool for tool in await client.get_tools() if tool.name == TOOL)
        result = (await graph.compile().ainvoke({"result": None}))["result"]
    except Exception as caught:
        error = {"name": type(caught).__name__, "message": str(caught)}
    summary = {
        "client": "langgraph",
        "tool": TOOL,
        "node_runs": runs,
        "returned": returned,
        "result": result,
        "error": error,
    }
    print(json.dumps(summary, ensure_ascii=False, default=str), flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1:] == ["--"]:
        print("usage: langgraph_retry.py -- COMMAND [ARG…] | URL", file=sys.stderr)
        sys.exit(2)
    asyncio.run(main(sys.argv[1:]))
