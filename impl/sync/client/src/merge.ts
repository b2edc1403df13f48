// The state of a target: a join over the set of its operations. The same rules as in the protocol core, which the shared cases
// (`../cases/merge.json`) hold both to.

import { compareTimes } from "./clock.js";
import { compareTexts, compareValues } from "./operation.js";
import type { Change, Operation, Stamp, Value } from "./operation.js";
import type { Rule } from "./schema.js";

/** A value that was set, and by which operation. */
export interface Written {
  value: Value;
  by: Stamp;
}

/** A target's state; IndexedDB stores it as it is. */
export type State =
  | { is: "register"; written: Written | null }
  | { is: "union"; elements: Set<Value> }
  | { is: "add-wins"; added: Map<Value, Set<string>>; removed: Set<string> }
  | { is: "counter"; counted: Map<string, number> }
  | { is: "map"; fields: Map<string, State> };

/** What is shown of a target: a register's value, a set's elements in order, a counter's sum, a map's fields. */
export type View = Value | bigint | Value[] | { [field: string]: View };

/** The state of a target without operations. A map has the fields that were written. */
export function nothing(rule: Rule): State {
  switch (rule) {
    case "union":
      return { is: "union", elements: new Set() };
    case "add-wins":
      return { is: "add-wins", added: new Map(), removed: new Set() };
    case "counter":
      return { is: "counter", counted: new Map() };
    default:
      return typeof rule === "string" ? { is: "register", written: null } : { is: "map", fields: new Map() };
  }
}

/** Joins an operation into a state, in place. Says whether it fits; nothing is changed if it doesn't. */
export function apply(rule: Rule, state: State, operation: Operation): boolean {
  const { time, device, op_id } = operation;
  return join(rule, state, operation.change, { time, device, op_id });
}

function join(rule: Rule, state: State, change: Change, by: Stamp): boolean {
  if (state.is === "register" && "set" in change) {
    const written = { value: change.set, by };
    if (state.written === null || wins(rule, written, state.written)) state.written = written;
    return true;
  }
  if (state.is === "union" && "add" in change) {
    state.elements.add(change.add);
    return true;
  }
  if (state.is === "add-wins" && "add" in change) {
    const known = state.added.get(change.add);
    if (known) known.add(by.op_id);
    else state.added.set(change.add, new Set([by.op_id]));
    return true;
  }
  if (state.is === "add-wins" && "remove" in change) {
    for (const op of change.remove.observed) state.removed.add(op);
    return true;
  }
  if (state.is === "counter" && "count" in change) {
    // Two operations of one name are one; should they differ all the same, every replica takes the same one.
    state.counted.set(by.op_id, Math.max(change.count, state.counted.get(by.op_id) ?? -Infinity));
    return true;
  }
  if (state.is === "map" && "field" in change && typeof rule !== "string") {
    const [name, inner] = change.field;
    if (!Object.hasOwn(rule, name)) return false;
    const own = rule[name]!;
    const there = state.fields.get(name) ?? nothing(own);
    if (!join(own, there, inner, by)) return false;
    state.fields.set(name, there);
    return true;
  }
  return false;
}

function wins(rule: Rule, one: Written, other: Written): boolean {
  const values = compareValues(one.value, other.value);
  const stamps = compareStamps(one.by, other.by);
  switch (rule) {
    case "latest":
      return (stamps || values) > 0;
    case "earliest":
      return (stamps || values) < 0;
    case "max":
      return (values || stamps) > 0;
    default:
      return (values || stamps) < 0;
  }
}

export function compareStamps(one: Stamp, other: Stamp): number {
  return (
    compareTimes(one.time, other.time) || compareTexts(one.device, other.device) || compareTexts(one.op_id, other.op_id)
  );
}

/** What is shown of a state. A field that was never written is shown as what its rule has for nothing. */
export function view(rule: Rule, state: State): View {
  switch (state.is) {
    case "register":
      return state.written === null ? null : state.written.value;
    case "union":
      return [...state.elements].sort(compareValues);
    case "add-wins": {
      const there = [...state.added].filter(([, by]) => [...by].some((op) => !state.removed.has(op)));
      return there.map(([value]) => value).sort(compareValues);
    }
    case "counter": {
      let sum = 0n;
      for (const by of state.counted.values()) sum += BigInt(by);
      return Number.isSafeInteger(Number(sum)) ? Number(sum) : sum;
    }
    case "map": {
      const fields = typeof rule === "string" ? {} : rule;
      return Object.fromEntries(
        Object.entries(fields).map(([name, own]) => [name, view(own, state.fields.get(name) ?? nothing(own))]),
      );
    }
  }
}

/** The operations that have added this element of an add-wins set, as far as it is there: what a removal has to name. */
export function additions(state: State, value: Value): string[] {
  if (state.is !== "add-wins") return [];
  return [...(state.added.get(value) ?? [])].filter((op) => !state.removed.has(op)).sort();
}
