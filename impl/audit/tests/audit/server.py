"""An MCP server whose tools are wrong in one known way each. `server.py DIR` speaks over standard input and output,
`server.py DIR http PORT` over Streamable HTTP. Everything that it does is in DIR; the environment variable SERVER says more:
`garbage` (it prints no JSON, and ends), `mute` (it answers nothing), `many` (1,000 tools), `heartbeat` (a file changes by itself),
`keys` (it announces idempotency keys), `stream` (over HTTP it answers in event streams), `dead` (it ends at once). PIDFILE gets its process id."""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOME = sys.argv[1]
TRAITS = os.environ.get("SERVER", "").split()
LOCK = threading.Lock()
MEMORY = {}
READ_ONLY, IDEMPOTENT = {"readOnlyHint": True}, {"idempotentHint": True}


class Refused(Exception):
    pass


def path(name):
    return os.path.join(HOME, name)


def append(name, text):
    with LOCK, open(path(name), "a") as file:
        file.write(text + "\n")


def read(name):
    try:
        with open(path(name)) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def write(name, text):
    """Whole or not at all: it may be killed as soon as something of it shows. What is beside it is watched."""
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write(text)
    os.replace(file.name, path(name))


def append_tool(a, call):
    append("log.txt", a["id"])
    return "appended"


def put(a, call):
    write(a["id"] + ".txt", "content of " + a["id"])
    return "put"


def keyed(a, call):
    with LOCK:
        known = json.loads(read("keyed.json") or "{}")
        if a["id"] not in known:
            known[a["id"]] = len(known) + 1
            write("keyed.json", json.dumps(known))
        return "record %d" % known[a["id"]]


def in_memory_only(a, call):
    """Knows until it ends what it has done."""
    if a["id"] not in MEMORY:
        MEMORY[a["id"]] = True
        append("memo.txt", a["id"])
    return "done"


def checked(a, call):
    """Looks, and then acts."""
    if a["id"] not in read("checked.txt"):
        time.sleep(0.05)
        append("checked.txt", a["id"])
    return "done"


def racy(a, call):
    """Reads, changes, writes: whoever comes between is lost. Knows what is there."""
    known = json.loads(read("racy.json") or "[]")
    if a["id"] in known:
        return "known"
    time.sleep(0.02)
    with LOCK:
        write("racy.json", json.dumps(known + [a["id"]]))
    return "added"


def counter(a, call):
    """The same, and nothing tells one call's effect from another's."""
    count = int(read("count.txt") or 0)
    time.sleep(0.02)
    with LOCK:
        write("count.txt", str(count + 1))
    return "counted"


def fail_after(a, call):
    append("failed.txt", a["id"])
    raise Refused("something went wrong")


def fail_again(a, call):
    """The first call of an id succeeds; the second takes effect, too, and says that it failed."""
    is_known = a["id"] in read("again.txt")
    append("again.txt", a["id"])
    if is_known:
        raise Refused("it exists")
    return "made"


def rename(a, call):
    try:
        os.rename(path(a["id"] + ".txt"), path(a["id"] + ".moved"))
    except FileNotFoundError:
        raise Refused("no such file")
    return "moved"


def phantom(a, call):
    """Every second call does nothing, and says that it did."""
    MEMORY["calls"] = MEMORY.get("calls", 0) + 1
    if MEMORY["calls"] % 2:
        append("phantom.txt", a["id"])
    return "done"


def peek(a, call):
    append("peeked.txt", "peeked")
    return "nothing to see"


def look(a, call):
    return "nothing to see"


def die(a, call):
    sys.stderr.write("out of cheese, " + os.environ.get("API_TOKEN", "no token") + "\n")
    sys.stderr.flush()
    os._exit(3)


def die_after(a, call):
    append("died.txt", a["id"])
    os._exit(3)


def hang(a, call):
    time.sleep(3600)


def slow(a, call):
    """The effect long before the answer."""
    append("slow.txt", a["id"])
    time.sleep(600)


def insert(a, call):
    with sqlite3.connect(path("shop.db"), timeout=20) as database:
        database.execute("create table if not exists orders (id text, at text)")
        database.execute("insert into orders values (?, ?)", (a["id"], str(time.time())))
    database.close()
    return "inserted"


def upsert(a, call):
    with sqlite3.connect(path("shop.db"), timeout=20) as database:
        database.execute("create table if not exists orders (id text primary key, at text)")
        database.execute("insert or replace into orders values (?, ?)", (a["id"], str(time.time())))
    database.close()
    return "there"


def psql(a, call):
    statement = "insert into orders values ('%s')" % a["id"]
    subprocess.run(["psql", "-q", os.environ["DATABASE"], "-c", statement], check=True, stdout=subprocess.DEVNULL)
    return "inserted"


