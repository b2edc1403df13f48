"""One connection of an MCP client to a server that it starts, and whether that connection still stands."""

import asyncio
import os
from collections.abc import Awaitable
from typing import TypeVar

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

T = TypeVar("T")


class ConnectionLost(Exception):
    """The connection ended under a call."""


class Connection:
    """A task of its own holds the transport and the session: when the transport fails, only that task is
    cancelled, and a call that waits on it can be told."""

    def __init__(self, number: int, command: list[str]) -> None:
        self.number = number
        self.closed = False
        self.session: ClientSession
        self._command = command
        self._ready = asyncio.Event()
        self._leave = asyncio.Event()
        self._task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        server = StdioServerParameters(command=self._command[0], args=self._command[1:], env=dict(os.environ))
        try:
            async with stdio_client(server) as (incoming, outgoing), anyio.create_task_group() as group:
                # The session doesn't say that its transport has ended, so the messages pass through
                # here, where the end is seen before the session reports it to waiting calls.
                sender, receiver = anyio.create_memory_object_stream(0)

                async def relay() -> None:
                    async with sender:
                        try:
                            async for message in incoming:
                                await sender.send(message)
                        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                            pass
                        self.closed = True

                group.start_soon(relay)
                async with ClientSession(receiver, outgoing) as session:
                    self.session = session
                    self._ready.set()
                    await self._leave.wait()
                group.cancel_scope.cancel()
        finally:
            self.closed = True

    async def opened(self) -> None:
        """Waits until the server runs and has answered `initialize`."""
        await self.during(self._ready.wait())
        await self.during(self.session.initialize())

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
