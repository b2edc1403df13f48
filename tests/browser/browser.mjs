// Chromium, the pages in it, and the files that they load.
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const client = fileURLToPath(new URL("../../impl/sync/client/", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
const BLANK = `<!doctype html><title>test</title><script type="module">
  import * as settled from "/dist/index.js";
  window.settled = settled;
</script>`;

/** Serves the client's folder, and a page at `/blank` that has loaded the client. */
export async function serveFiles() {
  const http = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, "http://x").pathname);
    if (path === "/blank") return response.writeHead(200, { "content-type": "text/html" }).end(BLANK);
    try {
      const body = await readFile(join(client, path.endsWith("/") ? `${path}index.html` : path));
      const type = TYPES[extname(path) || ".html"] ?? "application/octet-stream";
      response.writeHead(200, { "content-type": type, "cache-control": "no-store" }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => http.listen(0, "127.0.0.1", ready));
  const origin = `http://127.0.0.1:${http.address().port}`;
  const close = () => (http.close(), http.closeAllConnections());
  return { origin, close };
}

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--no-default-browser-check",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-extensions",
  "--mute-audio",
  "--remote-debugging-port=0",
];

/** How long anything may take that must happen, in milliseconds. Generous: it only delays the failure of a test that fails anyway. */
const PATIENCE = 120_000;

/** A Chromium of its own, whose profile outlives it until `clear`. */
export class Browser {
  async start() {
    this.profile ??= await mkdtemp(join(tmpdir(), "settled-browser-"));
    await rm(join(this.profile, "DevToolsActivePort"), { force: true });
    // A group of its own, so that a kill takes all its processes.
    this.process = spawn(process.env.CHROMIUM ?? "/usr/bin/chromium", [...FLAGS, `--user-data-dir=${this.profile}`], {
      detached: true,
      stdio: "ignore",
    });
    this.ended = new Promise((ended) => this.process.once("exit", ended));
    started.add(this.process.pid);
    const port = await until("Chromium listens", async () => {
      const text = await readFile(join(this.profile, "DevToolsActivePort"), "utf8").catch(() => "");
      return text.split("\n")[1] ? text.split("\n")[0] : undefined;
    });
    this.playwright = await chromium.connectOverCDP(`http://127.0.0.1:${port}`, { timeout: PATIENCE });
    this.kept.setDefaultTimeout(PATIENCE);
    return this;
  }

  /** The profile's own context, which is still there after a kill. */
  get kept() {
    return this.playwright.contexts()[0];
  }

  /** A context with storage of its own: another device. */
  async context() {
    const context = await this.playwright.newContext();
    context.setDefaultTimeout(PATIENCE);
    return context;
  }

  async kill() {
    end(this.process.pid);
    await this.ended;
    await this.playwright?.close().catch(() => {});
  }

  async clear() {
    if (this.process?.exitCode === null && this.process.signalCode === null) await this.kill();
    await rm(this.profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

/** Groups of processes that are not to outlive this one. */
export const started = new Set();
process.once("exit", () => started.forEach(end));

/** Kills a group of processes, if it is still there. */
export function end(pid) {
  started.delete(pid);
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/** Looks until there is something. */
export async function until(what, look, patience = PATIENCE) {
  const deadline = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > deadline)
      throw new Error(`waited ${patience} ms in vain: ${typeof what === "function" ? await what() : what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

export const SCHEMA = {
  version: 1,
  kinds: {
    counter: "counter",
    note: "latest",
    tags: "add-wins",
    task: { title: "latest", done: "earliest", tags: "add-wins", votes: "counter" },
  },
};

/** A page of a device that syncs with `url`; `window.device` is its client. */
export async function device(context, origin, url, options = {}) {
  const page = await context.newPage();
  await page.goto(`${origin}/blank`);
  await reopen(page, url, options);
  return page;
}

/** Opens the client in a page that has been loaded anew. */
export async function reopen(page, url, options = {}) {
  await page.waitForFunction(() => window.settled);
  await page.evaluate(
    async (options) => {
      window.device = await settled.open(options);
      window.events = [];
      window.device.subscribe((event) => window.events.push(event));
    },
    { name: "test", schema: SCHEMA, url, pace: { least: 20, most: 200 }, ...options },
  );
}
