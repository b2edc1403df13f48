// The real server, which can be killed and started again at the same address.
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { end, started, until } from "./browser.mjs";

const SCHEMA = `version = 1
[kinds]
counter = "counter"
note = "latest"
tags = "add-wins"
[kinds.task]
title = "latest"
done = "earliest"
tags = "add-wins"
votes = "counter"
`;

export class Server {
  async start(origin) {
    this.origin ??= origin;
    this.directory ??= await mkdtemp(join(tmpdir(), "settled-sync-"));
    this.port ??= await freePort();
    this.url = `http://127.0.0.1:${this.port}`;
    const schema = join(this.directory, "schema.toml");
    await writeFile(schema, SCHEMA);
    const store = `sqlite:${join(this.directory, "store.db")}`;
    const listen = `127.0.0.1:${this.port}`;
    const flags = ["--store", store, "--schema", schema, "--listen", listen, "--allow-origin", this.origin];
    this.process = spawn(process.env.SETTLED_BIN, ["sync", "serve", ...flags], {
      detached: true,
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    this.process.stderr.on("data", (data) => (said += data));
    this.ended = new Promise((ended) => this.process.once("exit", ended));
    started.add(this.process.pid);
    await until(
      () => `the server listens: ${said}`,
      () => {
        if (this.process.exitCode !== null) throw new Error(`the server has ended: ${said}`);
        return fetch(`${this.url}/v1/health`).then(
          (response) => response.ok,
          () => false,
        );
      },
    );
    return this;
  }

  async kill() {
    end(this.process.pid);
    await this.ended;
  }

  async clear() {
    await this.kill();
    await rm(this.directory, { recursive: true, force: true });
  }

  /** All applied operations, in the order of their cursors, which have no gaps. */
  async operations() {
    const all = [];
    for (;;) {
      const { operations, head } = await this.get(`/v1/operations?after=${all.length}&limit=1000`);
      all.push(...operations);
      if (all.some(({ cursor }, at) => cursor !== at + 1)) throw new Error("the cursors have gaps");
      if (all.length >= head) return all;
    }
  }

  async get(path) {
    const response = await fetch(`${this.url}${path}`);
    return response.json();
  }
}

async function freePort() {
  const probe = createServer();
  await new Promise((ready) => probe.listen(0, "127.0.0.1", ready));
  const { port } = probe.address();
  await new Promise((closed) => probe.close(closed));
  return port;
}
