// What an application uses.

import { Database } from "./database.js";
import type { Refused } from "./database.js";
import { Http } from "./http.js";
import type { Token } from "./http.js";
import type { View } from "./merge.js";
import type { Change, Wish } from "./operation.js";
import type { HybridTime } from "./clock.js";
import { Queue } from "./queue.js";
import { checkSchema } from "./schema.js";
import type { Schema } from "./schema.js";
import { States } from "./states.js";
import type { Target } from "./states.js";
import { PACE, Syncer } from "./sync.js";
import type { Event, Pace, Status } from "./sync.js";
import type { ClockCheck, Sent } from "./wire.js";

export interface Options {
  /** The database's name: one for each user of the application on this device. */
  name: string;
  /** The server's schema, or an earlier or later version of it. */
  schema: Schema;
  /** Where the server is. */
  url: string;
  /** This device's name; without it one is made up, and kept. No two devices may have the same. */
  device?: string;
  /** What the server wants to see as a bearer token. */
  token?: Token;
  /** How to go about it. */
  pace?: Partial<Pace>;
}

/** An own operation that the server has not answered for good. */
export interface Pending {
  op_id: string;
  target: string;
  change: Change;
  time: HybridTime;
  /** Why the server can't apply it yet, if it has said so. */
  held: string | null;
}

/** Opens the device's memory. Nothing is sent until `start()` or `sync()`. */
export async function open(options: Options): Promise<Client> {
  checkSchema(options.schema);
  const { database, device } = await Database.open(options.name, options.schema.version, options.device);
  // Else the browser may clear it when storage gets short. It may say no, and it may ask the user.
  void navigator.storage?.persist?.().catch(() => false);
  return new Client(options, database, device);
}

export class Client {
  private readonly queue: Queue;
  private readonly states: States;
  private readonly syncer: Syncer;
  private readonly channel: BroadcastChannel;
  private readonly listeners = new Set<(event: Event) => void>();
  private running: { stop: AbortController; ended: Promise<void> } | null = null;
  private last: Status = { is: "stopped" };

  /** See {@link open}. */
  constructor(
    options: Options,
    private readonly database: Database,
    /** This device's name, the same in all tabs. */
    readonly device: string,
  ) {
    this.queue = new Queue(database, options.schema, (targets) => this.tell({ is: "changed", targets, acted: true }));
    this.states = new States(database, options.schema);
    const http = new Http(options.url, options.token);
    const pace = { ...PACE, ...options.pace };
    this.syncer = new Syncer(options.name, http, this.queue, this.states, pace, (event) => this.tell(event));
    this.channel = new BroadcastChannel(`settled-sync:${options.name}`);
    this.channel.onmessage = ({ data }: MessageEvent<Event>) => this.hear(data);
  }

  /** Makes an operation. When this resolves, it is on the disk, is shown, and will be sent. */
  async act(target: string, wish: Wish): Promise<Pending> {
    return pending(await this.queue.act(target, wish), null);
  }

  /** What is shown of a target: what the server has confirmed, and the own operations. Undefined if there is no such kind. */
  view(target: string): Promise<View | undefined> {
    return this.states.view(target);
  }

  /** All targets whose names begin so. */
  targets(prefix = ""): Promise<Target[]> {
    return this.states.targets(prefix);
  }

  /** The own operations that the server has not answered for good, in their order. */
  async pending(): Promise<Pending[]> {
    const entries = await this.queue.pending();
    return entries.map(({ sent, status }) => pending(sent, status.is === "held" ? status.message : null));
  }

  /** The own operations that the server will never apply. They are not shown in any view, and kept until they are dismissed. */
  refused(): Promise<Refused[]> {
    return this.queue.refused();
  }

  /** Forgets a refused operation. */
  dismiss(op_id: string): Promise<void> {
    return this.queue.dismiss(op_id);
  }

  /** What the server made of this device's clock last; null before the first upload. */
  async clock(): Promise<ClockCheck | null> {
    return (await this.queue.meta()).clock;
  }

  /** Whether and how it syncs. */
  get status(): Status {
    return this.last;
  }

  /** Tells of everything that happens, in this tab and in others, until the function that it returns is called. */
  subscribe(listener: (event: Event) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Syncs from now on, whenever there is something and the server can be reached. One tab does so for all. */
  start(): void {
    if (this.running) return;
    const stop = new AbortController();
    this.running = { stop, ended: this.syncer.run(stop.signal) };
  }

  /** Stops that, and waits until it has stopped. */
  async stop(): Promise<void> {
    const running = this.running;
    this.running = null;
    running?.stop.abort();
    await running?.ended;
  }

  /** Sends and pulls everything, once; also what the server has held. Rejects with a `SyncError` if the server can't be asked. */
  sync(signal: AbortSignal = new AbortController().signal): Promise<void> {
    return this.syncer.once(signal);
  }

  /**
   * Forgets everything that the server has confirmed, and pulls it again: if the server's data was restored from an older backup
   * (`urn:settled:sync:cursor-ahead`). What waits to be sent is kept.
   */
  startOver(): Promise<void> {
    return this.queue.startOver();
  }

  /** Stops, and closes the database. */
  async close(): Promise<void> {
    await this.stop();
    this.channel.close();
    this.database.close();
  }

  private tell(event: Event): void {
    const here = event.is === "status" && (event.status.is === "stopped" || event.status.is === "standing-by");
    if (!here) this.channel.postMessage(event);
    this.hear(event);
  }

  private hear(event: Event): void {
    if (event.is === "changed" && event.acted) this.syncer.nudge();
    if (event.is === "status") this.last = event.status;
    for (const listener of this.listeners) {
      try {
        listener(event);
      } catch (error) {
        reportError(error);
      }
    }
  }
}

function pending(sent: Sent, held: string | null): Pending {
  return { op_id: sent.op_id, target: sent.target, change: sent.change, time: sent.time, held };
}
