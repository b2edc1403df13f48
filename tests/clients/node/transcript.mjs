// Everything that `@modelcontextprotocol/server-everything` offers, asked for one after the other:
// `node transcript.mjs -- COMMAND [ARG…] | URL`. Prints each message that came, as the text that came, one JSON line each:
// `{"raw": "…"}`; then one line with what each step came to.
//
// CLIENT_SDK and CLIENT_REVISION as in sdk.mjs. Each tool call has a key of its own, so that a guard takes none for another.
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { callTool, handle, isTarget, makeClient, makeTransport } from './sdk.mjs';

const PATIENCE = 60_000;
const target = process.argv.slice(2);
if (!isTarget(target)) {
  console.error('usage: transcript.mjs -- COMMAND [ARG…] | URL');
  process.exit(2);
}

const came = [];
const steps = [];
const known = new Set();
let again = 0;
const anything = z.any();

function take(raw) {
  let message = null;
  try {
    message = JSON.parse(raw);
  } catch {
    // Kept as it is: that it is no JSON is a finding.
  }
  came.push({ raw, message });
}

/** The lines of a stream of bytes, as the bytes came. */
function lines(line) {
  let rest = '';
  const decoder = new TextDecoder();
  return chunk => {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = parts.pop();
    parts.forEach(line);
  };
}

/** The events of a stream; some have an id only. */
function events(event) {
  const data = [];
  let id = '';
  return lines(line => {
    const [, field, value] = /^([a-z]+): ?(.*?)\r?$/s.exec(line) ?? [];
    if (field === 'data') data.push(value);
    else if (field === 'id') id = value;
    else if (line === '' || line === '\r') {
      event(id, data.splice(0).join('\n'));
      id = '';
    }
  });
}

async function* copied(body, chunk) {
  for await (const bytes of body) {
    chunk(bytes);
    yield bytes;
  }
}

/** `fetch`, with each message of an answer taken down. */
async function listening(url, init) {
  const response = await fetch(url, init);
  const type = response.headers.get('content-type') ?? '';
  if (!response.body) return response;
  let whole = '';
  const decoder = new TextDecoder();
  const chunk = type.includes('text/event-stream')
    ? events((id, text) => {
        // SDKs 1.x resume streams that were at their end; what the server then says again is no new message.
        // Nor is `{}`, which the server keeps in place of the beginning of a stream.
        if ((id && known.has(id)) || text === '{}') again++;
        else if (text) take(text);
        known.add(id);
      })
    : bytes => {
        whole += decoder.decode(bytes, { stream: true });
      };
  const body = ReadableStream.from(
    (async function* () {
      yield* copied(response.body, chunk);
      if (whole) take(whole);
    })(),
  );
  return new Response(body, { status: response.status, statusText: response.statusText, headers: response.headers });
}

const transport = makeTransport(target, { fetch: listening });
if (target[0] === '--') {
  const start = transport.start.bind(transport);
  transport.start = async () => {
    await start();
    transport._process.stdout.on('data', lines(take));
  };
}

/** Waits until so many messages of a method have come. */
async function seen(method, count) {
  const end = Date.now() + PATIENCE;
  while (came.filter(({ message }) => message?.method === method).length < count) {
    if (Date.now() > end) throw new Error(`${count} × ${method} did not come`);
    await sleep(5);
  }
}

async function step(name, work) {
  try {
    const value = await work();
    steps.push({ step: name, ended: 'result', type: Array.isArray(value) ? 'array' : typeof value });
    return value;
  } catch (error) {
    steps.push({ step: name, ended: 'error', code: error.code ?? null, message: error.message });
    return undefined;
  }
}

