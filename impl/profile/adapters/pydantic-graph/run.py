"""pydantic-graph: a graph whose state is persisted in a JSON file, run node by node."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from pydantic_graph import BaseNode, End, EndSnapshot, Graph, GraphRun, GraphRunContext
from pydantic_graph.persistence.file import FileStatePersistence
from settled_kit import ANSWER, OVER, RUN, STATE, UNKNOWN, WAITS, WORKLOAD, call, main

FILE = STATE / f"{RUN}.json"


@dataclass
class A(BaseNode[None, None, None]):
    async def run(self, _: GraphRunContext) -> B | Wait:
        await asyncio.to_thread(call, "a")
        return B() if WORKLOAD == "steps" else Wait()


@dataclass
class Wait(BaseNode[None, None, None]):
    """The run stops before this node; the answer is given to the next one."""

    async def run(self, _: GraphRunContext) -> Decide:
        raise RuntimeError("there is no answer yet")


@dataclass
class Decide(BaseNode[None, None, None]):
    answer: str

    async def run(self, _: GraphRunContext) -> B | End[None]:
        return B() if self.answer == "approve" else End(None)


@dataclass
class B(BaseNode[None, None, None]):
    async def run(self, _: GraphRunContext) -> C | End[None]:
        await asyncio.to_thread(call, "b")
        return C() if WORKLOAD == "steps" else End(None)


@dataclass
class C(BaseNode[None, None, None]):
    async def run(self, _: GraphRunContext) -> End[None]:
        await asyncio.to_thread(call, "c")
        return End(None)


GRAPH = Graph(nodes=(A, Wait, Decide, B, C))


async def go(run: GraphRun) -> int:
    if ANSWER:
        await run.next(Decide(ANSWER))
    while not isinstance(run.next_node, End):
        if isinstance(run.next_node, Wait):
            return WAITS
        await run.next()
    return OVER


async def begin() -> int:
    async with GRAPH.iter(A(), persistence=FileStatePersistence(FILE)) as run:
        return await go(run)


async def go_on() -> int:
    if not FILE.exists():
        return UNKNOWN
    persistence = FileStatePersistence(FILE)
    persistence.set_graph_types(GRAPH)
    history = await persistence.load_all()
    if history and isinstance(history[-1], EndSnapshot):
        return OVER
    async with GRAPH.iter_from_persistence(persistence) as run:
        return await go(run)


main(lambda: asyncio.run(begin()), lambda: asyncio.run(go_on()))
