"""What every adapter in Python does alike: what it was told, how it calls the tool, how it ends."""

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

OVER, WAITS, UNKNOWN = 0, 75, 69  # exit codes: the run is over, waits for an approval, isn't known

WORKLOAD = os.environ["PROFILE_WORKLOAD"]
RUN = os.environ["PROFILE_RUN"]
STATE = Path(os.environ["PROFILE_STATE"])
TIMEOUT = float(os.environ["PROFILE_TIMEOUT"])
ANSWER = os.environ.get("PROFILE_ANSWER") or None  # "approve" or "deny", on resume
WITH_INPUT = os.environ.get("PROFILE_FORM") == "input"  # resume with the original input


def call(step: str) -> None:
    """One call of the tool over HTTP."""
    request = urllib.request.Request(
        os.environ["PROFILE_TOOL_URL"],
        data=json.dumps({"run": RUN, "step": step}).encode(),
        headers={"Content-Type": "application/json", "Idempotency-Key": f'"{RUN}/{step}"'},
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        json.load(response)


def mcp_command() -> tuple[str, list[str]]:
    """The command of the tool's server over MCP, and its arguments."""
    command, *arguments = json.loads(os.environ["PROFILE_MCP_COMMAND"])
    return command, arguments


def replace(path: Path, text: str) -> None:
    """Writes a file whole: whoever is killed meanwhile, or reads it, has what was there before."""
    own = path.with_name(f"{path.name}.{os.getpid()}")
    with own.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    own.replace(path)


def main(start: Callable[[], int], resume: Callable[[], int]) -> None:
    """Does what the command line says, and exits with what it returns, or with 1 and the reason."""
    try:
        code = {"start": start, "resume": resume}[sys.argv[1]]()
    except Exception as error:
        while isinstance(error, ExceptionGroup) and error.exceptions:
            error = error.exceptions[0]
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stdout.flush()
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1)
    sys.exit(code)
