// Clients of HTTP APIs on fetch and openai: `node api_client.mjs`. Jobs, answers and what they mean are those of
// ../python/api_client.py; fetch repeats nothing, openai has its default, maxRetries 2.
import { createInterface } from 'node:readline';
import OpenAI from 'openai';

const PATHS = {
  charges: '/v1/charges',
  chat: '/v1/chat/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
};

function asked(operation, streamed) {
  const says = [{ role: 'user', content: 'charge me' }];
  const body = {
    charges: { amount: 500 },
    chat: { model: 'fake-1', messages: says },
    responses: { model: 'fake-1', input: 'charge me' },
    messages: { model: 'fake-1', max_tokens: 99, messages: says },
  }[operation];
  return streamed ? { ...body, stream: true } : body;
}

// What a whole answer says.
function textOf(operation, answer) {
  if (operation === 'charges') return answer.description;
  if (operation === 'chat') return answer.choices[0].message.content;
  if (operation === 'responses') return answer.output[0].content[0].text;
  return answer.content[0].text;
}

// What an event of a stream adds.
function deltaOf(operation, event) {
  if (operation === 'chat') return event.choices[0]?.delta?.content ?? '';
  if (operation === 'responses') return event.type === 'response.output_text.delta' ? event.delta : '';
  return event.type === 'content_block_delta' ? event.delta.text : '';
}

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

async function byFetch(job, operation, streamed, seen) {
  const headers = { 'content-type': 'application/json', ...job.headers };
  if (job.key !== null) headers['idempotency-key'] = `"${job.key}"`;
  const answer = await fetch(job.url + PATHS[operation], {
    method: 'POST',
    headers,
    body: JSON.stringify(asked(operation, streamed)),
    signal: AbortSignal.timeout(job.timeout_ms),
  });
  seen.status = answer.status;
  seen.replayed = answer.headers.get('idempotency-replayed') === 'true';
  if (answer.status !== 200) {
    seen.problem = parsed(await answer.text())?.type ?? null;
    throw new Error(`status ${answer.status}`);
  }
  if (!streamed) {
    seen.text = textOf(operation, await answer.json());
    return;
  }
  let rest = '';
  const decoder = new TextDecoder();
  for await (const bytes of answer.body) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split('\n');
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith('data:') && line !== 'data: [DONE]') {
        seen.text += deltaOf(operation, JSON.parse(line.slice(5)));
      }
    }
  }
}

const clients = new Map();

async function byOpenai(job, operation, streamed, seen) {
  if (!clients.has(job.url)) clients.set(job.url, new OpenAI({ apiKey: 'sk-test', baseURL: `${job.url}/v1` }));
  const client = clients.get(job.url);
  const api = operation === 'chat' ? client.chat.completions : client.responses;
  const headers = { ...job.headers };
  if (job.key !== null) headers['Idempotency-Key'] = `"${job.key}"`;
  let made;
  try {
    made = await api.create(asked(operation, streamed), { headers, timeout: job.timeout_ms }).withResponse();
  } catch (error) {
    seen.status = error.status ?? null;
    // The library keeps only the member `error` of a body that has one.
    seen.problem = error.error?.type ?? null;
    seen.replayed = error.headers?.get?.('idempotency-replayed') === 'true';
    throw error;
  }
  const { data, response } = made;
  seen.status = response.status;
  seen.replayed = response.headers.get('idempotency-replayed') === 'true';
  if (!streamed) {
    seen.text = textOf(operation, data);
    return;
  }
  for await (const event of data) seen.text += deltaOf(operation, event);
}

async function attempt(job) {
  const [operation, streamed] = job.operation.split('-');
  const seen = { status: null, whole: false, text: '', error: null, problem: null, replayed: false };
  try {
    await { fetch: byFetch, openai: byOpenai }[job.client](job, operation, streamed !== undefined, seen);
    seen.whole = true;
  } catch (error) {
    seen.error = `${error?.name}: ${error?.message} ${error?.cause?.code ?? ''}`;
  }
  return seen;
}

async function carryOut(job) {
  const attempts = [];
  const isOver = last => last?.whole || (job.ends_when_unknown && last?.status === 502);
  while (attempts.length < job.attempts && !isOver(attempts.at(-1))) {
    if (attempts.length > 0) await new Promise((resolve) => setTimeout(resolve, job.pause_ms));
    attempts.push(await attempt(job));
  }
  console.log(JSON.stringify({ id: job.id, attempts }));
}

const AT_ONCE = 16;
const waiting = [];
let running = 0;

function next() {
  while (running < AT_ONCE && waiting.length > 0) {
    running += 1;
    carryOut(waiting.shift()).finally(() => {
      running -= 1;
      next();
    });
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  waiting.push(JSON.parse(line));
  next();
}