def add(a, call):
    """A record that lives in memory; `list` shows it."""
    with LOCK:
        MEMORY.setdefault("records", []).append(a["id"])
    return "added"


def list_tool(a, call):
    return json.dumps({"records": MEMORY.get("records", []), "time": time.time()})


def remembered(a, call):
    """Applies a call's key once, and gives the first answer again."""
    key = call.get("idempotencyKey")
    if key is None:
        return append_tool(a, call)
    known = json.loads(read("answers.json") or "{}")
    if key not in known:
        append("remembered.txt", a["id"])
        known[key] = "receipt %s" % time.time()
        write("answers.json", json.dumps(known))
    return known[key]


def misremembered(a, call):
    """Applies a call's key once, and makes up its answer."""
    key = call.get("idempotencyKey")
    if key is None:
        return append_tool(a, call)
    if key not in read("keys.txt"):
        append("keys.txt", key)
    return "receipt %s" % time.time()


def log(a, call):
    """Does nothing twice, but keeps a log of what it was asked."""
    append("access.log", "asked at %s" % time.time())
    return put(a, call)


TOOLS = {
    "append": (append_tool, IDEMPOTENT), "put": (put, {}), "keyed": (keyed, IDEMPOTENT), "memo": (in_memory_only, {}),
    "checked": (checked, {}), "racy": (racy, {}), "counter": (counter, {}), "fail_after": (fail_after, {}),
    "fail_again": (fail_again, {}), "rename": (rename, {}), "phantom": (phantom, {}), "peek": (peek, READ_ONLY),
    "look": (look, READ_ONLY), "die": (die, {}), "die_after": (die_after, {}), "hang": (hang, {}), "slow": (slow, {}),
    "insert": (insert, {}), "upsert": (upsert, {}), "psql": (psql, {}), "add": (add, {}), "list": (list_tool, READ_ONLY),
    "remembered": (remembered, {}), "misremembered": (misremembered, {}), "log": (log, {}),
}
SCHEMA = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def listing():
    tools = [{"name": n, "inputSchema": SCHEMA, "annotations": t[1]} for n, t in TOOLS.items() if n not in ("look", "list")]
    tools += [{"name": n, "inputSchema": {"type": "object"}, "annotations": TOOLS[n][1]} for n in ("look", "list")]
    tools.append({"name": "odd", "inputSchema": {
        "type": "object", "required": ["code"], "properties": {"code": {"type": "string", "pattern": "^[A-Z]{3}$"}}}})
    if "many" in TRAITS:
        tools += [{"name": "tool%d" % n, "inputSchema": SCHEMA} for n in range(1000)]
    return tools


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        capabilities = {"tools": {"idempotency": True}} if "keys" in TRAITS else {"tools": {}}
        about = {"name": 'a {b} "c"' if "odd-name" in TRAITS else "known-defects", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": about}
    if method == "tools/list":
        tools, start = listing(), int(params.get("cursor", 0))
        page = {"tools": tools[start:start + 100]}
        if start + 100 < len(tools):
            page["nextCursor"] = str(start + 100)
        return page
    if method == "tools/call":
        try:
            text, is_error = TOOLS[params["name"]][0](params.get("arguments") or {}, params), False
        except Refused as refusal:
            text, is_error = str(refusal), True
        return {"content": [{"type": "text", "text": text}], "isError": is_error}
    return {}


def respond(message):
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)})


def say(text):
    with LOCK:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def over_stdio():
    for line in sys.stdin:
        if "garbage" in TRAITS:
            say("Welcome to my server!")
            sys.exit("goodbye")
        message = json.loads(line)
        if "id" in message and "mute" not in TRAITS:
            threading.Thread(target=lambda message=message: say(respond(message)), daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if os.environ.get("API_TOKEN") and self.headers["Authorization"] != "Bearer " + os.environ["API_TOKEN"]:
            return self.send(401, "text/plain", "who are you?")
        if "id" not in message:
            return self.send(202, "text/plain", "")
        body = respond(message)
        if "stream" in TRAITS:
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
            return self.send(200, "text/event-stream", "data: %s\n\ndata: %s\n\n" % (note, body))
        return self.send(200, "application/json", body)

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *arguments):
        pass


def beat():
    count = 0
    while True:
        count += 1
        write("heartbeat.txt", str(count))
        time.sleep(0.005)


if __name__ == "__main__":
    if "dead" in TRAITS:
        sys.exit("I have no configuration")
    if "heartbeat" in TRAITS:
        threading.Thread(target=beat, daemon=True).start()
    if "PIDFILE" in os.environ:
        with open(os.environ["PIDFILE"], "w") as file:
            file.write(str(os.getpid()))
    if len(sys.argv) > 2:
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Handler).serve_forever()
    else:
        over_stdio()
