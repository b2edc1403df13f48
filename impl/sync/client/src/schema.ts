// Which targets there are, by which rules each merges, and whether a change fits.

import type { Change, Value, Wish } from "./operation.js";

/** A rule: a word, or a table of fields. */
export type Rule = "latest" | "earliest" | "max" | "min" | "union" | "add-wins" | "counter" | { [field: string]: Rule };

/** The kinds of targets, each with its rule; as the server's `GET /v1/schema` has it. */
export interface Schema {
  /** Counts up with every change. */
  version: number;
  /** A target's kind is its name up to the first `/`. */
  kinds: { [kind: string]: Rule };
}

/** A change that can't be made, or a name that is none. */
export class UnfitError extends Error {
  override name = "UnfitError";
}

const WORDS: readonly string[] = ["latest", "earliest", "max", "min", "union", "add-wins", "counter"];

/** The most bytes of a name. */
const LONGEST_NAME = 256;

/** Checks a schema, and that every name in it is one. */
export function checkSchema(schema: Schema): void {
  if (!Number.isInteger(schema.version) || schema.version < 0)
    throw new UnfitError("a schema has a version, an integer");
  for (const [kind, rule] of Object.entries(schema.kinds)) {
    if (kind.includes("/")) throw new UnfitError(`\`${kind}\`: a kind has no \`/\` in its name`);
    checkRule(kind, rule);
  }
}

function checkRule(name: string, rule: Rule): void {
  checkName(name);
  if (typeof rule === "string") {
    if (!WORDS.includes(rule))
      throw new UnfitError(`\`${rule}\` is no rule; there are ${WORDS.join(", ")}, and tables of fields`);
    return;
  }
  for (const [field, inner] of Object.entries(rule)) checkRule(field, inner);
}

/** Checks a name: 1 to 256 bytes, no control characters, and text that UTF-8 can write. */
export function checkName(name: string): void {
  const good = typeof name === "string" && name.length > 0 && name.isWellFormed() && !/\p{Cc}/u.test(name);
  if (!good || new TextEncoder().encode(name).length > LONGEST_NAME) {
    throw new UnfitError(`\`${name}\`: a name has 1 to ${LONGEST_NAME} bytes and no control characters`);
  }
}

/** The rule of this target, if there is one. */
export function ruleOf(schema: Schema, target: string): Rule | undefined {
  const kind = target.split("/", 1)[0]!;
  return Object.hasOwn(schema.kinds, kind) ? schema.kinds[kind] : undefined;
}

/**
 * The change that is wished for, checked: what can't be read or applied elsewhere must not get into the queue.
 * `observed` says which additions of an element there are, at the path of the set in the target.
 */
export function fit(
  rule: Rule,
  wish: Wish,
  observed: (path: string[], value: Value) => string[],
  path: string[] = [],
): Change {
  if ("field" in wish && typeof rule !== "string") {
    const [name, inner] = wish.field;
    if (!Object.hasOwn(rule, name)) throw new UnfitError(`targets of this kind have no field \`${name}\``);
    return { field: [name, fit(rule[name]!, inner, observed, [...path, name])] };
  }
  if ("set" in wish && typeof rule === "string" && ["latest", "earliest", "max", "min"].includes(rule)) {
    return { set: checked(wish.set) };
  }
  if ("add" in wish && (rule === "union" || rule === "add-wins")) return { add: checked(wish.add) };
  if ("remove" in wish && rule === "add-wins") {
    const value = checked(wish.remove);
    return { remove: { value, observed: observed(path, value) } };
  }
  if ("count" in wish && rule === "counter") return { count: checkedNumber(wish.count) };
  const word = typeof rule === "string" ? rule : "fields";
  throw new UnfitError(
    `this change does not fit the rule \`${word}\`: registers are set, sets are added to (and removed from, with \`add-wins\`), counters are counted`,
  );
}

function checked(value: Value): Value {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") return checkedNumber(value);
  if (typeof value !== "string") throw new UnfitError("a value is null, a boolean, an integer or a text");
  // JSON would carry half of a surrogate pair, and no other language would read it.
  if (!value.isWellFormed()) throw new UnfitError("this text has half of a surrogate pair, which UTF-8 can't write");
  return value;
}

function checkedNumber(value: number): number {
  if (!Number.isSafeInteger(value)) throw new UnfitError("numbers are integers of up to 2^53 - 1 in size");
  return value + 0; // -0 would be another value here, and the same one elsewhere.
}
