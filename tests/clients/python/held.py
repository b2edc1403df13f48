"""One connection of an MCP client, and whether it still stands: what both SDKs have in common."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio

T = TypeVar("T")


class ConnectionLost(Exception):
    """The connection ended under a call."""


class Held:
    """A task of its own holds the transport and the session: when the transport fails, only that task is
    cancelled, and a call that waits on it can be told."""

    def __init__(self, number: int, target: list[str]) -> None:
        self.number = number
        self.target = target
        self.closed = False
        self._ready = asyncio.Event()
        self._leave = asyncio.Event()
        self._task = asyncio.create_task(self._hold())

    async def hold(self) -> None:
        """Opens the session, calls `self.stay()`, and closes it."""
        raise NotImplementedError

    async def _hold(self) -> None:
        try:
            await self.hold()
        finally:
            self.closed = True

    async def stay(self) -> None:
        """Stays until the connection is to be closed."""
        self._ready.set()
        await self._leave.wait()

    @asynccontextmanager
    async def watched(self, incoming: Any) -> AsyncIterator[Any]:
        """A session doesn't say that its transport has ended, so the messages pass through here, where the end is seen
        before the session reports it to waiting calls."""
        sender, receiver = anyio.create_memory_object_stream(0)

        async def relay() -> None:
            async with sender:
                try:
                    async for message in incoming:
                        await sender.send(message)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass
                self.closed = True

        async with anyio.create_task_group() as group:
            group.start_soon(relay)
            yield receiver
            group.cancel_scope.cancel()

    async def opened(self) -> None:
        """Waits until the session is open."""
        await self.during(self._ready.wait())

    async def during(self, work: Awaitable[T]) -> T:
        """Awaits `work`, but not beyond the end of the connection."""
        job = asyncio.ensure_future(work)
        await asyncio.wait({job, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not job.done():
            job.cancel()
            await asyncio.wait({job})
            raise ConnectionLost(self._why())
        try:
            return job.result()
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            # The transport has failed but may take seconds to end the server.
            self.closed = True
            raise ConnectionLost("the connection does not take messages any more") from error

    def _why(self) -> str:
        error = self._task.exception()
        while nested := getattr(error, "exceptions", None):
            error = nested[0]
        return f"{type(error).__name__}: {error}" if error else "the connection ended"

    async def close(self) -> None:
        """Ends the connection as the SDK does: closed standard input, then signals."""
        self._leave.set()
        await asyncio.wait({self._task})
        # Reading the exception marks it as seen; a transport that broke on the way out is no finding.
        if not self._task.cancelled():
            self._task.exception()
