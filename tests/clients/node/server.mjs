// An MCP server over stdio whose tools have effects that can be counted. See effects.mjs for its faults.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';
import { announce, apply, count } from './effects.mjs';

const DESTRUCTIVE = { readOnlyHint: false, destructiveHint: true, idempotentHint: false };

// No white space: the name is one word of a line of the effects file.
const customer = z.string().regex(/^\S+$/);
const cents = z.number().int();

const server = new McpServer({ name: 'settled-test-server', version: '1.0.0' });
const answer = value => ({ content: [{ type: 'text', text: String(value) }] });

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

announce();
await server.connect(new StdioServerTransport());
