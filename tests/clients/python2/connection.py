"""A connection on the Python SDK 2.x: to a server that it starts, or to a URL. CLIENT_REVISION is the revision to speak."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp.client.session
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from held import Held

STATELESS = "2026-07-28"
REVISION = os.environ.get("CLIENT_REVISION", STATELESS)
# The SDK asks for its latest older one only.
mcp.client.session.LATEST_HANDSHAKE_VERSION = REVISION


class Connection(Held):
    """See the module."""

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        if self.target[0] == "--":
            _, command, *arguments = self.target
            transport = stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)))
        else:
            transport = streamable_http_client(self.target[0])
        async with transport as (incoming, outgoing), self.watched(incoming) as receiver:
            yield receiver, outgoing

    async def hold(self) -> None:
        mode = STATELESS if REVISION == STATELESS else "legacy"
        async with Client(self._transport(), mode=mode, cache=None) as client:
            self.client = client
            await self.stay()

    async def call(self, tool: str, arguments: dict[str, Any], seconds: float, meta: dict[str, Any] | None) -> Any:
        return await self.client.call_tool(tool, arguments, read_timeout_seconds=seconds, meta=meta)

    async def tools(self, cursor: str | None) -> tuple[list[Any], str | None]:
        page = await self.client.list_tools(cursor=cursor)
        return page.tools, page.next_cursor
