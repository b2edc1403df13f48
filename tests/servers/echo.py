"""An MCP server that writes down the bytes of every line it gets in `HEARD`, and says what it is told to. Over stdio or, with
`--http`, over HTTP on a free port (its URL is the first line of its output), where the body of each POST is a line; answers are
JSON, or events of a stream if the method is in `STREAMED`.

say    params: a list of texts, each written as a line as it is
hex    params: a list of lines in hexadecimal
fill   params: a number of bytes, for a result that is at least so long

The tools `read` (its answer has the call's own parameters in it) and `wait` (answered only when it is cancelled) are read-only.
Any other method is unknown. Ids and parameters are repeated as they were written, so a line must have its members in the order
jsonrpc, id, method, params for that.
"""

import json
import os
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ID = re.compile(rb'^\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(.*?)\s*,\s*"method"\s*:', re.S)
READ_ONLY = b'"annotations":{"readOnlyHint":true},"inputSchema":{"type":"object","x":1.10}'

waiting = []
answers = threading.local()


def write(line):
    if (lines := getattr(answers, "lines", None)) is not None:
        lines.append(line)
        return
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def result(id, text):
    write(b'{"jsonrpc":"2.0","id":%s,"result":%s}' % (id, text))


def error(id, code, message):
    write(b'{"jsonrpc":"2.0", "id":%s, "error":{"code":%d,"message":"%s","data":1.0}}' % (id, code, message))


def raw_params(line):
    at = line.find(b'"params":')
    return line[at + len(b'"params":') : line.rindex(b"}")] if at >= 0 else b"null"


def call(id, params, raw):
    name = params.get("name") if isinstance(params, dict) else None
    if name == "read":
        result(id, b'{ "content":[], "called":%s, "big":12345678901234567890123, "long":0.10000000000000000000001 }' % raw)
    elif name == "wait":
        waiting.append(id)
    else:
        error(id, -32602, b"no such tool")


def handle(line):
    message = json.loads(line)
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return
    method, params = message["method"], message.get("params")
    found = ID.match(line)
    id = found.group(1) if found else b"null"
    if method == "say":
        for text in params:
            write(text.encode())
    elif method == "hex":
        for text in params:
            write(bytes.fromhex(text))
    elif method == "notifications/cancelled" and waiting:
        late = waiting.pop()
        write(b'{"jsonrpc":"2.0","method":"notifications/message","params":%s}' % raw_params(line))
        result(late, b'{"late":true}')
    elif "id" not in message:
        pass
    elif method == "fill":
        result(id, b'{"filler":"%s"}' % (b"\\ud83d\\ude00 x\\u00e9" * (params // 20 + 1)))
    elif method == "initialize":
        result(
            id,
            b'{"protocolVersion":"2025-06-18", "capabilities":{"tools":{"listChanged":true},"x":1e400},'
            b'"serverInfo":{"name":"echo","version":"1.10"},"n":9007199254740993,"s":"\\udc00"}',
        )
    elif method == "tools/list":
        if isinstance(params, dict) and params.get("cursor"):
            result(id, b'{"tools":[{"name":"wait",%s}], "odd":1.0}' % READ_ONLY)
        else:
            result(id, b'{"tools":[{"name":"read",%s}],"nextCursor":"2" }' % READ_ONLY)
    elif method == "tools/call":
        call(id, params, raw_params(line))
    elif method == "ping":
        result(id, b"{}")
    else:
        error(id, -32601, b"unknown method")


def take(line, heard):
    heard.write(line + b"\n")
    try:
        handle(line)
    except (ValueError, RecursionError):
        pass


class Posted(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        line = self.rfile.read(int(self.headers["Content-Length"]))
        answers.lines = []
        take(line, self.server.heard)
        streamed = any(b'"%s"' % method.encode() in line for method in os.environ.get("STREAMED", "").split())
        if not answers.lines:
            self.answer(202, None, b"")
        elif streamed:
            self.answer(200, "text/event-stream", b"".join(b"event: message\ndata: %s\n\n" % its for its in answers.lines))
        else:
            self.answer(200, "application/json", answers.lines[0])

    def do_GET(self):
        self.answer(405, None, b"")

    def answer(self, status, kind, body):
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    with open(os.environ["HEARD"], "ab", buffering=0) as heard:
        if sys.argv[1:] == ["--http"]:
            server = ThreadingHTTPServer(("127.0.0.1", 0), Posted)
            server.heard = heard
            print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
            server.serve_forever()
        for line in sys.stdin.buffer:
            take(line.removesuffix(b"\n"), heard)


main()
