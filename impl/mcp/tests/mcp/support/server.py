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
    {"name": "get_charge", "annotations": {"readOnlyHint": True}},
    {"name": "look", "annotations": {}},
    {"name": "look_and_do", "annotations": {"readOnlyHint": False}},
    {"name": "seal_charge"},
    {"name": "shaped", "annotations": {"destructiveHint": True}, "outputSchema": {"type": "object", "required": ["total"]}},
]
if MODE == "status":
    TOOLS.insert(0, {"name": "settled_status"})
if MODE == "other":
    TOOLS[0] = {"name": "read", "annotations": {"readOnlyHint": True}, "inputSchema": {"type": "object", "properties": {"erase": {}}}}
    TOOLS.append({"name": "new_read", "annotations": {"readOnlyHint": True}})
OBSERVERS = ("get_charge", "look", "look_and_do")
state = threading.Lock()


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


def once(name):
    """Whether this is the first time, of all processes."""
    try:
        os.close(os.open("%s.%s" % (EFFECTS, name), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return True
    except FileExistsError:
        return False


def effects():
    try:
        return [json.loads(line) for line in open(EFFECTS)]
    except FileNotFoundError:
        return []


def status(id, status):
    text = json.dumps({"status": status})
    reply(id, result={"content": [{"type": "text", "text": text}], "structuredContent": {"status": status}, "isError": False})


def look(id, arguments):
    """What became of an order, or whatever the test wants instead."""
    try:
        instead = open(EFFECTS + ".observer").read()
    except FileNotFoundError:
        instead = ""
    if instead == "hang":
        return
    if instead == "fail":
        return reply(id, result={"content": [], "structuredContent": {"status": "absent"}, "isError": True})
    if instead == "error":
        return reply(id, error={"code": -32603, "message": "no"})
    if instead:
        return status(id, instead)
    found = any(effect.get("order") == arguments.get("order") for effect in effects())
    status(id, "charged" if found else "absent")


def seal(id, arguments):
    with state:
        if any(effect.get("key") == arguments["key"] for effect in effects()):
            return status(id, "charged")
        attempt = arguments["attempt"] if arguments["scope"] == "attempts" else 1 << 30
        append(EFFECTS + ".seals", json.dumps([arguments["key"], attempt]))
    status(id, "sealed")


def is_sealed(arguments):
    try:
        seals = [json.loads(line) for line in open(EFFECTS + ".seals")]
    except FileNotFoundError:
        return False
    return any(key == arguments.get("key") and arguments.get("attempt", 0) <= attempt for key, attempt in seals)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def call(id, params):
    name, arguments = params.get("name"), params.get("arguments") or {}
    if len(str(params.get("requestState", ""))) < arguments.get("rounds", 0):
        # One round more: each adds a letter to the state.
        so_far = "%ss" % params.get("requestState", "")
        return reply(id, result={"resultType": "input_required", "requestState": so_far, "inputRequests": {"name": {"method": "elicitation/create", "params": {"n": len(so_far)}}}})
    for step in range(arguments.get("steps", 0)):
        token = (params.get("_meta") or {}).get("progressToken")
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step + 1}}))
        time.sleep(arguments.get("step", 0))
    if arguments.get("refuse") or arguments.get("refuse_once") and once("refused"):
        return reply(id, error={"code": -32602, "message": "no such customer"})
    if "hang" in arguments:
        return
    if name in OBSERVERS:
        return look(id, arguments)
    if name == "seal_charge":
        return seal(id, arguments)
    if arguments.get("die_first") and once("died"):
        die()
    if "busy" in arguments and once("busy"):
        return reply(id, error={"code": -32001, "message": "busy", "data": {"seconds": arguments["busy"]}})
    with state:
        if is_sealed(arguments):
            return reply(id, error={"code": -32002, "message": "sealed"})
        if "key" in arguments and "attempt" in arguments and any(e.get("key") == arguments["key"] for e in effects()):
            return status(id, "charged")
    if name != "read":
        append(EFFECTS, json.dumps(arguments))
    if arguments.get("die") or arguments.get("die_once") and len(open(EFFECTS).readlines()) == 1:
        die()
    time.sleep(arguments.get("sleep", 0))
    if MODE == "own-tasks" and "task" in params:
        return reply(id, result={"task": {"taskId": "own-7", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": None}})
    if "big" in arguments:
        return reply(id, result={"content": [{"type": "text", "text": "x" * arguments["big"]}]})
    if arguments.get("fail"):
        return reply(id, result={"content": [{"type": "text", "text": "boom"}], "isError": True})
    write(
        '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}],"big":12345678901234567890.10}}'
        % (json.dumps(id), name)
    )


def handle(line):
    message = json.loads(line)
    if isinstance(message, list) and MODE == "batches":
        for member in message:
            handle(json.dumps(member))
        return
    if not isinstance(message, dict):
        return
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if method == "initialize":
        capabilities = {"tools": {"idempotency": True} if MODE == "keys" else {}}
        if MODE == "own-tasks":
            capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        revision = "2025-11-25" if MODE in ("tasks", "own-tasks") else "2025-06-18"
        reply(id, result={"protocolVersion": revision, "capabilities": capabilities, "serverInfo": {"name": "t", "version": "1"}})
    elif method == "server/discover":
        reply(id, result={"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}})
    elif method == "tools/list" and MODE == "no-list":
        reply(id, error={"code": -32603, "message": "no tools today"})
    elif method == "tools/list":
        if MODE == "slow-list":
            time.sleep(0.5)
        if params.get("cursor") is None:
            reply(id, result={"tools": TOOLS[:2], "nextCursor": "2"})
        else:
            reply(id, result={"tools": TOOLS[2:]})
    elif method == "tools/call":
        call(id, params)
    elif method == "big":
        reply(id, result={"x": "x" * params["bytes"]})
    elif method == "raw":
        write(params["line"])
    elif method == "die":
        die()
    elif method.startswith("tasks/") and MODE == "own-tasks":
        reply(id, result={"taskId": params.get("taskId"), "status": "working", "own": True})
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
