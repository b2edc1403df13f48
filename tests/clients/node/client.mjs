// A scripted MCP client: `node client.mjs SCENARIO -- COMMAND [ARG…]` over stdio, `node client.mjs SCENARIO URL` over HTTP.
//
// Prints one JSON line with all that it saw and exits 0, also when calls failed; 2 is a wrong command line.
// The scenarios and the environment they read are in ../README.md.
import { setTimeout as sleep } from 'node:timers/promises';
import { callTool, isTarget, makeClient, makeTransport } from './sdk.mjs';

const { TOOL: tool = 'charge', CALL_META: meta } = process.env;
const setting = (name, otherwise) => Number(process.env[name] || otherwise);
const impatient = setting('CLIENT_TIMEOUT_MS', 700);
const patient = setting('CLIENT_PATIENCE_MS', 30_000);
const later = setting('CLIENT_WAIT_MS', 3_000);
const pause = setting('CLIENT_PAUSE_MS', 50);
const RETRIES = 5;

const [scenario, ...target] = process.argv.slice(2);
const attempts = [];
let connections = 0;
let connection = null;

const print = value => process.stdout.write(`${JSON.stringify(value)}\n`);
const seen = error => ({
  name: error.name,
  code: Number.isInteger(error.code) ? error.code : null,
  message: error.message,
  data: error.data ?? null,
});
const failed = attempt => attempt.error !== null || attempt.result.isError === true;

class ConnectionLost extends Error {
  name = 'ConnectionLost';
}

async function connect() {
  const client = makeClient();
  const made = { number: ++connections, client, closed: false };
  const lost = new Promise((_, reject) => {
    client.onclose = () => {
      made.closed = true;
      // Later, so that a call fails with the SDK's own error where the SDK gives one.
      setImmediate(() => reject(new ConnectionLost('the connection ended')));
    };
  });
  lost.catch(() => {});
  // The SDK's send never ends if the server has closed its standard input.
  made.during = work => Promise.race([work, lost]);
  connection = made;
  try {
    made.transport = makeTransport(target);
    await made.during(client.connect(made.transport, { timeout: patient }));
  } catch (error) {
    made.closed = true;
    throw error;
  }
}

async function disconnect() {
  await connection?.client.close().catch(() => {});
  connection = null;
}

function argumentsFor(cents) {
  return tool.startsWith('balance') ? { customer: 'alice' } : { customer: 'alice', cents };
}

/** One call, connecting first if there is no connection; records what came of it. */
async function attempt(cents = 500, timeout = patient) {
  const params = { name: tool, arguments: argumentsFor(cents) };
  if (meta) params._meta = JSON.parse(meta);
  const record = { attempt: attempts.length + 1, connection: null, arguments: params.arguments, ms: 0, result: null, error: null };
  attempts.push(record);
  const start = Date.now();
  try {
    if (connection === null) await connect();
    record.connection = connection.number;
    record.result = await connection.during(callTool(connection.client, params, { timeout }));
  } catch (error) {
    record.connection = connections;
    record.error = seen(error);
  }
  record.ms = Date.now() - start;
  return record;
}

async function reconnectIfClosed() {
  if (connection?.closed) await disconnect();
}

async function loop() {
  const count = setting('COUNT', 10);
  const gaveUp = [];
  for (let order = setting('START', 1); order <= count; order++) {
    let last;
    for (let round = 0; round <= RETRIES; round++) {
      if (round > 0) await sleep(pause);
      await reconnectIfClosed();
      last = await attempt(order);
      if (!failed(last)) break;
    }
    if (failed(last)) gaveUp.push(order);
    else print({ confirmed: order, attempts: attempts.length, result: last.result });
  }
  return { gave_up: gaveUp };
}

/** The same call twice in one array, below the SDK: it offers no way to send one. */
async function batch() {
  await connect();
  const { transport } = connection;
  const ids = ['batch-1', 'batch-2'];
  const records = ids.map((_, index) => ({
    attempt: index + 1, connection: connection.number, arguments: argumentsFor(500), ms: 0, result: null, error: null,
  }));
  attempts.push(...records);
  const answered = new Promise((resolve, reject) => {
    const onmessage = transport.onmessage;
    let missing = ids.length;
    transport.onmessage = (message, extra) => {
      const record = records[ids.indexOf(message.id)];
      if (!record) return onmessage(message, extra);
      record.result = message.result ?? null;
      record.error = message.error ? { name: 'JSONRPCError', ...message.error } : null;
      if (--missing === 0) resolve();
    };
    setTimeout(() => reject(new Error('the batch was not answered')), patient).unref();
  });
  const params = { name: tool, arguments: argumentsFor(500) };
  await transport.send(ids.map(id => ({ jsonrpc: '2.0', id, method: 'tools/call', params })));
  await answered;
}

async function list() {
  await connect();
  const tools = [];
  let cursor;
  do {
    const page = await connection.during(
      connection.client.listTools(cursor ? { cursor } : undefined, { timeout: patient }),
    );
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return { tools };
}

const scenarios = {
  once: () => attempt(),
  'timeout-retry': async () => {
    if (failed(await attempt(500, impatient))) await attempt();
  },
  'timeout-retry-later': async () => {
    if (failed(await attempt(500, impatient))) {
      await sleep(later);
      await attempt();
    }
  },
  'crash-retry': async () => {
    if (failed(await attempt())) {
      await reconnectIfClosed();
      await attempt();
    }
  },
  'crash-restart-retry': async () => {
    await attempt();
    await disconnect();
    await attempt();
  },
  'reconnect-retry': async () => {
    if (!failed(await attempt(500, impatient))) return;
    for (let round = 0; round < RETRIES; round++) {
      await disconnect();
      await sleep(pause);
      if ((await attempt()).error === null) return;
    }
  },
  batch,
  'two-orders': async () => {
    await attempt(500);
    await attempt(700);
  },
  'twice-at-once': async () => {
    await connect();
    await Promise.all([attempt(), attempt()]);
  },
  'twice-in-sequence': async () => {
    await attempt();
    await attempt();
  },
  loop,
  list,
};

if (!Object.hasOwn(scenarios, scenario ?? '') || !isTarget(target)) {
  console.error(`usage: client.mjs SCENARIO -- COMMAND [ARG…] | URL\nscenarios: ${Object.keys(scenarios).join(' ')}`);
  process.exit(2);
}

let more = {};
let error = null;
try {
  const value = await scenarios[scenario]();
  if (scenario === 'loop' || scenario === 'list') more = value;
} catch (caught) {
  error = seen(caught);
}
print({ client: 'node', scenario, tool, connections, attempts, error, ...more });
await disconnect();
process.exit(0);
