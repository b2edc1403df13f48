// The Restate server and the endpoint of the workflow, on free ports of this machine.

import { spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer as createHttp2Server } from "node:http2";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import * as restate from "@restatedev/restate-sdk";
import { STATE, replace } from "./settled_kit.mjs";
import { workflow } from "./workflow.mjs";

const BINARY = `@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`;

async function freePort() {
  const server = createServer();
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address();
  await new Promise((closed) => server.close(closed));
  return port;
}

/** Where the workflow is served. The server remembers it, so it stays the same. */
async function endpointPort() {
  const file = `${STATE}/endpoint-port`;
  if (!existsSync(file)) replace(file, String(await freePort()));
  return Number(readFileSync(file, "utf8"));
}

async function healthy(url) {
  while (!(await fetch(url).then((answer) => answer.ok, () => false))) await sleep(20);
}

/** Starts both; the addresses to call the workflow at, and to administrate the server. */
export async function serve() {
  const [ingress, admin, fabric] = await Promise.all([freePort(), freePort(), freePort()]);
  const server = spawn(createRequire(import.meta.url).resolve(BINARY), ["--no-logo", "--base-dir", `${STATE}/restate`], {
    stdio: ["ignore", "inherit", process.stdout],
    env: {
      ...process.env,
      RESTATE_NODE_NAME: "profile",
      RESTATE_LISTEN_MODE: "tcp",
      RESTATE_BIND_ADDRESS: `127.0.0.1:${fabric}`,
      RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${fabric}`,
      RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
      RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
      RESTATE_DEFAULT_NUM_PARTITIONS: "1",
      RESTATE_DISABLE_TELEMETRY: "true",
    },
  });
  server.once("exit", (code, signal) => {
    console.error(`restate-server ended (${code ?? signal})`);
    process.exit(1);
  });
  process.once("exit", () => server.kill("SIGKILL"));
  const endpoint = createHttp2Server(restate.createEndpointHandler({ services: [workflow] }));
  const port = await endpointPort();
  await new Promise((listening, fails) => endpoint.once("error", fails).listen(port, "127.0.0.1", listening));
  const urls = { ingress: `http://127.0.0.1:${ingress}`, admin: `http://127.0.0.1:${admin}` };
  await healthy(`${urls.admin}/health`);
  await healthy(`${urls.ingress}/restate/health`);
  await register(`${urls.admin}/deployments`, `http://127.0.0.1:${port}`);
  return urls;
}

/** Tells the server of the endpoint; it knows it already after a restart. */
async function register(url, uri) {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ uri }),
  });
  if (!answer.ok) throw new Error(`the workflow can't be registered: ${await answer.text()}`);
}
