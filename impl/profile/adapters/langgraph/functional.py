"""The workloads in the functional API."""

from langgraph.func import entrypoint, task
from langgraph.types import interrupt
from settled_kit import call


@task
def step(name: str) -> str:
    call(name)
    return name


@task
def gated(name: str) -> str:
    if interrupt(f"{name}?") == "approve":
        call(name)
    return name


def build(workload: str, checkpointer):
    @entrypoint(checkpointer=checkpointer)
    def workflow(_: dict) -> list[str]:
        done = [step("a").result()]
        if workload == "approval":
            if interrupt("b?") == "approve":
                done.append(step("b").result())
        elif workload == "parallel":
            done += [future.result() for future in [step("b"), gated("c")]]
        else:
            done += [step("b").result(), step("c").result()]
        return done

    return workflow
