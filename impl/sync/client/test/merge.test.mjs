// The client merges as the protocol core does: `../cases/merge.json` is the core's.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { additions, apply, compareTexts, compareValues, nothing, ruleOf, tick, uuid7, view } from "../dist/index.js";
import { noted, shownAt } from "../dist/dating.js";
import { compareStamps } from "../dist/merge.js";
import { checkSchema, fit } from "../dist/schema.js";

const cases = JSON.parse(readFileSync(new URL("../../cases/merge.json", import.meta.url), "utf8"));

/** Every pair of a sorted list compares as its places do. */
function ordered(list, compare) {
  for (const [a, one] of list.entries()) {
    for (const [b, other] of list.entries()) {
      assert.equal(
        Math.sign(compare(one, other)),
        Math.sign(a - b),
        `${JSON.stringify(one)} and ${JSON.stringify(other)}`,
      );
    }
  }
}

/** The same shuffles in each run. */
function shuffled(list, seed) {
  const all = [...list];
  for (let at = all.length - 1; at > 0; at--) {
    seed = (seed * 1103515245 + 12345) % 2 ** 31;
    const other = seed % (at + 1);
    [all[at], all[other]] = [all[other], all[at]];
  }
  return all;
}

/** As it is in the file: sums that numbers don't hold are texts there. */
const written = (view) =>
  JSON.parse(JSON.stringify(view, (_, value) => (typeof value === "bigint" ? String(value) : value)));

test("values are ordered as the core's, texts by UTF-8", () => {
  ordered(cases.values, compareValues);
  ordered(
    cases.values.filter((value) => typeof value === "string"),
    compareTexts,
  );
});

test("stamps are ordered as the core's", () => ordered(cases.stamps, compareStamps));

test("the clock ticks as the core's", () => {
  for (const { last, wall, gives } of cases.ticks) assert.deepEqual(tick(last, wall), gives);
});

test("an operation that waits is shown by the time by which the core shows it", () => {
  assert.ok(cases.shown.length > 50);
  for (const { heard, time, gives } of cases.shown) {
    const moved = heard.reduce((moved, [sent, given]) => noted(moved, sent, given), null);
    assert.deepEqual(shownAt(moved, time), gives, JSON.stringify({ heard, time }));
  }
});

test("a change fits where the server finds that it fits", () => {
  checkSchema(cases.schema);
  for (const { target, change, fits } of cases.fits) {
    const rule = ruleOf(cases.schema, target);
    let does = rule !== undefined;
    try {
      if (does)
        assert.deepEqual(
          fit(rule, change, () => []),
          change,
        );
    } catch (error) {
      assert.equal(error.name, "UnfitError");
      does = false;
    }
    assert.equal(does, fits, `${target} ${JSON.stringify(change)}`);
    const applied =
      rule !== undefined &&
      apply(rule, nothing(rule), { op_id: "", device: "", time: { millis: 0, count: 0 }, target, change });
    if (!JSON.stringify(change).includes("90071992547409")) assert.equal(applied, fits);
  }
});

test("operations come to the core's view, in whatever order and how often they come", () => {
  assert.ok(cases.merges.length > 30);
  for (const one of cases.merges) {
    const rule = ruleOf(cases.schema, one.operations[0].target);
    const orders = [one.operations, one.operations.toReversed(), [...one.operations, ...one.operations]];
    for (let seed = 1; seed < 8; seed++) orders.push(shuffled(one.operations, seed));
    for (const operations of orders) {
      const state = nothing(rule);
      for (const operation of operations) assert.ok(apply(rule, state, operation));
      const names = operations.map((operation) => operation.op_id);
      assert.deepEqual(written(view(rule, state)), one.view, `${one.operations[0].target}: ${names}`);
      for (const [value, by] of one.additions ?? []) assert.deepEqual(additions(state, value), by);
    }
  }
});

test("names are UUIDs of version 7, of the time they are made", () => {
  const millis = 0x018bcfe56800;
  const ids = Array.from({ length: 1000 }, () => uuid7(millis));
  assert.equal(new Set(ids).size, 1000);
  for (const id of ids) assert.match(id, /^018bcfe5-6800-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});
