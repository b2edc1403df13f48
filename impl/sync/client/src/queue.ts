// The device's own operations, from the moment they are made until they are part of what the server has confirmed.

import { later, tick } from "./clock.js";
import type { HybridTime } from "./clock.js";
import { got, readMeta } from "./database.js";
import type { Database, Entry, Meta, Refused } from "./database.js";
import { noted } from "./dating.js";
import { additions } from "./merge.js";
import type { State } from "./merge.js";
import { uuid7 } from "./operation.js";
import type { Value, Wish } from "./operation.js";
import { UnfitError, checkName, fit, ruleOf } from "./schema.js";
import type { Rule, Schema } from "./schema.js";
import { stateOf } from "./states.js";
import type { Answer, ClockCheck, Sent } from "./wire.js";

/** What an upload came to. */
export interface Outcome {
  answers: Answer[];
  clock: ClockCheck | null;
}

interface Act {
  target: string;
  rule: Rule;
  wish: Wish;
  resolve: (sent: Sent) => void;
  reject: (error: unknown) => void;
}

/** How many acts are written in one transaction. */
const GROUP = 1000;

/** The largest operation, in bytes of JSON. */
const LARGEST = 64 * 1024;

export class Queue {
  private acts: Act[] = [];
  private writing = false;

  constructor(
    private readonly database: Database,
    private readonly schema: Schema,
    private readonly acted: (targets: string[]) => void,
  ) {}

  /** Makes an operation. When this resolves, it is on the disk. */
  async act(target: string, wish: Wish): Promise<Sent> {
    checkName(target);
    const rule = ruleOf(this.schema, target);
    if (rule === undefined) throw new UnfitError(`there are no targets of the kind \`${target.split("/", 1)[0]}\``);
    fit(rule, wish, () => []);
    const made = new Promise<Sent>((resolve, reject) => {
      // What the caller does to its object afterwards changes nothing.
      this.acts.push({ target, rule, wish: structuredClone(wish), resolve, reject });
    });
    void this.write();
    return made;
  }

  /** Acts that come while others are written share the next transaction, and its wait for the disk. */
  private async write(): Promise<void> {
    if (this.writing) return;
    this.writing = true;
    while (this.acts.length > 0) {
      const group = this.acts.splice(0, GROUP);
      try {
        const sent = await this.database.run(["queue", "states", "meta"], "readwrite", (store) =>
          this.make(group, store("queue"), store("states"), store("meta")),
        );
        group.forEach((act, at) => {
          const made = sent[at]!;
          if (made instanceof UnfitError) act.reject(made);
          else act.resolve(made);
        });
        this.acted([...new Set(group.map((act) => act.target))]);
      } catch (error) {
        group.forEach((act) => act.reject(error));
      }
    }
    this.writing = false;
  }

  private async make(
    group: Act[],
    queue: IDBObjectStore,
    states: IDBObjectStore,
    metas: IDBObjectStore,
  ): Promise<(Sent | UnfitError)[]> {
    const meta = await readMeta(metas);
    // Transactions of all tabs come one after the other, so event times are unique on this device.
    let last = later(meta.heard, await lastWaiting(queue));
    const all: (Sent | UnfitError)[] = [];
    for (const { target, rule, wish } of group) {
      const state = removes(wish) ? await stateOf(states, queue, meta.moved, rule, target) : null;
      const observed = (path: string[], value: Value) => (state === null ? [] : additions(inside(state, path), value));
      last = tick(last, Date.now());
      const sent: Sent = {
        op_id: uuid7(Date.now()),
        device: meta.device,
        time: last,
        target,
        change: fit(rule, wish, observed),
        after: meta.heard,
      };
      if (new TextEncoder().encode(JSON.stringify(sent)).length > LARGEST) {
        all.push(
          new UnfitError(
            `an operation has at most ${LARGEST} bytes: store what is larger elsewhere, and its name here`,
          ),
        );
        continue;
      }
      queue.add({ sent, status: { is: "waiting" } });
      all.push(sent);
    }
    return all;
  }

  /** The oldest operations that wait, at most so many and of so many bytes, but one at least if there is one. */
  async batch(most: number, bytes: number): Promise<{ entries: Entry[]; meta: Meta }> {
    const [waiting, meta] = await this.database.run(["queue", "meta"], "readonly", async (store) => {
      const waiting = got<Entry[]>(store("queue").index("status").getAll("waiting", most));
      return [await waiting, await readMeta(store("meta"))] as const;
    });
    let size = 0;
    const entries = waiting.filter((entry, at) => {
      // At most three bytes of UTF-8 for each unit.
      size += 3 * JSON.stringify(entry.sent).length;
      return at === 0 || size <= bytes;
    });
    return { entries, meta };
  }

