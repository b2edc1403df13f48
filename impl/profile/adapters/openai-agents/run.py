"""OpenAI Agents SDK: the conversation in a SQLite session; a run that waits in a file, as `RunState`."""

import asyncio
import os

from agents import Agent, Runner, RunState, SQLiteSession, function_tool
from agents.mcp import MCPServerStdio
from model import Steps
from settled_kit import (
    ANSWER,
    OVER,
    RUN,
    STATE,
    TIMEOUT,
    UNKNOWN,
    WAITS,
    WITH_INPUT,
    WORKLOAD,
    call,
    main,
    mcp_command,
    replace,
)

SESSION, WAITING = STATE / "session.sqlite", STATE / "waiting.json"
INPUT = "Take the steps."
TURNS = {"steps": [["a"], ["b"], ["c"]], "approval": [["a"], ["b"]], "parallel": [["a"], ["b", "c"]]}
GATED = {"approval": "b", "parallel": "c"}.get(WORKLOAD)


async def needs_approval(_context, arguments: dict, _call_id: str) -> bool:
    return arguments["step"] == GATED


@function_tool(needs_approval=needs_approval, failure_error_function=None)
async def step(run: str, step: str) -> str:
    """Takes one step of a run."""
    await asyncio.to_thread(call, step)
    return "ok"


async def go(message: str) -> int:
    model = Steps(RUN, TURNS[WORKLOAD])
    if os.environ["TOOL"] == "function":
        return await run(Agent(name="profile", model=model, tools=[step]), message)
    command, arguments = mcp_command()
    async with MCPServerStdio(
        params={"command": command, "args": arguments},
        client_session_timeout_seconds=TIMEOUT,
        failure_error_function=None,
    ) as server:
        return await run(Agent(name="profile", model=model, mcp_servers=[server]), message)


async def run(agent: Agent, message: str | RunState) -> int:
    session = SQLiteSession(RUN, SESSION)
    if ANSWER and WAITING.exists():
        message = await RunState.from_string(agent, WAITING.read_text())
        for interruption in message.get_interruptions():
            message.approve(interruption) if ANSWER == "approve" else message.reject(interruption)
    result = await Runner.run(agent, message, session=session)
    if result.interruptions:
        replace(WAITING, result.to_state().to_string())
        return WAITS
    return OVER


def start() -> int:
    return asyncio.run(go(INPUT))


def resume() -> int:
    if not SESSION.exists():
        return UNKNOWN
    return asyncio.run(go(INPUT if WITH_INPUT else "Go on."))


main(start, resume)
