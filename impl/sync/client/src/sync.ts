// Uploads the queue and pulls what others did, in this tab or, if another one is at it, in that.

import { SyncError } from "./http.js";
import type { Http } from "./http.js";
import type { Outcome, Queue } from "./queue.js";
import type { States } from "./states.js";
import type { ClockCheck, Pulled, Uploaded } from "./wire.js";

/** What happens, in this tab or in another one. */
export type Event =
  /** These targets are shown otherwise now. `acted`: by an operation of this device. */
  | { is: "changed"; targets: string[]; acted: boolean }
  /** Own operations sent in this go, and those that wait; operations pulled, and those that the server has. */
  | { is: "progress"; sent: number; waiting: number; cursor: number; head: number }
  /** Own operations were refused: see `refused()`. */
  | { is: "refused" }
  /** What the server makes of this device's clock. */
  | { is: "clock"; clock: ClockCheck }
  | { is: "status"; status: Status };

export type Status =
  | { is: "stopped" }
  /** Another tab syncs, or is about to. */
  | { is: "standing-by" }
  | { is: "syncing" }
  /** All is sent and pulled; the server tells what is new. */
  | { is: "up-to-date" }
  /** It will be tried again; `passing`: that may do, without anybody's help. */
  | { is: "failing"; message: string; passing: boolean; retryIn: number };

/** How the client goes about it; times in milliseconds. */
export interface Pace {
  /** How many operations are sent, or pulled, at once. */
  batch: number;
  /** The first wait after a failure, and the longest. */
  least: number;
  most: number;
  /** How long the server may wait for something new. */
  poll: number;
  /** How long operations are left alone that the server held. */
  held: number;
}

export const PACE: Pace = { batch: 500, least: 500, most: 60_000, poll: 25_000, held: 60_000 };

/** The most bytes of an upload, before compression. */
const BYTES = 2 * 1024 * 1024;

/** Between two polls, if the server answers at once. */
const BREATH = 1_000;

export class Syncer {
  private most: number;
  private wake = new AbortController();

  constructor(
    private readonly name: string,
    private readonly http: Http,
    private readonly queue: Queue,
    private readonly states: States,
    private readonly pace: Pace,
    private readonly emit: (event: Event) => void,
  ) {
    this.most = pace.batch;
  }

  /** There is something to send. */
  nudge(): void {
    this.wake.abort();
  }

  /** Sends and pulls everything, once. */
  async once(signal: AbortSignal): Promise<void> {
    await this.queue.release();
    await this.push(signal);
    while (!(await this.pull(signal, 0))) signal.throwIfAborted();
  }

  /** Syncs until it is aborted, whenever there is something. */
  async run(signal: AbortSignal): Promise<void> {
    const status = (status: Status) => this.emit({ is: "status", status });
    status({ is: "standing-by" });
    try {
      await locked(`${this.name}:loop`, signal, () => this.loop(signal, status));
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      status({ is: "stopped" });
    }
  }

  private async loop(signal: AbortSignal, status: (status: Status) => void): Promise<void> {
    let failures = 0;
    let current = false;
    let released = -Infinity;
    status({ is: "syncing" });
    while (!signal.aborted) {
      this.wake = new AbortController();
      try {
        if (performance.now() - released > this.pace.held) {
          await this.queue.release();
          released = performance.now();
        }
        if (await this.push(signal)) current = false;
        const now = await this.pull(signal, current ? this.pace.poll : 0);
        if (now !== current || failures > 0) status({ is: now ? "up-to-date" : "syncing" });
        current = now;
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        if (!(error instanceof SyncError)) console.error("settled-sync:", error);
        current = false;
        const retryIn = this.pause(failures++, error);
        const passing = error instanceof SyncError && error.passing;
        status({ is: "failing", message: String(error instanceof Error ? error.message : error), passing, retryIn });
        await sleep(retryIn, signal, "online");
      }
    }
  }

  /** Full jitter: devices that lost the server together don't come back together. */
  private pause(failures: number, error: unknown): number {
    const most = Math.min(this.pace.most, this.pace.least * 2 ** Math.min(failures, 30));
    const own = most * (0.5 + Math.random() / 2);
    return Math.ceil(Math.max(own, error instanceof SyncError ? (error.retryAfter ?? 0) : 0));
  }

