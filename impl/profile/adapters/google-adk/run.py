"""Google ADK: one invocation of a resumable app, its events in a session in SQLite."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.apps import App, ResumabilityConfig
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import FunctionTool
from google.genai import types
from model import Steps
from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WITH_INPUT, WORKLOAD, call, main

APP, USER, CONFIRMATION = "profile", "person", "adk_request_confirmation"
INPUT = types.Content(role="user", parts=[types.Part.from_text(text="Take the steps.")])
TURNS = {"steps": [["a"], ["b"], ["c"]], "approval": [["a"], ["b"]], "parallel": [["a"], ["b", "c"]]}
GATED = {"approval": "b", "parallel": "c"}.get(WORKLOAD)

sessions = SqliteSessionService(str(STATE / "sessions.sqlite"))


async def step(run: str, step: str) -> dict:
    """Takes one step of a run."""
    await asyncio.to_thread(call, step)
    return {"ok": True}


def needs_confirmation(run: str, step: str) -> bool:
    return step == GATED


async def go(message: types.Content | None, invocation: str | None) -> int:
    agent = LlmAgent(
        name="agent",
        model=Steps(model="scripted", run=RUN, turns=TURNS[WORKLOAD]),
        tools=[FunctionTool(step, require_confirmation=needs_confirmation)],
    )
    app = App(name=APP, root_agent=agent, resumability_config=ResumabilityConfig(is_resumable=True))
    runner = Runner(app=app, session_service=sessions)
    code = OVER
    async for event in runner.run_async(user_id=USER, session_id=RUN, invocation_id=invocation, new_message=message):
        if any(call.name == CONFIRMATION for call in event.get_function_calls()):
            code = WAITS
    return code


async def begin() -> int:
    await sessions.create_session(app_name=APP, user_id=USER, session_id=RUN)
    return await go(INPUT, None)


async def go_on() -> int:
    session = await sessions.get_session(app_name=APP, user_id=USER, session_id=RUN)
    if session is None or not session.events:
        return UNKNOWN
    if WITH_INPUT:
        return await go(INPUT, None)
    message = None
    if ANSWER:
        asked = [call for event in session.events for call in event.get_function_calls() if call.name == CONFIRMATION]
        answer = types.FunctionResponse(id=asked[-1].id, name=CONFIRMATION, response={"confirmed": ANSWER == "approve"})
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    return await go(message, session.events[-1].invocation_id)


main(lambda: asyncio.run(begin()), lambda: asyncio.run(go_on()))
