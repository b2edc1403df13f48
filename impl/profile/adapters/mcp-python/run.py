"""A plain MCP client: three calls in a row, one retry after a timeout, a record of its own of what was answered."""

import asyncio
import json
import os
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from settled_kit import OVER, RUN, STATE, TIMEOUT, UNKNOWN, main, mcp_command, replace

RECORD = STATE / f"{RUN}.json"
STEPS = ["a", "b", "c"]


@asynccontextmanager
async def connect():
    if os.environ["TRANSPORT"] == "stdio":
        command, arguments = mcp_command()
        transport = stdio_client(StdioServerParameters(command=command, args=arguments))
    else:
        transport = streamable_http_client(os.environ["PROFILE_MCP_URL"])
    async with transport as (read, write, *_), ClientSession(read, write) as session:
        await session.initialize()
        yield session


async def call(session: ClientSession, step: str) -> None:
    arguments, timeout = {"run": RUN, "step": step}, timedelta(seconds=TIMEOUT)
    try:
        result = await session.call_tool("step", arguments, read_timeout_seconds=timeout)
    except McpError as error:
        if error.error.code != httpx.codes.REQUEST_TIMEOUT:
            raise
        result = await session.call_tool("step", arguments, read_timeout_seconds=timeout)
    if result.isError:
        raise RuntimeError(f"step {step} failed: {result.content}")


async def take(done: list[str]) -> int:
    async with connect() as session:
        for step in STEPS[len(done) :]:
            await call(session, step)
            done.append(step)
            replace(RECORD, json.dumps(done))
    return OVER


def start() -> int:
    replace(RECORD, "[]")
    return asyncio.run(take([]))


def resume() -> int:
    if not RECORD.exists():
        return UNKNOWN
    return asyncio.run(take(json.loads(RECORD.read_text())))


main(start, resume)