  /** Sends what waits, in its order. Says whether there was anything. */
  private push(signal: AbortSignal): Promise<boolean> {
    return locked(`${this.name}:push`, signal, async () => {
      for (let sent = 0; ;) {
        const done = await this.pushBatch(signal, sent);
        if (done === 0) return sent > 0;
        sent += done;
      }
    });
  }

  private async pushBatch(signal: AbortSignal, before: number): Promise<number> {
    const { entries, meta } = await this.queue.batch(this.most, BYTES);
    if (entries.length === 0) return 0;
    const operations = entries.map((entry) => entry.sent);
    const upload = { device: meta.device, schema: meta.schema, now: Date.now(), operations };
    let uploaded: Outcome & { head: number; most: number };
    try {
      uploaded = await this.http.post<Uploaded>("/v1/operations", upload, signal);
    } catch (error) {
      if (!(error instanceof SyncError && error.status === 413)) throw error;
      if (entries.length > 1) {
        this.most = Math.ceil(entries.length / 2);
        return this.pushBatch(signal, before);
      }
      const answer = {
        op_id: operations[0]!.op_id,
        is: "refused",
        reason: "too-large",
        message: error.message,
      } as const;
      uploaded = { answers: [answer], head: meta.cursor, clock: meta.clock, most: this.most };
    }
    this.most = Math.max(1, Math.min(this.pace.batch, uploaded.most));
    const { settled, held, refused, targets } = await this.queue.answered(entries, uploaded);
    if (settled + held === 0)
      throw new SyncError("the server's answer is about none of the operations that were sent", 0);
    if (targets.length > 0) this.emit({ is: "changed", targets, acted: false });
    if (refused > 0) this.emit({ is: "refused" });
    if (uploaded.clock) this.emit({ is: "clock", clock: uploaded.clock });
    const waiting = await this.queue.waiting();
    this.emit({ is: "progress", sent: before + settled, waiting, cursor: meta.cursor, head: uploaded.head });
    return entries.length;
  }

  /** Pulls once. Says whether that was all; with a `wait`, the server may wait for something new, until there is something to send. */
  private async pull(signal: AbortSignal, wait: number): Promise<boolean> {
    const { cursor, last } = await this.queue.meta();
    const seen = last === null ? "" : `&last=${last}`;
    const path = `/v1/operations?after=${cursor}&limit=${this.pace.batch}${seen}`;
    let page: Pulled;
    if (wait === 0) {
      page = await this.http.get<Pulled>(path, signal);
    } else {
      const woken = this.wake.signal;
      const begun = performance.now();
      try {
        const either = AbortSignal.any([signal, woken]);
        page = await this.http.get<Pulled>(`${path}&wait=${Math.floor(wait / 1000)}`, either, wait);
      } catch (error) {
        if (woken.aborted && !signal.aborted) return true;
        throw error;
      }
      if (page.operations.length === 0)
        await sleep(BREATH - (performance.now() - begun), AbortSignal.any([signal, woken]));
    }
    if (page.operations.length === 0 && page.head > cursor)
      throw new SyncError("the server has more operations, and does not give them", 0);
    const targets = await this.states.confirm(page, cursor);
    if (targets.length > 0) {
      this.emit({ is: "changed", targets, acted: false });
      this.emit({ is: "progress", sent: 0, waiting: await this.queue.waiting(), cursor: page.cursor, head: page.head });
    }
    return page.cursor >= page.head;
  }
}

/** Runs alone among all tabs. Where there are no locks, several may sync; the server applies each operation once all the same. */
async function locked<T>(name: string, signal: AbortSignal, body: () => Promise<T>): Promise<T> {
  if (!("locks" in navigator)) return body();
  return (await navigator.locks.request(`settled-sync:${name}`, { signal }, body)) as T;
}

/** Waits, at most until it is aborted or there is such an event. */
function sleep(millis: number, signal: AbortSignal, event?: string): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      if (event !== undefined) removeEventListener(event, end);
      resolve();
    };
    const timer = setTimeout(end, Math.max(0, millis));
    signal.addEventListener("abort", end);
    if (event !== undefined) addEventListener(event, end);
    if (signal.aborted) end();
  });
}