const client = makeClient({
  roots: { listChanged: true },
  sampling: {},
  elicitation: { form: {}, url: {} },
  tasks: { requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
});
handle(client, 'roots/list', async () => ({ roots: [{ uri: 'file:///tmp/one', name: 'One' }, { uri: 'file:///tmp/zwei' }] }));
handle(client, 'sampling/createMessage', async () => ({
  model: 'none',
  role: 'assistant',
  content: { type: 'text', text: 'An answer of no model: é 😀 \u2028' },
  stopReason: 'endTurn',
}));
handle(client, 'elicitation/create', async request =>
  request.params.mode === 'url'
    ? { action: 'accept' }
    : { action: 'accept', content: { name: 'Ada', check: true, interpretation: 'technical' } },
);

let calls = 0;
const request = (method, params = {}) => client.request({ method, params }, anything, { timeout: PATIENCE });
const call = (name, args = {}, options = {}) =>
  step(`tools/call ${name}`, () => {
    const _meta = { 'io.settled/idempotency-key': `transcript-${++calls}` };
    return callTool(client, { name, arguments: args, _meta }, { timeout: PATIENCE, ...options });
  });

function finish(more) {
  for (const { raw } of came) process.stdout.write(`${JSON.stringify({ raw })}\n`);
  process.stdout.write(`${JSON.stringify({ steps, again, ...more })}\n`, () => process.exit(0));
}

await step('connect', () => client.connect(transport, { timeout: PATIENCE }));
if (steps[0].ended === 'error') {
  finish({ tools: [] });
  await new Promise(() => {});
}
// The server asks for the roots some time after the session is open; it says when it has them.
await step('roots', () => seen('notifications/message', 1));
const listed = await step('tools/list', () => client.listTools());
await step('ping', () => request('ping'));
await step('logging/setLevel', () => request('logging/setLevel', { level: 'debug' }));

await call('echo', { message: 'Hello é 😀 \u2028 "\\' });
await call('echo', {});
await call('get-sum', { a: 0.1, b: 9007199254740991 });
await call('get-env');
await call('get-tiny-image');
await call('get-structured-content', { location: 'Chicago' });
for (const messageType of ['error', 'success', 'debug']) {
  await call('get-annotated-message', { messageType, includeImage: messageType === 'success' });
}
await call('get-resource-links', { count: 4 });
await call('get-resource-reference', { resourceType: 'Text', resourceId: 1 });
await call('get-resource-reference', { resourceType: 'Blob', resourceId: 2 });
await call('get-roots-list');
await call('trigger-long-running-operation', { duration: 0.3, steps: 3 }, { onprogress: () => {} });
await call('trigger-long-running-operation', { duration: 0.1, steps: 1 });
await call('trigger-sampling-request', { prompt: 'Say something', maxTokens: 7 });
await call('trigger-elicitation-request');
await call('trigger-url-elicitation', { url: 'https://example.org/', elicitationId: 'one' });
await call('trigger-url-elicitation', { url: 'https://example.org/', elicitationId: 'two', errorPath: true });
await call('trigger-sampling-request-async', { prompt: 'Say something', maxTokens: 7 });
await call('trigger-elicitation-request-async');
const gzip = { name: 'a.txt.gz', data: 'data:text/plain;base64,SGVsbG8=' };
await call('gzip-file-as-resource', { ...gzip, outputType: 'resource' });
await call('gzip-file-as-resource', { ...gzip, outputType: 'resourceLink' });
await call('no-such-tool', { a: 1 });
await call('get-sum', { a: 'one', b: null });

await step('resources/list', () => client.listResources());
await step('resources/templates/list', () => client.listResourceTemplates());
for (const uri of ['demo://resource/dynamic/text/1', 'demo://resource/dynamic/blob/2', 'demo://resource/session/a.txt.gz', 'demo://none']) {
  await step(`resources/read ${uri}`, () => client.readResource({ uri }));
}
const uri = 'demo://resource/dynamic/text/1';
await step('resources/subscribe', () => request('resources/subscribe', { uri }));
await call('toggle-subscriber-updates');
await step('updates', () => seen('notifications/resources/updated', 1));
await call('toggle-subscriber-updates');
await step('resources/unsubscribe', () => request('resources/unsubscribe', { uri }));
const logged = came.filter(({ message }) => message?.method === 'notifications/message').length;
await call('toggle-simulated-logging');
await step('logs', () => seen('notifications/message', logged + 1));
await call('toggle-simulated-logging');

await step('prompts/list', () => client.listPrompts());
await step('prompts/get simple', () => client.getPrompt({ name: 'simple-prompt' }));
await step('prompts/get args', () => client.getPrompt({ name: 'args-prompt', arguments: { city: 'Ōsaka' } }));
await step('prompts/get args, none', () => client.getPrompt({ name: 'args-prompt' }));
const resource = { resourceType: 'Blob', resourceId: '3' };
await step('prompts/get resource', () => client.getPrompt({ name: 'resource-prompt', arguments: resource }));
await step('completion of a prompt', () =>
  client.complete({
    ref: { type: 'ref/prompt', name: 'completable-prompt' },
    argument: { name: 'name', value: 'A' },
    context: { arguments: { department: 'Engineering' } },
  }),
);
await step('completion of a resource', () =>
  client.complete({
    ref: { type: 'ref/resource', uri: 'demo://resource/dynamic/text/{resourceId}' },
    argument: { name: 'resourceId', value: '1' },
  }),
);

const researching = async ambiguous => {
  const made = await step(`task, ambiguous ${ambiguous}`, () => {
    const _meta = { 'io.settled/idempotency-key': `transcript-${++calls}` };
    const params = { name: 'simulate-research-query', arguments: { topic: 'python', ambiguous }, task: { ttl: 60_000 }, _meta };
    return request('tools/call', params);
  });
  const taskId = made?.task?.taskId;
  if (!taskId) return;
  await step('tasks/get', () => request('tasks/get', { taskId }));
  await step('tasks/list', () => request('tasks/list'));
  await step('tasks/result', () => request('tasks/result', { taskId }));
  await step('tasks/cancel', () => request('tasks/cancel', { taskId }));
};
await researching(false);
await researching(true);
await step('no such method', () => request('no/such/method', { a: 1 }));

await client.close().catch(() => {});
finish({ tools: (listed?.tools ?? []).map(tool => tool.name) });
