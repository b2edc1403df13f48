// An MCP server whose tools have effects that can be counted, over stdio or, with `--http`, over HTTP on a free port. See
// effects.mjs for its faults.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';
import { announce, apply, count } from './effects.mjs';

const DESTRUCTIVE = { readOnlyHint: false, destructiveHint: true, idempotentHint: false };

// No white space: the name is one word of a line of the effects file.
const customer = z.string().regex(/^\S+$/);
const cents = z.number().int();

const answer = value => ({ content: [{ type: 'text', text: String(value) }] });

function makeServer() {
  const server = new McpServer({ name: 'settled-test-server', version: '1.0.0' });

  server.registerTool(
    'charge',
    { description: 'Charges a customer.', inputSchema: { customer, cents }, annotations: DESTRUCTIVE },
    async args => answer(await apply('charge', args.customer, args.cents)),
  );

  server.registerTool(
    'charge_plain',
    { description: 'Charges a customer; carries no annotations.', inputSchema: { customer, cents } },
    async args => answer(await apply('charge', args.customer, args.cents)),
  );

  server.registerTool(
    'balance',
    { description: 'The number of effects so far.', inputSchema: { customer }, annotations: { readOnlyHint: true } },
    async () => answer(count()),
  );

  server.registerTool(
    'balance_plain',
    { description: 'The number of effects so far; carries no annotations.', inputSchema: { customer } },
    async () => answer(count()),
  );

  server.registerTool(
    'set_limit',
    { description: 'Sets the limit of a customer.', inputSchema: { customer, cents }, annotations: { idempotentHint: true } },
    async args => answer(await apply('set_limit', args.customer, args.cents)),
  );

  server.registerTool(
    'fail_after',
    { description: 'Charges a customer, then fails.', inputSchema: { customer, cents }, annotations: DESTRUCTIVE },
    async args => {
      throw new Error(`failed after: ${await apply('charge', args.customer, args.cents)}`);
    },
  );
  return server;
}

const sessions = new Map();

async function transportOf(request) {
  const id = request.headers['mcp-session-id'];
  if (id !== undefined) return sessions.get(id);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    // Else the first answer to a POST is the head of an event stream, long before the tool has done anything.
    enableJsonResponse: process.env.SERVER_JSON === '1',
    onsessioninitialized: made => {
      sessions.set(made, transport);
    },
  });
  await makeServer().connect(transport);
  return transport;
}

async function serve(request, response) {
  const transport = await transportOf(request);
  if (transport) return transport.handleRequest(request, response);
  const error = { code: -32001, message: 'Session not found' };
  response.writeHead(404, { 'Content-Type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', error, id: null }));
}

if (process.argv[2] === '--http') {
  const http = createServer((request, response) => serve(request, response).catch(error => response.destroy(error)));
  http.listen(0, '127.0.0.1', () => announce(`http://127.0.0.1:${http.address().port}/mcp`));
} else {
  announce();
  await makeServer().connect(new StdioServerTransport());
}
