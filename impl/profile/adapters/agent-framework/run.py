"""Microsoft Agent Framework: a workflow of executors, checkpointed to files, resumed from the latest checkpoint."""

import asyncio

from agent_framework import (
    Executor,
    FileCheckpointStorage,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    WorkflowRunState,
    handler,
    response_handler,
)
from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WORKLOAD, call, main


class Step(Executor):
    @handler
    async def take(self, message: str, ctx: WorkflowContext[str]) -> None:
        await asyncio.to_thread(call, self.id)
        await ctx.send_message(message)


class Approval(Executor):
    """Asks a person, and goes on if the answer is yes."""

    @handler
    async def ask(self, message: str, ctx: WorkflowContext[str]) -> None:
        await ctx.request_info(request_data=message, response_type=str)

    @response_handler
    async def answered(self, request: str, response: str, ctx: WorkflowContext[str]) -> None:
        if response == "approve":
            await ctx.send_message(request)


def workflow(storage: FileCheckpointStorage) -> Workflow:
    a, b, c, approval = Step(id="a"), Step(id="b"), Step(id="c"), Approval(id="approval")
    builder = WorkflowBuilder(name=RUN, start_executor=a, checkpoint_storage=storage)
    if WORKLOAD == "steps":
        builder.add_edge(a, b).add_edge(b, c)
    elif WORKLOAD == "approval":
        builder.add_edge(a, approval).add_edge(approval, b)
    else:
        builder.add_fan_out_edges(a, [b, approval]).add_edge(approval, c)
    return builder.build()


async def begin() -> int:
    result = await workflow(FileCheckpointStorage(STATE)).run(RUN)
    return code(result)


async def go_on() -> int:
    storage = FileCheckpointStorage(STATE)
    checkpoint = await storage.get_latest(workflow_name=RUN)
    if checkpoint is None:
        return UNKNOWN
    responses = {request: ANSWER for request in checkpoint.pending_request_info_events} if ANSWER else None
    result = await workflow(storage).run(checkpoint_id=checkpoint.checkpoint_id, responses=responses or None)
    return code(result)


def code(result) -> int:
    return WAITS if result.get_final_state() == WorkflowRunState.IDLE_WITH_PENDING_REQUESTS else OVER


main(lambda: asyncio.run(begin()), lambda: asyncio.run(go_on()))
