// A sync server of one process and no memory, for what the real one can't be made to do at will: it fails as it is told to.
// It keeps operations in the order of their arrival and merges nothing.
import { createServer } from "node:http";
import { gunzipSync } from "node:zlib";

const CORS = {
  "access-control-allow-origin": "*",
  "access-control-allow-headers": "content-type, content-encoding, authorization",
  "access-control-expose-headers": "retry-after",
};

export class Fake {
  /** All applied operations. */
  operations = [];
  /** How often each op_id was sent. */
  sent = new Map();
  /** What becomes of the next uploads: `{ status, headers, type }`, `"lost"` (applied, not answered), `"cut"` (neither). */
  faults = [];
  /** Op_id → what to answer instead of applying it. */
  answers = (_operation) => undefined;
  /** Requests in progress, and the most at once. */
  uploading = 0;
  mostUploading = 0;
  /** The arguments of all uploads. */
  uploads = [];
  /** What each request has to carry as its bearer token, if anything. */
  token = null;
  /** Whether pulls are answered, and what happens before an answer is sent. */
  pullable = true;
  beforePulled = async () => {};
  most = 1000;
  largest = Infinity;
  delay = 0;
  waiting = new Set();

  async start() {
    this.http = createServer((request, response) => void this.serve(request, response));
    await new Promise((ready) => this.http.listen(0, "127.0.0.1", ready));
    this.url = `http://127.0.0.1:${this.http.address().port}`;
    return this;
  }

  stop() {
    this.http.close();
    this.http.closeAllConnections();
  }

  async serve(request, response) {
    const say = (status, body, headers = {}) => {
      response.writeHead(status, { ...CORS, "content-type": "application/json", ...headers });
      response.end(JSON.stringify(body));
    };
    if (request.method === "OPTIONS") return say(204, "");
    if (this.token !== null && request.headers.authorization !== `Bearer ${this.token}`)
      return say(401, problem(401, "no-token"));
    const url = new URL(request.url, this.url);
    if (request.method === "GET") return this.pull(url.searchParams, say, response);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const upload = JSON.parse(gunzipSync(Buffer.concat(chunks)));
    this.uploads.push(upload);
    this.mostUploading = Math.max(this.mostUploading, ++this.uploading);
    await new Promise((done) => setTimeout(done, this.delay));
    this.uploading--;
    const fault = this.faults.shift();
    if (fault === "cut") return cut(response);
    if (fault?.status) return say(fault.status, problem(fault.status, fault.type), fault.headers);
    if (JSON.stringify(upload).length > this.largest) return say(413, problem(413, "too-large"));
    const answers = upload.operations.map((operation) => this.take(operation));
    for (const wake of this.waiting) wake();
    if (fault === "lost") return cut(response);
    const clock = { ahead: 0, believed: true, bound: 600_000 };
    return say(200, { answers, head: this.operations.length, now: Date.now(), clock, most: this.most });
  }

  take({ after: _, ...operation }) {
    const op_id = operation.op_id;
    this.sent.set(op_id, (this.sent.get(op_id) ?? 0) + 1);
    const known = this.operations.findIndex((one) => one.op_id === op_id);
    const answer = known < 0 ? this.answers(operation) : undefined;
    if (answer) return { op_id, ...answer };
    if (known < 0) this.operations.push(operation);
    const cursor = known < 0 ? this.operations.length : known + 1;
    return { op_id, is: "applied", cursor, time: this.operations[cursor - 1].time, repeated: known >= 0 };
  }

  async pull(query, say, response) {
    if (!this.pullable) return say(503, problem(503));
    const after = Number(query.get("after"));
    const last = this.operations[after - 1]?.op_id;
    if (after > this.operations.length || (query.has("last") && query.get("last") !== last))
      return say(409, problem(409, "cursor-ahead"));
    if (after === this.operations.length && query.get("wait")) {
      await new Promise((wake) => {
        this.waiting.add(wake);
        setTimeout(wake, Number(query.get("wait")) * 1000).unref();
        response.on("close", wake);
      });
    }
    const page = this.operations.slice(after, after + Number(query.get("limit")));
    const operations = page.map((operation, at) => ({ ...operation, cursor: after + at + 1 }));
    await this.beforePulled();
    return say(200, { operations, cursor: after + page.length, head: this.operations.length });
  }
}

/** Ends within the answer: a browser may repeat a request by itself if nothing of its answer came. */
function cut(response) {
  response.writeHead(200, { ...CORS, "content-type": "application/json", "content-length": 1000 });
  response.write("{", () => response.destroy());
}

function problem(status, type = "busy") {
  return { type: `urn:settled:sync:${type}`, title: type, status, detail: "as it was told to" };
}
