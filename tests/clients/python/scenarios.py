"""The scenarios of a scripted MCP client, whichever SDK its connections are made with: see ../README.md.

A client prints one JSON line with all that it saw and exits 0, also when calls failed; 2 is a wrong command line.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

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
    # Both SDKs' errors of the protocol carry one of these; their classes differ.
    if (details := getattr(error, "error", None)) is not None and hasattr(details, "model_dump"):
        return {"name": "McpError", **details.model_dump(mode="json")}
    return {"name": type(error).__name__, "code": None, "message": str(error), "data": None}


def failed(attempt: Attempt) -> bool:
    return attempt["error"] is not None or attempt["result"].get("isError") is True


def arguments_for(cents: int) -> dict[str, Any]:
    return {"customer": "alice"} if TOOL.startswith("balance") else {"customer": "alice", "cents": cents}


class Run:
    """The state of one scenario. `make` makes a connection, given its number."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make
        self.attempts: list[Attempt] = []
        self.connections = 0
        self.connection: Any = None

    async def connect(self) -> Any:
        self.connections += 1
        self.connection = self.make(self.connections)
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
            call = connection.call(TOOL, record["arguments"], timeout_ms / 1000, META)
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


async def reconnect_retry(run: Run) -> None:
    if not failed(await run.attempt(500, IMPATIENT)):
        return
    for _ in range(RETRIES):
        await run.disconnect()
        await asyncio.sleep(PAUSE / 1000)
        if (await run.attempt())["error"] is None:
            return


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
        page, cursor = await connection.during(connection.tools(cursor))
        tools += [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in page]
        if not cursor:
            return {"tools": tools}


SCENARIOS = {
    "once": once,
    "timeout-retry": timeout_retry,
    "timeout-retry-later": timeout_retry_later,
    "crash-retry": crash_retry,
    "crash-restart-retry": crash_restart_retry,
    "reconnect-retry": reconnect_retry,
    "two-orders": two_orders,
    "twice-at-once": twice_at_once,
    "twice-in-sequence": twice_in_sequence,
    "loop": loop,
    "list": list_tools,
}


async def run(client: str, scenario: str, make: Callable[[int], Any]) -> None:
    """Goes through a scenario and prints what came of it."""
    state = Run(make)
    more: dict[str, Any] = {}
    error = None
    try:
        more = await SCENARIOS[scenario](state) or {}
    except Exception as caught:
        error = seen(caught)
    emit(
        {
            "client": client,
            "scenario": scenario,
            "tool": TOOL,
            "connections": state.connections,
            "attempts": state.attempts,
            "error": error,
            **more,
        }
    )
    await state.disconnect()


def main(client: str, connection: type) -> None:
    """The command line: a scenario, then `-- COMMAND…` or a URL."""
    scenario, *target = sys.argv[1:] or [""]
    is_target = target[:1] == ["--"] and len(target) > 1 or "".join(target[:1]).startswith("http")
    if scenario not in SCENARIOS or not is_target:
        print(f"usage: client.py SCENARIO -- COMMAND [ARG…] | URL\nscenarios: {' '.join(SCENARIOS)}", file=sys.stderr)
        sys.exit(2)
    asyncio.run(run(client, scenario, lambda number: connection(number, target)))
