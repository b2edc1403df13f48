"""An MCP server without an SDK, which starts quickly, over stdio or, with `--http`, over HTTP on a free port: `charge`,
`charge_plain`, `balance`.

Effects and variables are those of ../clients/README.md, and besides:

SERVER_DIE_AT=before-effect|after-effect|after-answer   SIGKILL itself there, noted in `$EFFECTS.kills`; once per `EFFECTS`
SERVER_DIE_AGAIN=1                                      every time instead
SERVER_DATABASE=postgres://…|FILE                       also a row in `charges (customer, cents)`, in PostgreSQL or SQLite

A call with the argument `idempotency_key` is deduplicated: the key is the last word of the effect's line, so that effect
and key are durable in one write.
"""

import http.server
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

EFFECTS = os.environ["EFFECTS"]
DELAY = int(os.environ.get("SERVER_DELAY_MS") or 0)
DELAY_FIRST = int(os.environ.get("SERVER_DELAY_FIRST") or 1 << 60)
DIE_AFTER = int(os.environ.get("SERVER_DIE_AFTER_EFFECT") or 0)
DIE_AT = os.environ.get("SERVER_DIE_AT")
DIE_AGAIN = os.environ.get("SERVER_DIE_AGAIN") == "1"
DATABASE = os.environ.get("SERVER_DATABASE")

DESTRUCTIVE = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
SCHEMA = {"type": "object"}
TOOLS = [
    {"name": "charge", "inputSchema": SCHEMA, "annotations": DESTRUCTIVE},
    {"name": "charge_plain", "inputSchema": SCHEMA},
    {"name": "balance", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
]

output = threading.Lock()
applying = threading.Lock()


def append(file, line):
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(fd, f"{line}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)


def lines(file):
    try:
        with open(file, encoding="utf-8", newline="\n") as text:
            return text.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


def die():
    append(f"{EFFECTS}.kills", f"killed {os.getpid()}")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def die_at(step):
    if DIE_AT == step and (DIE_AGAIN or not lines(f"{EFFECTS}.kills")):
        die()


def insert(customer, cents):
    if DATABASE and DATABASE.startswith("postgres"):
        values = ["-v", f"customer={customer}", "-v", f"cents={cents}"]
        sql = "insert into charges values (:'customer', :cents)".encode()
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", *values, DATABASE], input=sql, check=True)
    elif DATABASE:
        database = sqlite3.connect(DATABASE)
        with database:
            database.execute("insert into charges values (?, ?)", (customer, cents))
        database.close()


def charge(arguments):
    key = arguments.get("idempotency_key")
    with applying:
        known = lines(EFFECTS)
        for line in known:
            if key is not None and line.endswith(f" {key}"):
                return line
        die_at("before-effect")
        millis = time.time_ns() // 1_000_000
        line = f"charge {arguments['customer']} {arguments['cents']} {os.getpid()} {millis}"
        while line in known:
            millis += 1
            line = f"charge {arguments['customer']} {arguments['cents']} {os.getpid()} {millis}"
        if key is not None:
            line += f" {key}"
        append(EFFECTS, line)
        insert(arguments["customer"], arguments["cents"])
        place = lines(EFFECTS).index(line) + 1
        if place == DIE_AFTER:
            die()
    die_at("after-effect")
    if DELAY and place <= DELAY_FIRST:
        time.sleep(DELAY / 1000)
    return line


def write(message):
    with output:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()


def call(id, params, write=write):
    arguments = params.get("arguments") or {}
    charges = params["name"].startswith("charge")
    text = charge(arguments) if charges else str(len(lines(EFFECTS)))
    write({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})
    if charges:
        die_at("after-answer")


def handle(message, write=write, calls=lambda *call_: threading.Thread(target=call, args=call_).start()):
    id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if id is None or method is None:
        return
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "quick", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        return calls(id, params)
    else:
        result = {}
    write({"jsonrpc": "2.0", "id": id, "result": result})


class Posts(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = []
        handle(message, answers.append, lambda id, params: call(id, params, self.answer))
        if answers:
            self.answer(answers[0])
        elif "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def do_GET(self):
        self.send_error(405)

    do_DELETE = do_GET

    def answer(self, message):
        body = json.dumps(message).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


def serve():
    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Posts)
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    # It ends with whoever started it.
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.buffer.read()


def main():
    with open(os.environ["SERVER_PID_FILE"], "w", encoding="utf-8") as pid:
        pid.write(f"{os.getpid()}\n")
    if sys.argv[1:] == ["--http"]:
        return serve()
    for line in sys.stdin.buffer:
        handle(json.loads(line))


main()
