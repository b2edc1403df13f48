// The effects of a test server: lines of one file, and the faults that can follow a line.
//
// EFFECTS                     the file; one line for each effect: `<verb> <customer> <cents> <pid> <ms>`
// SERVER_PID_FILE             where the server writes its pid at start
// SERVER_DELAY_MS             how long to wait after an effect, before the answer
// SERVER_DELAY_FIRST=K        delay only the effects that wrote the first K lines (unset: all)
// SERVER_JSON=1               over HTTP, answer in plain JSON instead of an event stream
// SERVER_DIE_AFTER_EFFECT=K   SIGKILL itself right after the K-th line, noted in `$EFFECTS.kills`
//
// Lines are counted in the file, so K keeps its meaning over restarts of the server.
import { closeSync, fsyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const path = process.env.EFFECTS;
if (!path) {
  console.error('server: set EFFECTS to the file that counts the effects');
  process.exit(2);
}

function number(name, otherwise) {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  if (!/^\d+$/.test(text)) {
    console.error(`server: ${name} must be a whole number, not '${text}'`);
    process.exit(2);
  }
  return Number(text);
}

const delay = number('SERVER_DELAY_MS', 0);
const delayFirst = number('SERVER_DELAY_FIRST', Infinity);
const dieAfter = number('SERVER_DIE_AFTER_EFFECT', 0);

function append(file, line) {
  const fd = openSync(file, 'a');
  try {
    writeSync(fd, `${line}\n`);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function lines() {
  try {
    return readFileSync(path, 'utf8').split('\n').slice(0, -1);
  } catch (error) {
    if (error.code === 'ENOENT') return [];
    throw error;
  }
}

let lastMillis = 0;

/** How many effects there are, of all servers that share the file. */
export function count() {
  return lines().length;
}

/** Writes the pid file, if one is asked for, and the URL of a server over HTTP. */
export function announce(url) {
  if (process.env.SERVER_PID_FILE) writeFileSync(process.env.SERVER_PID_FILE, `${process.pid}\n`);
  if (url) process.stdout.write(`${url}\n`);
}

/** Makes one effect durable, then dies or waits if told to; returns the line as a receipt. */
export async function apply(verb, customer, cents) {
  // Never the same millisecond twice: pid and time make each line its own, so it can be found
  // again among the lines of servers that write at the same moment.
  lastMillis = Math.max(Date.now(), lastMillis + 1);
  const line = `${verb} ${customer} ${cents} ${process.pid} ${lastMillis}`;
  append(path, line);
  const place = lines().indexOf(line) + 1;
  if (place === dieAfter) {
    append(`${path}.kills`, `killed ${process.pid}`);
    process.kill(process.pid, 'SIGKILL');
  }
  if (delay > 0 && place <= delayFirst) await sleep(delay);
  return line;
}
