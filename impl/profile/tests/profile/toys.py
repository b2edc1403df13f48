"""Toy frameworks that are known to behave in some way, so that the harness must say so. Standard library only."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

RUN, STATE = os.environ["PROFILE_RUN"], Path(os.environ["PROFILE_STATE"])
TOY, WORKLOAD = os.environ["TOY"], os.environ["PROFILE_WORKLOAD"]
ANSWER, RESUMED = os.environ.get("PROFILE_ANSWER"), sys.argv[1] == "resume"
TIMEOUT = float(os.environ["PROFILE_TIMEOUT"])
JOURNAL = STATE / "journal"
# Whoever starts the tests may have it ignored: `nohup`, or a script that has them in its background.
signal.signal(signal.SIGINT, signal.default_int_handler)


def post(url, message, headers=()):
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **dict(headers)}
    request = urllib.request.Request(url, data=json.dumps(message).encode(), headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        return response.headers, response.read().decode()


def mcp(send):
    """Calls over MCP: `send` takes a message and returns the answer to it, if it is owed one."""
    send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "toy", "version": "1"}}})
    send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(step):
        answer = send({"jsonrpc": "2.0", "id": step, "method": "tools/call",
                       "params": {"name": "step", "arguments": {"run": RUN, "step": step}}})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"the tool says {json.dumps(answer)}")
    return call


def over_stdio():
    server = subprocess.Popen(json.loads(os.environ["PROFILE_MCP_COMMAND"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(message):
        server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        while "id" in message:
            line = server.stdout.readline()
            if not line:
                raise RuntimeError("the server has gone")
            answer = json.loads(line)
            if answer.get("id") == message["id"] and "method" not in answer:
                return answer
    return mcp(send)


def over_http():
    session = {}

    def send(message):
        headers, body = post(os.environ["PROFILE_MCP_URL"], message, session)
        if "Mcp-Session-Id" in headers:
            session["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        lines = [line[5:] for line in body.splitlines() if line.startswith("data:")] or [body]
        answers = [json.loads(line) for line in lines if line.strip()]
        return next((answer for answer in answers if answer.get("id") == message.get("id")), None)
    return mcp(send)


def plain(step):
    post(os.environ["PROFILE_TOOL_URL"], {"run": RUN, "step": step}, {"Idempotency-Key": f'"{RUN}/{step}"'})


CALL = {"http": lambda: plain, "mcp-stdio": over_stdio, "mcp-http": over_http}[os.environ["TRANSPORT"]]()


def done():
    return JOURNAL.read_text().split() if JOURNAL.exists() else []


def record(step):
    with JOURNAL.open("a") as file:
        file.write(step + "\n")
        file.flush()
        os.fsync(file.fileno())


def step(name):
    if name in done():
        return
    if TOY == "intent":  # never twice, whatever happens
        record(name)
        CALL(name)
        return
    for left in reversed(range({"tries-thrice": 3, "tries-on": 99}.get(TOY, 1))):  # a policy that calls again
        try:
            CALL(name)
            break
        except OSError:
            if left == 0:
                raise
    if TOY == "twice":  # a retry that nobody asked for
        CALL(name)
    record(name)


def run():
    step("a")
    if WORKLOAD == "approval":
        if ANSWER is None:
            sys.exit(75)
        if ANSWER == "approve":
            step("b")
        return
    if TOY == "short":  # it says that it is over, and is not
        return
    step("b")
    step("c")


if RESUMED:
    if TOY == "forgets":
        sys.exit(69)
    if TOY == "hangs":
        time.sleep(600)
    if TOY == "gives-up":
        print("Traceback\n\x1b[31mGivenUp: no way on with", STATE / "x", "\x1b[0m", file=sys.stderr)
        sys.exit(3)
if TOY == "detached":  # the work is done by a process that has left the group
    if len(sys.argv) == 2:
        child = subprocess.Popen([sys.executable, __file__, sys.argv[1], "child"], start_new_session=True)
        Path(os.environ["TOY_PIDS"], RUN).open("a").write(f"{child.pid}\n")
        sys.exit(child.wait())
if TOY in ("leaves", "escapes"):  # something is left behind; what escapes has nothing that names the run
    escapes = {"env": {}, "cwd": "/", "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, **(escapes if TOY == "escapes" else {}))
    Path(os.environ["TOY_PIDS"], RUN).open("a").write(f"{child.pid}\n")
run()
