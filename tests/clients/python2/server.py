"""An MCP server whose tools have effects that can be counted, over stdio or, with `--http`, over HTTP on a free port.

On the SDK 2.x; see ../python/effects.py for its faults.
"""

import sys
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp_types import ToolAnnotations
from pydantic import Field

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

import effects

DESTRUCTIVE = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=False)

# No white space: the name is one word of a line of the effects file.
Customer = Annotated[str, Field(pattern=r"^\S+$")]

server = MCPServer("settled-test-server", log_level="ERROR")


@server.tool(annotations=DESTRUCTIVE)
async def charge(customer: Customer, cents: int) -> str:
    """Charges a customer."""
    return await effects.apply("charge", customer, cents)


@server.tool()
async def charge_plain(customer: Customer, cents: int) -> str:
    """Charges a customer; carries no annotations."""
    return await effects.apply("charge", customer, cents)


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
async def balance(customer: Customer) -> int:
    """The number of effects so far."""
    return effects.count()


@server.tool()
async def balance_plain(customer: Customer) -> int:
    """The number of effects so far; carries no annotations."""
    return effects.count()


@server.tool(annotations=ToolAnnotations(idempotentHint=True))
async def set_limit(customer: Customer, cents: int) -> str:
    """Sets the limit of a customer."""
    return await effects.apply("set_limit", customer, cents)


@server.tool(annotations=DESTRUCTIVE)
async def fail_after(customer: Customer, cents: int) -> str:
    """Charges a customer, then fails."""
    raise RuntimeError(f"failed after: {await effects.apply('charge', customer, cents)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--http"]:
        effects.serve(server.streamable_http_app(json_response=effects.ANSWERS_JSON))
    else:
        effects.announce()
        server.run("stdio")
