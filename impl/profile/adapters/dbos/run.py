"""DBOS: one durable workflow, recovered by `launch()`."""

import os

from dbos import DBOS, DBOSConfig, SetWorkflowID, error
from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WITH_INPUT, WORKLOAD, call, main

# The workflow that an approval is sent to.
WAITER = f"{RUN}-c" if WORKLOAD == "parallel" else RUN


@DBOS.step()
def step(name: str) -> None:
    call(name)


@DBOS.workflow()
def workflow(workload: str) -> None:
    step("a")
    if workload == "steps":
        step("b")
        step("c")
    elif workload == "approval":
        DBOS.set_event("waits", "b")
        after_approval("b")
    else:
        with SetWorkflowID(WAITER):
            child = DBOS.start_workflow(gated, "c")
        step("b")
        DBOS.set_event("waits", "c")
        child.get_result()


@DBOS.workflow()
def gated(name: str) -> None:
    after_approval(name)


def after_approval(name: str) -> None:
    if DBOS.recv("approval", timeout_seconds=3600) == "approve":
        step(name)


def launch() -> None:
    config: DBOSConfig = {
        "name": "settled-profile",
        "system_database_url": os.environ.get("PROFILE_POSTGRES") or f"sqlite:///{STATE / 'dbos.sqlite'}",
        "executor_id": "settled-profile",
        "application_version": "1",
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()


def wait(handle) -> int:
    """Waits until the workflow has ended, or waits for an approval."""
    try:
        if WORKLOAD == "steps" or ANSWER or DBOS.get_event(RUN, "waits", timeout_seconds=3600) is None:
            handle.get_result()
        if handle.get_status().status != "SUCCESS":
            os._exit(WAITS)  # `recv` holds its thread for as long as it waits; a service would stay up
        return OVER
    except KeyboardInterrupt:
        DBOS.cancel_workflow(RUN)
        raise
    finally:
        DBOS.destroy()


def start() -> int:
    launch()
    with SetWorkflowID(RUN):
        return wait(DBOS.start_workflow(workflow, WORKLOAD))


def resume() -> int:
    if WITH_INPUT:
        return start()
    launch()
    try:
        handle = DBOS.retrieve_workflow(RUN)
    except error.DBOSNonExistentWorkflowError:
        return UNKNOWN
    if handle.get_status().status == "CANCELLED":
        handle = DBOS.resume_workflow(RUN)
    if ANSWER:
        DBOS.send(WAITER, ANSWER, topic="approval")
    return wait(handle)


main(start, resume)
