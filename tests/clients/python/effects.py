"""The effects of a test server: lines of one file, and the faults that can follow a line.

EFFECTS                     the file; one line for each effect: `<verb> <customer> <cents> <pid> <ms>`
SERVER_PID_FILE             where the server writes its pid at start
SERVER_DELAY_MS             how long to wait after an effect, before the answer
SERVER_DELAY_FIRST=K        delay only the effects that wrote the first K lines (unset: all)
SERVER_JSON=1               over HTTP, answer in plain JSON instead of an event stream
SERVER_DIE_AFTER_EFFECT=K   SIGKILL itself right after the K-th line, noted in `$EFFECTS.kills`

Lines are counted in the file, so K keeps its meaning over restarts of the server.
"""

import math
import os
import signal
import socket
import sys
import time
from typing import Any

import anyio


def _number(name: str, otherwise: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit()):
        sys.exit(f"server: {name} must be a whole number, not '{text}'")
    return int(text)


_PATH = os.environ.get("EFFECTS") or sys.exit("server: set EFFECTS to the file that counts the effects")
_DELAY = _number("SERVER_DELAY_MS", 0)
_DELAY_FIRST = _number("SERVER_DELAY_FIRST", math.inf)
_DIE_AFTER = _number("SERVER_DIE_AFTER_EFFECT", 0)

ANSWERS_JSON = os.environ.get("SERVER_JSON") == "1"
"""Over HTTP, answers are plain JSON instead of an event stream."""

_last_millis = 0


def _append(file: str, line: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(fd, f"{line}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def _lines() -> list[str]:
    try:
        with open(_PATH, encoding="utf-8", newline="\n") as file:
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


def count() -> int:
    """How many effects there are, of all servers that share the file."""
    return len(_lines())


def announce() -> None:
    """Writes the pid file, if one is asked for."""
    if file := os.environ.get("SERVER_PID_FILE"):
        with open(file, "w", encoding="utf-8") as pid:
            pid.write(f"{os.getpid()}\n")


def serve(app: Any) -> None:
    """Serves an application on a free port and prints its URL."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    announce()
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])


async def apply(verb: str, customer: str, cents: int) -> str:
    """Makes one effect durable, then dies or waits if told to; returns the line as a receipt."""
    global _last_millis
    # Never the same millisecond twice: pid and time make each line its own, so it can be found
    # again among the lines of servers that write at the same moment.
    _last_millis = max(time.time_ns() // 1_000_000, _last_millis + 1)
    line = f"{verb} {customer} {cents} {os.getpid()} {_last_millis}"
    _append(_PATH, line)
    place = _lines().index(line) + 1
    if place == _DIE_AFTER:
        _append(f"{_PATH}.kills", f"killed {os.getpid()}")
        os.kill(os.getpid(), signal.SIGKILL)
    if _DELAY > 0 and place <= _DELAY_FIRST:
        await anyio.sleep(_DELAY / 1000)
    return line
