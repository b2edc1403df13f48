// A client of one MCP server, whose tool `step` takes a step.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ErrorCode, McpError } from "@modelcontextprotocol/sdk/types.js";
import { RUN, TIMEOUT } from "./settled_kit.mjs";

const cancel = new AbortController();
process.once("SIGINT", () => cancel.abort());

export const overStdio = ([command, ...args]) => new StdioClientTransport({ command, args, env: process.env });
export const overHttp = (url) => new StreamableHTTPClientTransport(new URL(url));

/** Connects to the server behind a transport; the function that takes a step there. */
export async function connect(transport) {
  const client = new Client({ name: "profile", version: "1.0.0" });
  await client.connect(transport, { timeout: TIMEOUT });

  async function call(step) {
    const request = { name: "step", arguments: { run: RUN, step } };
    const result = await client.callTool(request, undefined, { timeout: TIMEOUT, signal: cancel.signal });
    if (result.isError) throw new Error(result.content?.[0]?.text ?? "the tool failed");
  }

  // What timed out is called once more.
  return async (step) => {
    try {
      await call(step);
    } catch (error) {
      if (!(error instanceof McpError && error.code === ErrorCode.RequestTimeout) || cancel.signal.aborted) throw error;
      console.log(`${step} timed out, and is called again`);
      await call(step);
    }
  };
}
