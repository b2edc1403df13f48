"""LlamaIndex Workflows: the run's context is saved to a file after each step, and read back from it."""

import asyncio
import json

from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WORKLOAD, call, main, replace
from workflows import Context, Workflow, step
from workflows.events import (
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StepState,
    StepStateChanged,
    StopEvent,
    WorkflowIdleEvent,
)

SNAPSHOT = STATE / f"{RUN}.json"


class B(Event): ...


class C(Event): ...


class Done(Event): ...


async def call_tool(name: str) -> None:
    await asyncio.to_thread(call, name)


async def approved(ctx: Context, name: str) -> bool:
    question = InputRequiredEvent(prefix=f"{name}?")
    return (await ctx.wait_for_event(HumanResponseEvent, waiter_event=question, waiter_id=name)).response == "approve"


class Steps(Workflow):
    @step
    async def a(self, ev: StartEvent) -> B:
        await call_tool("a")
        return B()

    @step
    async def b(self, ev: B) -> C:
        await call_tool("b")
        return C()

    @step
    async def c(self, ev: C) -> StopEvent:
        await call_tool("c")
        return StopEvent()


class Approval(Workflow):
    @step
    async def a(self, ev: StartEvent) -> B:
        await call_tool("a")
        return B()

    @step
    async def b(self, ctx: Context, ev: B) -> StopEvent:
        if await approved(ctx, "b"):
            await call_tool("b")
        return StopEvent()


class Parallel(Workflow):
    @step
    async def a(self, ctx: Context, ev: StartEvent) -> B | C | None:
        await call_tool("a")
        ctx.send_event(B())
        ctx.send_event(C())

    @step
    async def b(self, ev: B) -> Done:
        await call_tool("b")
        return Done()

    @step
    async def c(self, ctx: Context, ev: C) -> Done:
        if await approved(ctx, "c"):
            await call_tool("c")
        return Done()

    @step
    async def end(self, ctx: Context, ev: Done) -> StopEvent | None:
        return StopEvent() if ctx.collect_events(ev, [Done, Done]) else None


WORKFLOW = {"steps": Steps, "approval": Approval, "parallel": Parallel}[WORKLOAD](timeout=None)


async def run(ctx: Context | None) -> int:
    handler = WORKFLOW.run(ctx=ctx)
    if ctx and ANSWER:
        handler.ctx.send_event(HumanResponseEvent(response=ANSWER))
    async for event in handler.stream_events(expose_internal=True):
        if isinstance(event, StepStateChanged) and event.step_state == StepState.NOT_RUNNING:
            save(handler)
        elif isinstance(event, WorkflowIdleEvent):
            save(handler)
            return WAITS
    await handler
    return OVER


def save(handler) -> None:
    replace(SNAPSHOT, json.dumps(handler.ctx.to_dict()))


def start() -> int:
    return asyncio.run(run(None))


def resume() -> int:
    if not SNAPSHOT.exists():
        return UNKNOWN
    return asyncio.run(run(Context.from_dict(WORKFLOW, json.loads(SNAPSHOT.read_text()))))


main(start, resume)
