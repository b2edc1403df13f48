// Views: what the server has confirmed, and over it the own operations that are not confirmed yet.

import { later } from "./clock.js";
import { got, readMeta } from "./database.js";
import type { Confirmed, Database, Entry } from "./database.js";
import { noted, shownAt } from "./dating.js";
import type { Moved } from "./dating.js";
import { apply, nothing, view } from "./merge.js";
import type { State, View } from "./merge.js";
import { compareTexts } from "./operation.js";
import type { Operation } from "./operation.js";
import { ruleOf } from "./schema.js";
import type { Rule, Schema } from "./schema.js";
import type { Pulled } from "./wire.js";

/** A target, as it is shown. */
export interface Target {
  target: string;
  view: View;
  /** How many own operations in it the server has not answered yet. */
  pending: number;
}

/** The state of a target, with the own operations in it, in their order. `confirmed` is changed. */
function overlaid(rule: Rule, confirmed: Confirmed | undefined, own: Entry[], moved: Moved | null): State {
  const state = confirmed?.state ?? nothing(rule);
  for (const operation of confirmed?.unread ?? []) apply(rule, state, operation);
  for (const { sent, status } of own) {
    const time = status.is === "applied" ? status.time : shownAt(moved, sent.time);
    moved = noted(moved, sent.time, time);
    apply(rule, state, { ...sent, time });
  }
  return state;
}

/** The state of a target, inside of a transaction on `states` and `queue`. */
export async function stateOf(
  states: IDBObjectStore,
  queue: IDBObjectStore,
  moved: Moved | null,
  rule: Rule,
  target: string,
): Promise<State> {
  const confirmed = got<Confirmed | undefined>(states.get(target));
  const own = got<Entry[]>(queue.index("target").getAll(target));
  return overlaid(rule, await confirmed, await own, moved);
}

export class States {
  constructor(
    private readonly database: Database,
    private readonly schema: Schema,
  ) {}

  /** What is shown of a target; undefined if the schema has none of its kind. */
  async view(target: string): Promise<View | undefined> {
    const rule = ruleOf(this.schema, target);
    if (rule === undefined) return undefined;
    const state = await this.database.run(["states", "queue", "meta"], "readonly", async (store) => {
      const { moved } = await readMeta(store("meta"));
      return stateOf(store("states"), store("queue"), moved, rule, target);
    });
    return view(rule, state);
  }

  /** All targets whose names begin so, by name. */
  async targets(prefix: string): Promise<Target[]> {
    // Behind all names of at most 256 bytes: each U+FFFF takes three.
    const range = IDBKeyRange.bound(prefix, prefix + "\uffff".repeat(86));
    const [confirmed, own, meta] = await this.database.run(["states", "queue", "meta"], "readonly", async (store) => {
      const confirmed = got<Confirmed[]>(store("states").getAll(range));
      const own = got<Entry[]>(store("queue").index("target").getAll(range));
      return [await confirmed, await own, await readMeta(store("meta"))] as const;
    });
    const known = new Map(confirmed.map((one) => [one.target, one]));
    const entries = new Map<string, Entry[]>();
    for (const entry of own) {
      const there = entries.get(entry.sent.target);
      if (there) there.push(entry);
      else entries.set(entry.sent.target, [entry]);
    }
    const names = [...new Set([...known.keys(), ...entries.keys()])].sort(compareTexts);
    return names.flatMap((target) => {
      const rule = ruleOf(this.schema, target);
      if (rule === undefined) return [];
      const here = entries.get(target) ?? [];
      const pending = here.filter((entry) => entry.status.is !== "applied").length;
      return [{ target, view: view(rule, overlaid(rule, known.get(target), here, meta.moved)), pending }];
    });
  }

  /**
   * Takes over what came after the cursor `from`, and lets the own operations among it leave the queue, in one transaction.
   * Does nothing if another tab has done so already. Returns the targets that it changed.
   */
  async confirm(page: Pulled, from: number): Promise<string[]> {
    const changed = new Map<string, Operation[]>();
    for (const { cursor: _, redated: __, ...operation } of page.operations) {
      const there = changed.get(operation.target);
      if (there) there.push(operation);
      else changed.set(operation.target, [operation]);
    }
    return this.database.run(
      ["states", "queue", "meta"],
      "readwrite",
      async (store) => {
        const meta = await readMeta(store("meta"));
        if (meta.cursor !== from || page.cursor <= from) return [];
        const join = async ([target, operations]: [string, Operation[]]) => {
          const confirmed = await got<Confirmed | undefined>(store("states").get(target));
          store("states").put(this.joined(confirmed ?? { target, state: null, unread: [] }, operations));
        };
        let { moved } = meta;
        const leave = async ({ op_id: id, time }: Operation) => {
          const entry = await got<Entry | undefined>(store("queue").index("op_id").get(id));
          if (entry === undefined) return;
          moved = noted(moved, entry.sent.time, time);
          store("queue").delete(entry.seq);
        };
        const own = page.operations.filter((operation) => operation.device === meta.device);
        await Promise.all([...[...changed].map(join), ...own.map(leave)]);
        const heard = page.operations.reduce((last, operation) => later(last, operation.time), meta.heard);
        const last = page.operations.at(-1)?.op_id ?? meta.last;
        store("meta").put({ ...meta, cursor: page.cursor, last, heard, moved }, "meta");
        return [...changed.keys()];
      },
      "relaxed",
    );
  }

  private joined(confirmed: Confirmed, operations: Operation[]): Confirmed {
    const all = [...confirmed.unread, ...operations];
    const rule = ruleOf(this.schema, confirmed.target);
    if (rule === undefined) return { ...confirmed, unread: all };
    const state = confirmed.state ?? nothing(rule);
    return { target: confirmed.target, state, unread: all.filter((operation) => !apply(rule, state, operation)) };
  }
}
