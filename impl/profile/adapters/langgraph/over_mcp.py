"""The StateGraph with its tool loaded over MCP: asynchronous, as the tools of langchain-mcp-adapters are."""

import asyncio
from datetime import timedelta

import graph
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.types import interrupt
from settled_kit import RUN, STATE, TIMEOUT, WORKLOAD, mcp_command


def invoke(message, config: dict, durability: str) -> dict:
    return asyncio.run(ainvoke(message, config, durability))


async def ainvoke(message, config: dict, durability: str) -> dict:
    command, arguments = mcp_command()
    session = {"read_timeout_seconds": timedelta(seconds=TIMEOUT)}
    server = {"transport": "stdio", "command": command, "args": arguments, "session_kwargs": session}
    client = MultiServerMCPClient({"tool": server}, handle_tool_errors=False)
    (tool,) = [tool for tool in await client.get_tools() if tool.name == "step"]

    def node(step: str):
        async def run(_: graph.State) -> dict:
            await tool.ainvoke({"run": RUN, "step": step})
            return {"done": [step]}

        return run

    async def gated(state: graph.State) -> dict:
        return await node("c")(state) if interrupt("c?") == "approve" else {"done": []}

    async with AsyncSqliteSaver.from_conn_string(str(STATE / "checkpoints.sqlite")) as checkpointer:
        app = graph.build(WORKLOAD, node, gated, None).compile(checkpointer=checkpointer)
        return await app.ainvoke(message, config, durability=durability)
