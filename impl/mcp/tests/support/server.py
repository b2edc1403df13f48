"""An MCP server for tests: writes down every line it gets and every effect it has, and misbehaves as it is told."""

import json
import os
import signal
import sys
import threading
import time

LOG, EFFECTS = sys.argv[1], sys.argv[2]
MODE = sys.argv[3] if len(sys.argv) > 3 else ""
out = threading.Lock()

TOOLS = [
    {"name": "read", "annotations": {"readOnlyHint": True}},
    {"name": "charge", "annotations": {"destructiveHint": True, "idempotentHint": False}},
    {"name": "plain"},
    {"name": "pay", "annotations": {"destructiveHint": True}},
]


def append(path, text):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(fd, text.encode() + b"\n")
    os.close(fd)


def write(text):
    with out:
        sys.stdout.buffer.write(text.encode() + b"\n")
        sys.stdout.buffer.flush()


def reply(id, **body):
    write(json.dumps({"jsonrpc": "2.0", "id": id, **body}))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def call(id, params):
    name, arguments = params.get("name"), params.get("arguments") or {}
    if arguments.get("refuse"):
        return reply(id, error={"code": -32602, "message": "no such customer"})
    if "hang" in arguments:
        return
    if name != "read":
        append(EFFECTS, json.dumps(arguments))
    if arguments.get("die") or arguments.get("die_once") and len(open(EFFECTS).readlines()) == 1:
        die()
    time.sleep(arguments.get("sleep", 0))
    if arguments.get("fail"):
        return reply(id, result={"content": [{"type": "text", "text": "boom"}], "isError": True})
    write(
        '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}],"big":12345678901234567890.10}}'
        % (json.dumps(id), name)
    )


def handle(line):
    message = json.loads(line)
    if not isinstance(message, dict):
        return
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "initialize":
        reply(id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}})
    elif method == "tools/list":
        if MODE == "slow-list":
            time.sleep(0.5)
        if params.get("cursor") is None:
            reply(id, result={"tools": TOOLS[:2], "nextCursor": "2"})
        else:
            reply(id, result={"tools": TOOLS[2:]})
    elif method == "tools/call":
        call(id, params)
    elif method == "raw":
        write(params["line"])
    elif method == "die":
        die()
    elif method == "ping":
        reply(id, result={})


def main():
    if MODE == "exit":
        sys.exit(3)
    append(LOG, "started %d" % os.getpid())
    for line in sys.stdin.buffer:
        line = line.decode("utf-8", "replace").rstrip("\n")
        append(LOG, line)
        if '"deaf"' in line:
            os.close(0)
            append(LOG, "deaf now")
            time.sleep(0.6)
            os._exit(0)
        try:
            json.loads(line)
        except ValueError:
            continue
        threading.Thread(target=handle, args=(line,), daemon=True).start()
    append(LOG, "end of input")


main()
