"""A scripted MCP client over stdio: `python client.py SCENARIO -- COMMAND [ARG…]`.

Prints one JSON line with all that it saw and exits 0, also when calls failed; 2 is a wrong command line.
The scenarios and the environment they read are in ../README.md.
"""

import asyncio
import json
import os
import sys
import time
from datetime import timedelta
from typing import Any

from mcp import McpError

from connection import Connection

RETRIES = 5


def setting(name: str, otherwise: int) -> int:
    return int(os.environ.get(name) or otherwise)


TOOL = os.environ.get("TOOL", "charge")
META = json.loads(os.environ["CALL_META"]) if os.environ.get("CALL_META") else None
IMPATIENT = setting("CLIENT_TIMEOUT_MS", 700)
PATIENT = setting("CLIENT_PATIENCE_MS", 30_000)
LATER = setting("CLIENT_WAIT_MS", 3_000)
PAUSE = setting("CLIENT_PAUSE_MS", 50)

Attempt = dict[str, Any]


def emit(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def seen(error: BaseException) -> dict[str, Any]:
    if isinstance(error, McpError):
        return {"name": "McpError", **error.error.model_dump(mode="json")}
    return {"name": type(error).__name__, "code": None, "message": str(error), "data": None}


def failed(attempt: Attempt) -> bool:
    return attempt["error"] is not None or attempt["result"].get("isError") is True


def arguments_for(cents: int) -> dict[str, Any]:
    return {"customer": "alice"} if TOOL.startswith("balance") else {"customer": "alice", "cents": cents}


class Run:
    """The state of one scenario."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.attempts: list[Attempt] = []
        self.connections = 0
        self.connection: Connection | None = None

    async def connect(self) -> Connection:
        self.connections += 1
        self.connection = Connection(self.connections, self.command)
        try:
            await asyncio.wait_for(self.connection.opened(), PATIENT / 1000)
        except BaseException:
            self.connection.closed = True
            raise
        return self.connection

    async def disconnect(self) -> None:
        if self.connection is not None:
            await self.connection.close()
            self.connection = None

    async def reconnect_if_closed(self) -> None:
        if self.connection is not None and self.connection.closed:
            await self.disconnect()

    async def attempt(self, cents: int = 500, timeout_ms: int = PATIENT) -> Attempt:
        """One call, connecting first if there is no connection; records what came of it."""
        record: Attempt = {
            "attempt": len(self.attempts) + 1,
            "connection": None,
            "arguments": arguments_for(cents),
            "ms": 0,
            "result": None,
            "error": None,
        }
        self.attempts.append(record)
        start = time.monotonic()
        try:
            connection = self.connection or await self.connect()
            record["connection"] = connection.number
            call = connection.session.call_tool(
                TOOL, record["arguments"], read_timeout_seconds=timedelta(milliseconds=timeout_ms), meta=META
            )
            result = await connection.during(call)
            record["result"] = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        except Exception as error:
            record["connection"] = self.connections
            record["error"] = seen(error)
        record["ms"] = int((time.monotonic() - start) * 1000)
        return record


async def once(run: Run) -> None:
    await run.attempt()


async def timeout_retry(run: Run) -> None:
    if failed(await run.attempt(500, IMPATIENT)):
        await run.attempt()


async def timeout_retry_later(run: Run) -> None:
    if failed(await run.attempt(500, IMPATIENT)):
        await asyncio.sleep(LATER / 1000)
        await run.attempt()


async def crash_retry(run: Run) -> None:
    if failed(await run.attempt()):
        await run.reconnect_if_closed()
        await run.attempt()


async def crash_restart_retry(run: Run) -> None:
    await run.attempt()
    await run.disconnect()
    await run.attempt()


async def two_orders(run: Run) -> None:
    await run.attempt(500)
    await run.attempt(700)


async def twice_at_once(run: Run) -> None:
    await run.connect()
    await asyncio.gather(run.attempt(), run.attempt())


async def twice_in_sequence(run: Run) -> None:
    await run.attempt()
    await run.attempt()


async def loop(run: Run) -> dict[str, Any]:
    gave_up = []
    for order in range(setting("START", 1), setting("COUNT", 10) + 1):
        for round_ in range(RETRIES + 1):
            if round_ > 0:
                await asyncio.sleep(PAUSE / 1000)
            await run.reconnect_if_closed()
            last = await run.attempt(order)
            if not failed(last):
                emit({"confirmed": order, "attempts": len(run.attempts), "result": last["result"]})
                break
        else:
            gave_up.append(order)
    return {"gave_up": gave_up}


async def list_tools(run: Run) -> dict[str, Any]:
    connection = await run.connect()
    tools: list[Any] = []
    cursor = None
    while True:
        page = await connection.during(connection.session.list_tools(cursor))
        tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page.tools]
        cursor = page.nextCursor
        if not cursor:
            return {"tools": tools}


SCENARIOS = {
    "once": once,
    "timeout-retry": timeout_retry,
    "timeout-retry-later": timeout_retry_later,
    "crash-retry": crash_retry,
    "crash-restart-retry": crash_restart_retry,
    "two-orders": two_orders,
    "twice-at-once": twice_at_once,
    "twice-in-sequence": twice_in_sequence,
    "loop": loop,
    "list": list_tools,
}


async def main(scenario: str, command: list[str]) -> None:
    run = Run(command)
    more: dict[str, Any] = {}
    error = None
    try:
        more = await SCENARIOS[scenario](run) or {}
    except Exception as caught:
        error = seen(caught)
    emit(
        {
            "client": "python",
            "scenario": scenario,
            "tool": TOOL,
            "connections": run.connections,
            "attempts": run.attempts,
            "error": error,
            **more,
        }
    )
    await run.disconnect()


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in SCENARIOS or sys.argv[2] != "--":
        print(f"usage: client.py SCENARIO -- COMMAND [ARG…]\nscenarios: {' '.join(SCENARIOS)}", file=sys.stderr)
        sys.exit(2)
    asyncio.run(main(sys.argv[1], sys.argv[3:]))