  /** Notes what became of the operations that were sent. Returns how many of them were answered for good, and the targets they are of. */
  async answered(
    entries: Entry[],
    uploaded: Outcome,
  ): Promise<{ settled: number; held: number; refused: number; targets: string[] }> {
    const answers = new Map(uploaded.answers.map((answer) => [answer.op_id, answer]));
    const outcome = { settled: 0, held: 0, refused: 0 };
    const targets = new Set<string>();
    await this.database.run(
      ["queue", "refused", "meta"],
      "readwrite",
      async (store) => {
        const meta = await readMeta(store("meta"));
        let { heard, moved } = meta;
        for (const { seq } of entries) {
          // Another tab may have been told meanwhile, and may even have pulled it.
          const entry = await got<Entry | undefined>(store("queue").get(seq));
          const answer = entry && answers.get(entry.sent.op_id);
          if (entry === undefined || answer === undefined || entry.status.is === "applied") continue;
          targets.add(entry.sent.target);
          if (answer.is === "applied") {
            heard = later(heard, answer.time);
            moved = noted(moved, entry.sent.time, answer.time);
          }
          if (answer.is === "held") outcome.held++;
          else outcome.settled++;
          if (answer.is === "refused") outcome.refused++;
          note(entry, answer, store("queue"), store("refused"));
        }
        store("meta").put({ ...meta, heard, moved, clock: uploaded.clock }, "meta");
      },
      "relaxed",
    );
    return { ...outcome, targets: [...targets] };
  }

  /** Lets the operations that were held wait again. */
  async release(): Promise<void> {
    await this.database.run(["queue"], "readwrite", (store) => rewait(store("queue"), "held"), "relaxed");
  }

  /** Forgets all that the server has confirmed. What it has applied and this device has not pulled is sent again. */
  async startOver(): Promise<void> {
    await this.database.run(["states", "queue", "meta"], "readwrite", async (store) => {
      store("states").clear();
      store("meta").put({ ...(await readMeta(store("meta"))), cursor: 0, last: null }, "meta");
      await rewait(store("queue"), "applied");
    });
  }

  /** The own operations that the server has not answered for good, in their order. */
  async pending(): Promise<Entry[]> {
    const all = await this.database.run(["queue"], "readonly", (store) => got<Entry[]>(store("queue").getAll()));
    return all.filter((entry) => entry.status.is !== "applied");
  }

  /** How many operations wait to be sent. */
  async waiting(): Promise<number> {
    return this.database.run(["queue"], "readonly", (store) => got(store("queue").index("status").count("waiting")));
  }

  async refused(): Promise<Refused[]> {
    return this.database.run(["refused"], "readonly", (store) => got<Refused[]>(store("refused").getAll()));
  }

  /** Forgets an operation that was refused: the user has seen it. */
  async dismiss(op_id: string): Promise<void> {
    await this.database.run(["refused"], "readwrite", (store) => got(store("refused").delete(op_id)));
  }

  async meta(): Promise<Meta> {
    return this.database.run(["meta"], "readonly", (store) => readMeta(store("meta")));
  }
}

function note(entry: Entry, answer: Answer, queue: IDBObjectStore, refused: IDBObjectStore): void {
  const { op_id, target, change, time } = entry.sent;
  switch (answer.is) {
    case "applied":
      queue.put({ ...entry, status: { is: "applied", cursor: answer.cursor, time: answer.time } } satisfies Entry);
      return;
    case "held":
      queue.put({ ...entry, status: { is: "held", message: answer.message } } satisfies Entry);
      return;
    case "refused":
      refused.put({ op_id, target, change, time, reason: answer.reason, message: answer.message } satisfies Refused);
      queue.delete(entry.seq);
  }
}

async function rewait(queue: IDBObjectStore, which: "held" | "applied"): Promise<void> {
  const all = await got<Entry[]>(queue.index("status").getAll(which));
  for (const entry of all) queue.put({ ...entry, status: { is: "waiting" } } satisfies Entry);
}

/** The latest event time among the own operations that are not confirmed: theirs count up with `seq`. */
async function lastWaiting(queue: IDBObjectStore): Promise<HybridTime> {
  let last: HybridTime = { millis: 0, count: 0 };
  for (const status of ["waiting", "held"]) {
    const cursor = await got(queue.index("status").openCursor(status, "prev"));
    if (cursor) last = later(last, (cursor.value as Entry).sent.time);
  }
  return last;
}

function removes(wish: Wish): boolean {
  return "remove" in wish || ("field" in wish && removes(wish.field[1]));
}

function inside(state: State, path: string[]): State {
  return path.reduce<State>((at, name) => {
    const inner = at.is === "map" ? at.fields.get(name) : undefined;
    return inner ?? { is: "register", written: null };
  }, state);
}
