"""A connection on the Python SDK 1.x: to a server that it starts, or to a URL. CLIENT_REVISION is the revision to ask for."""

import os
from datetime import timedelta
from typing import Any

import mcp.types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from held import Held

if revision := os.environ.get("CLIENT_REVISION"):
    # The SDK asks for its latest one only.
    mcp.types.LATEST_PROTOCOL_VERSION = revision


class Connection(Held):
    """See the module."""

    def _transport(self) -> Any:
        if self.target[0] != "--":
            return streamable_http_client(self.target[0])
        _, command, *arguments = self.target
        return stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)))

    async def hold(self) -> None:
        async with (
            self._transport() as (incoming, outgoing, *_),
            self.watched(incoming) as receiver,
            ClientSession(receiver, outgoing) as session,
        ):
            self.session = session
            await session.initialize()
            await self.stay()

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float, meta: dict[str, Any] | None) -> Any:
        timeout = timedelta(seconds=seconds)
        return await self.session.call_tool(tool, arguments, read_timeout_seconds=timeout, meta=meta)

    async def tools(self, cursor: str | None) -> tuple[list[Any], str | None]:
        page = await self.session.list_tools(cursor)
        return page.tools, page.nextCursor
