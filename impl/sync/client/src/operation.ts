// What a device did, in the form in which it is sent, and names and values with their order.

import type { HybridTime } from "./clock.js";

/** A value. Numbers are integers of up to 2^53 - 1 in size. */
export type Value = null | boolean | number | string;

/** What an operation does to its target. */
export type Change =
  | { set: Value }
  | { add: Value }
  | { remove: { value: Value; observed: string[] } }
  | { count: number }
  | { field: [string, Change] };

/** What an application asks for: a change, without the additions that a removal has seen. */
export type Wish = { set: Value } | { add: Value } | { remove: Value } | { count: number } | { field: [string, Wish] };

/** An operation, as the server has it. */
export interface Operation {
  op_id: string;
  device: string;
  time: HybridTime;
  target: string;
  change: Change;
}

/** What two operations are compared by: event time, then device, then name; never arrival. */
export interface Stamp {
  time: HybridTime;
  device: string;
  op_id: string;
}

/** Gives a register a value. */
export const set = (value: Value): Wish => ({ set: value });
/** Adds an element to a set. */
export const add = (value: Value): Wish => ({ add: value });
/** Removes an element from an add-wins set, as far as this device has seen it added. */
export const remove = (value: Value): Wish => ({ remove: value });
/** Counts up, or down. */
export const count = (by: number): Wish => ({ count: by });
/** Changes one field of a map. */
export const field = (name: string, wish: Wish): Wish => ({ field: [name, wish] });

/** Compares texts by code points, which is the order of their UTF-8 bytes; `<` compares UTF-16 units, and has U+10000 before U+FFFD. */
export function compareTexts(one: string, other: string): number {
  const most = Math.min(one.length, other.length);
  for (let at = 0; at < most; at++) {
    const a = one.charCodeAt(at);
    const b = other.charCodeAt(at);
    if (a !== b) return rank(a) - rank(b);
  }
  return one.length - other.length;
}

/** Moves surrogates behind all other units. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** Compares values: null, then booleans, numbers, texts. */
export function compareValues(one: Value, other: Value): number {
  const kinds = kind(one) - kind(other);
  if (kinds !== 0) return kinds;
  if (typeof one === "string") return compareTexts(one, other as string);
  return Number(one) - Number(other);
}

function kind(value: Value): number {
  if (value === null) return 0;
  if (typeof value === "boolean") return 1;
  return typeof value === "number" ? 2 : 3;
}

/** A UUID of version 7 (RFC 9562, section 5.7). */
export function uuid7(millis: number): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, Math.floor(millis / 2 ** 32));
  view.setUint32(2, millis % 2 ** 32);
  view.setUint8(6, 0x70 | (view.getUint8(6) & 0x0f));
  view.setUint8(8, 0x80 | (view.getUint8(8) & 0x3f));
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
