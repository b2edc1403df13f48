"""The MCP client of openai-agents with its own retries: `python agents_retry.py SCENARIO -- COMMAND [ARG…] | URL`.

`once` makes one call, which the SDK sends again by itself (up to 3 times) when it fails or takes longer than
CLIENT_TIMEOUT_MS; `two-orders` makes two with different amounts. Prints the same JSON line as client.py; a retry of the SDK
is not seen as an attempt.
"""

import asyncio
import os
import sys
from typing import Any

import mcp.types

if revision := os.environ.get("CLIENT_REVISION"):
    mcp.types.LATEST_PROTOCOL_VERSION = revision

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

import scenarios
from scenarios import PATIENT, emit, seen, setting

RETRIES = 3
SCENARIOS = {"once": [500], "two-orders": [500, 700]}


def server(target: list[str]) -> Any:
    options = {
        "client_session_timeout_seconds": setting("CLIENT_TIMEOUT_MS", PATIENT) / 1000,
        "max_retry_attempts": RETRIES,
        "retry_backoff_seconds_base": 0.05,
    }
    if target[0] != "--":
        return MCPServerStreamableHttp({"url": target[0], "timeout": PATIENT / 1000}, **options)
    _, command, *arguments = target
    return MCPServerStdio({"command": command, "args": arguments, "env": dict(os.environ)}, **options)


async def main(scenario: str, target: list[str]) -> None:
    attempts = []
    error = None
    try:
        async with server(target) as connected:
            for number, cents in enumerate(SCENARIOS[scenario], 1):
                arguments = {"customer": "alice", "cents": cents}
                record: dict[str, Any] = {"attempt": number, "arguments": arguments, "result": None, "error": None}
                attempts.append(record)
                try:
                    result = await connected.call_tool(scenarios.TOOL, arguments)
                    record["result"] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
                except Exception as failure:
                    record["error"] = seen(failure)
    except Exception as caught:
        error = seen(caught)
    emit({"client": "openai-agents", "scenario": scenario, "connections": 1, "attempts": attempts, "error": error})


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in SCENARIOS or sys.argv[2:] == ["--"]:
        print(f"usage: agents_retry.py {'|'.join(SCENARIOS)} -- COMMAND [ARG…] | URL", file=sys.stderr)
        sys.exit(2)
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
