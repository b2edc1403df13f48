// Requests to the server, and what can go wrong with them.

import type { Problem } from "./wire.js";

/** The server could not be asked, or has said no. Nothing is lost: what was to be sent stays in the queue. */
export class SyncError extends Error {
  override name = "SyncError";
  constructor(
    message: string,
    /** The HTTP status; 0 if there was no answer. */
    readonly status: number,
    /** What the server says. */
    readonly problem: Problem | null = null,
    /** How many milliseconds the server wants to be left alone. */
    readonly retryAfter: number | null = null,
    options: ErrorOptions = {},
  ) {
    super(message, options);
  }

  /** Whether it can pass by itself. */
  get passing(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** A bearer token, or a function that is asked for one before each request. */
export type Token = string | (() => string | Promise<string>);

/** How long an answer may take, in milliseconds. */
const PATIENCE = 60_000;

export class Http {
  constructor(
    private readonly url: string,
    private readonly token: Token | undefined,
  ) {}

  get<T>(path: string, signal: AbortSignal, wait = 0): Promise<T> {
    return this.ask(path, {}, signal, PATIENCE + wait);
  }

  async post<T>(path: string, body: unknown, signal: AbortSignal): Promise<T> {
    const zipped = new Blob([JSON.stringify(body)]).stream().pipeThrough(new CompressionStream("gzip"));
    const headers = { "content-type": "application/json", "content-encoding": "gzip" };
    return this.ask(path, { method: "POST", headers, body: await new Response(zipped).blob() }, signal, PATIENCE);
  }

  private async ask<T>(path: string, init: RequestInit, signal: AbortSignal, patience: number): Promise<T> {
    const token = typeof this.token === "function" ? await this.token() : this.token;
    const headers = { ...init.headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    const url = `${this.url.replace(/\/+$/, "")}${path}`;
    let response: Response;
    let text: string;
    try {
      const either = AbortSignal.any([signal, AbortSignal.timeout(patience)]);
      response = await fetch(url, { ...init, headers, signal: either, cache: "no-store" });
      text = await response.text();
    } catch (cause) {
      signal.throwIfAborted();
      throw new SyncError(`${this.url} can't be reached: ${cause}`, 0, null, null, { cause });
    }
    const answer = parsed(text);
    if (response.ok && answer !== undefined) return answer as T;
    if (response.ok)
      throw new SyncError(`${this.url} did not answer in JSON: is something between here and the server?`, 0);
    const problem = isProblem(answer) ? answer : null;
    const says = problem === null ? response.statusText : `${problem.title}: ${problem.detail}`;
    const retryAfter = seconds(response.headers.get("retry-after"));
    throw new SyncError(`the server refuses (${response.status}): ${says}`, response.status, problem, retryAfter);
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isProblem(answer: unknown): answer is Problem {
  return typeof answer === "object" && answer !== null && "type" in answer && "title" in answer && "detail" in answer;
}

/** `Retry-After` in milliseconds: it is a number of seconds, or a date. */
function seconds(header: string | null): number | null {
  if (header === null) return null;
  const after = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isNaN(after) ? null : Math.max(0, after);
}
