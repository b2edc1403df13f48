"""CrewAI: one flow, its state persisted in SQLite after each method, or checkpointed after each method."""

import os

import flows
from crewai import CheckpointConfig
from crewai.flow.async_feedback import HumanFeedbackPending
from crewai.flow.persistence import SQLiteFlowPersistence, persist
from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WORKLOAD, main

FLOW = {"steps": flows.Steps, "approval": flows.Approval, "parallel": flows.Parallel}[WORKLOAD]
CHECKPOINTS = STATE / "checkpoints"


def code(result) -> int:
    return WAITS if isinstance(result, HumanFeedbackPending) else OVER


def persisted():
    persistence = SQLiteFlowPersistence(str(STATE / "flows.sqlite"))
    return persist(persistence)(FLOW), persistence


def kickoff() -> int:
    flow, persistence = persisted()
    return code(flow(persistence=persistence).kickoff(inputs={"id": RUN}))


def feedback() -> int:
    flow, persistence = persisted()
    if persistence.load_pending_feedback(RUN) is None:
        return UNKNOWN
    return code(flow.from_pending(RUN, persistence).resume(ANSWER))


def checkpointed(restore_from=None) -> int:
    config = CheckpointConfig(
        location=str(CHECKPOINTS), on_events=["method_execution_finished"], restore_from=restore_from
    )
    return code(FLOW().kickoff(from_checkpoint=config))


def restored() -> int:
    saved = sorted(CHECKPOINTS.rglob("*.json"), key=lambda path: path.stat().st_mtime)
    return checkpointed(saved[-1]) if saved else UNKNOWN


if os.environ["DURABILITY"] == "checkpoint":
    main(checkpointed, restored)
else:
    main(kickoff, lambda: feedback() if ANSWER else kickoff())
