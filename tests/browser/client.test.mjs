// The client in a real browser, on a server that fails as it is told to.
import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Browser, SCHEMA, device, reopen, serveFiles, until } from "./browser.mjs";
import { Fake } from "./server.mjs";

let files, browser, server, context;
before(async () => {
  files = await serveFiles();
  browser = new Browser();
  await browser.start();
});
after(async () => {
  await browser.clear();
  files.close();
});
beforeEach(async () => {
  server = await new Fake().start();
  context = await browser.context();
});
afterEach(async () => {
  await context.close();
  server.stop();
});

const tab = (options) => device(context, files.origin, server.url, options);
const count = (page, times) =>
  page.evaluate(async (times) => {
    const acts = Array.from({ length: times }, () => device.act("counter/1", settled.count(1)));
    return (await Promise.all(acts)).map((act) => act.op_id);
  }, times);
const shown = (page, target) => page.evaluate((target) => device.view(target), target);
const pending = (page) => page.evaluate(async () => (await device.pending()).length);
const sync = (page) =>
  page.evaluate(() =>
    device.sync().then(
      () => null,
      ({ name, status, message }) => ({ name, status, message }),
    ),
  );
const ids = () => server.operations.map((operation) => operation.op_id);

test("an answer that is lost costs nothing: what it was about is sent again, and counts once", async () => {
  const page = await tab();
  const made = await count(page, 5);
  server.faults = ["lost"];
  assert.equal((await sync(page)).status, 0);
  assert.equal(await pending(page), 5);
  assert.equal(await sync(page), null);
  assert.deepEqual(ids(), made);
  assert.deepEqual([...server.sent.values()], [2, 2, 2, 2, 2]);
  assert.equal(await shown(page, "counter/1"), 5);
  assert.equal(await pending(page), 0);
});

test("a server that is busy is left alone for as long as it says, and then gets everything in order", async () => {
  const page = await tab({ pace: { least: 1, most: 5, batch: 10 } });
  const made = await count(page, 40);
  server.faults = [
    { status: 429, headers: { "retry-after": "1" } },
    { status: 503, headers: { "retry-after": "1" } },
    "cut",
    { status: 500 },
  ];
  const begun = performance.now();
  await page.evaluate(() => device.start());
  await until("all is applied", () => server.operations.length === 40);
  assert.ok(performance.now() - begun >= 2000, "it came back too early");
  assert.deepEqual(ids(), made);
  await until("it says so", () => page.evaluate(() => device.status.is === "up-to-date"));
  const failed = await page.evaluate(() =>
    events.filter((event) => event.status?.is === "failing").map(({ status }) => status),
  );
  assert.equal(failed.length, 4);
  assert.ok(failed.every((status) => status.passing) && failed[0].retryIn >= 1000);
});

test("what the server takes at once is found out, and what it never takes is refused and kept", async () => {
  const page = await tab();
  server.largest = 3000;
  const made = await count(page, 50);
  const large = await page.evaluate(() => device.act("note/1", settled.set("x".repeat(5000))).then((act) => act.op_id));
  const last = await count(page, 1);
  assert.equal(await sync(page), null);
  assert.deepEqual(ids(), [...made, ...last]);
  const refused = await page.evaluate(() => device.refused());
  assert.deepEqual(
    refused.map(({ op_id, reason }) => [op_id, reason]),
    [[large, "too-large"]],
  );
  assert.equal(await shown(page, "note/1"), null);
});

test("refused operations are shown no longer, but kept until somebody has seen them", async () => {
  const page = await tab();
  server.answers = ({ change }) =>
    change.set === "bad" ? { is: "refused", reason: "unfit", message: "no" } : undefined;
  await page.evaluate(() => device.act("note/1", settled.set("good")));
  await page.evaluate(() => device.act("note/1", settled.set("bad")));
  assert.equal(await shown(page, "note/1"), "bad");
  assert.equal(await sync(page), null);
  assert.equal(await shown(page, "note/1"), "good");
  await page.reload();
  await reopen(page, server.url);
  const [refused] = await page.evaluate(() => device.refused());
  assert.deepEqual([refused.change, refused.reason, refused.message], [{ set: "bad" }, "unfit", "no"]);
  await page.evaluate((op_id) => device.dismiss(op_id), refused.op_id);
  assert.deepEqual(await page.evaluate(() => device.refused()), []);
  assert.equal(await pending(page), 0);
});

test("held operations stay, are shown, let others pass, and are sent again", async () => {
  const page = await tab();
  let old = true;
  server.answers = ({ target }) => (old && target === "note/1" ? { is: "held", message: "upgrade me" } : undefined);
  await page.evaluate(() => device.act("note/1", settled.set("new")));
  await count(page, 3);
  assert.equal(await sync(page), null);
  assert.equal(server.operations.length, 3);
  assert.deepEqual(await page.evaluate(async () => (await device.pending()).map((one) => one.held)), ["upgrade me"]);
  assert.equal(await shown(page, "note/1"), "new");
  old = false;
  assert.equal(await sync(page), null);
  assert.equal(server.operations.length, 4);
  assert.equal(await pending(page), 0);
  assert.equal(await shown(page, "note/1"), "new");
});

for (const [since, how] of [
  [0, "has less"],
  [3, "has got as far with others since"],
]) {
  test(`a server that was restored from a backup and ${how} is noticed, and starting over shows what it has`, async () => {
    const page = await tab();
    await count(page, 3);
    await sync(page);
    await count(page, 2);
    server.operations = Array.from({ length: since }, (_, at) => ({
      op_id: `018bcfe5-6800-7000-8000-00000000000${at}`,
      device: "other",
      time: { millis: 5, count: at },
      target: "note/1",
      change: { set: at },
    }));
    const [first] = await page.evaluate(async () => (await device.pending()).map((one) => one.op_id));
    assert.equal((await sync(page)).status, 409);
    assert.equal(server.operations[since].op_id, first, "what waits is sent all the same");
    assert.equal(await shown(page, "counter/1"), 5, "nothing is dropped unasked");
    await page.evaluate(() => device.startOver());
    assert.equal(await sync(page), null);
    assert.equal(await shown(page, "counter/1"), 2);
    assert.equal(await shown(page, "note/1"), since === 0 ? null : 2);
    assert.equal(await pending(page), 0);
  });
}

test("a page of operations that was asked for before starting over is not taken for one of the new start", async () => {
  const page = await tab();
  await count(page, 3);
  await sync(page);
  const [{ op_id: _, ...operation }] = server.operations;
  server.operations.push({ ...operation, op_id: "018bcfe5-6800-7000-8000-000000000001", device: "other" });
  server.beforePulled = () => page.evaluate(() => device.startOver());
  const synced = sync(page);
  await until("it starts over", () => page.evaluate(async () => (await device.view("counter/1")) === 0));
  server.beforePulled = async () => {};
  assert.equal(await synced, null);
  assert.equal(await sync(page), null);
  assert.equal(await shown(page, "counter/1"), 4);
});

test("without room, an operation is refused at once and nothing of it is stored", async () => {
  const blank = await context.newPage();
  await blank.goto(`${files.origin}/blank`);
  const cdp = await context.newCDPSession(blank);
  const limit = (quota) => cdp.send("Storage.overrideQuotaForOrigin", { origin: files.origin, ...quota });
  await limit({ quotaSize: 1_000_000 });
  const page = await tab();
  await page.evaluate(() => device.act("note/1", settled.set("before")));
  const text = "y".repeat(60_000);
  const results = await page.evaluate(async (text) => {
    const acts = Array.from({ length: 50 }, (_, at) => device.act(`note/large-${at}`, settled.set(text)));
    return (await Promise.allSettled(acts)).map((result) => result.reason?.name ?? "stored");
  }, text);
  const stored = results.filter((result) => result === "stored").length;
  assert.deepEqual([...new Set(results)].sort().slice(0, 1), ["StorageFullError"]);
  assert.equal(await pending(page), 1 + stored, "what was not stored is not there, and what was is");
  assert.equal((await page.evaluate(() => device.targets())).length, 1 + stored);
  await limit({});
  await page.evaluate((text) => device.act("note/1", settled.set(text)), text);
  assert.equal(await sync(page), null);
  assert.equal(server.operations.length, 2 + stored);
});

test("what no other device could read does not get into the queue", async () => {
  const page = await tab();
  const refusals = await page.evaluate(async () => {
    const { set, add, remove, count, field } = settled;
    const bad = [
      ["note/1", set("\ud800")],
      ["note/1", set(1.5)],
      ["note/1", set(2 ** 53)],
      ["note/1", set(undefined)],
      ["note/1", count(1)],
      ["note/1", set("x".repeat(70_000))],
      ["nothing/1", set(1)],
      ["note/\n", set(1)],
      [`note/${"ä".repeat(130)}`, set(1)],
      ["task/1", set(1)],
      ["task/1", field("toString", set(1))],
      ["tags/1", set(1)],
      ["counter/1", add(1)],
      ["note/1", remove(1)],
    ];
    const results = await Promise.allSettled(bad.map(([target, wish]) => device.act(target, wish)));
    return results.map((result) => result.reason?.name ?? "stored");
  });
  assert.deepEqual([...new Set(refusals)], ["UnfitError"]);
  assert.equal(await pending(page), 0);
});

test("two tabs are one device: each operation once, one upload at a time, distinct times, one view", async () => {
  const pages = [await tab(), await tab()];
  server.delay = 5;
  const both = async (what) => Promise.all(pages.map(what));
  const [one, two] = await both((page) => page.evaluate(() => device.device));
  assert.equal(one, two);
  await both((page) => page.evaluate(() => device.start()));
  const made = (await both(async (page) => [...(await count(page, 150)), ...(await count(page, 150))])).flat();
  // Besides the tab that syncs, both are told to.
  assert.deepEqual(await both(sync), [null, null]);
  await until("all is applied", () => server.operations.length >= 600);
  assert.deepEqual(ids().sort(), made.sort());
  assert.equal(server.mostUploading, 1);
  assert.deepEqual([...new Set(server.sent.values())], [1], "nothing was sent twice");
  const times = server.operations.map(({ time }) => [time.millis, time.count]);
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]),
    "they came in their order",
  );
  assert.equal(new Set(times.map(String)).size, 600);
  for (const page of pages) {
    await until("both show it", async () => (await shown(page, "counter/1")) === 600 && (await pending(page)) === 0);
  }
});

test("a tab is told what another one did, and goes on where that one is closed", async () => {
  const first = await tab();
  await first.evaluate(() => device.start());
  await until("the first syncs", () => first.evaluate(() => device.status.is === "up-to-date"));
  const second = await tab();
  await second.evaluate(() => device.start());
  await second.evaluate(() => device.act("note/1", settled.set("from the second")));
  await until("the first sends it", () => server.operations.length === 1);
  await until("the first is told", () =>
    first.evaluate(() => events.some((event) => event.is === "changed" && event.acted)),
  );
  assert.equal(await shown(first, "note/1"), "from the second");
  assert.equal(await second.evaluate(() => events.some((event) => event.status?.is === "syncing")), false);
  await first.close({ runBeforeUnload: false });
  await second.evaluate(() => device.act("note/1", settled.set("later")));
  await until("the second takes over", () => server.operations.length === 2);
});

const theirs = (time) => ({
  op_id: "018bcfe5-6800-7000-8000-000000000001",
  device: "other",
  time,
  target: "note/1",
  change: { set: "theirs" },
});

test("what others do is shown without asking, and comes before what is done then, whatever the clock says", async () => {
  const page = await tab();
  await page.evaluate(() => device.start());
  await until("it listens", () => server.waiting.size > 0);
  const ahead = { millis: Date.now() + 500_000, count: 3 };
  server.operations.push(theirs(ahead));
  for (const wake of server.waiting) wake();
  await until("it is shown", async () => (await shown(page, "note/1")) === "theirs");
  const { time } = await page.evaluate(() => device.act("note/1", settled.set("mine")));
  assert.deepEqual(time, { millis: ahead.millis, count: 4 });
  assert.equal(await shown(page, "note/1"), "mine");
  await until("it is sent", () => server.uploads.length === 1);
  assert.deepEqual(server.uploads[0].operations[0].after, ahead);
});

test("a redated operation counts with its new time only, and the clock goes on from there", async () => {
  const page = await tab();
  const now = Date.now();
  await page.clock.setFixedTime(now + 5 * 86_400_000);
  await page.evaluate(() => device.act("note/1", settled.set("from the future")));
  const time = { millis: now, count: 0 };
  server.take = (operation) => {
    const { after: _, ...rest } = operation;
    server.operations.push({ ...rest, time, redated: true });
    return { op_id: operation.op_id, is: "applied", cursor: server.operations.length, time, redated: true };
  };
  server.pullable = false;
  assert.equal((await sync(page)).status, 503);
  delete server.take;
  await page.clock.setFixedTime(now - 1000);
  const next = await page.evaluate(() => device.act("note/1", settled.set("now")));
  assert.deepEqual(next.time, { millis: now, count: 1 }, "neither from the future nor before what is confirmed");
  assert.equal(await shown(page, "note/1"), "now", "as soon as the server has said so");
  server.pullable = true;
  assert.equal(await sync(page), null);
  assert.equal(await shown(page, "note/1"), "now");
});

const write = (page, value, target = "note/1") =>
  page.evaluate(([target, value]) => device.act(target, settled.set(value)), [target, value]);
const everywhere = async (page) => [
  await shown(page, "note/1"),
  ...(await page.evaluate(() => device.targets("note/1"))).map(({ view, pending }) => [view, pending]),
];
/** Three days behind the server, which dates operations by its own clock. Returns the time there. */
const behind = async (page) => {
  const now = Date.now();
  await page.clock.setFixedTime(now - 3 * 86_400_000);
  const { take } = server;
  server.take = (operation) => take.call(server, { ...operation, time: { millis: now, count: 0 } });
  return now;
};

test("what was done last stays shown while the server moves what was done before", async () => {
  const options = { pace: { least: 20, most: 200, batch: 1 } };
  const page = await tab(options);
  await behind(page);
  for (let value = 1; value <= 9; value++) await write(page, value);
  server.faults = [undefined, { status: 503 }];
  assert.equal((await sync(page)).status, 503);
  assert.equal(server.operations.length, 1);
  assert.deepEqual(await everywhere(page), [9, [9, 8]]);
  await page.reload();
  await reopen(page, server.url, options);
  assert.deepEqual(await everywhere(page), [9, [9, 8]], "also when it is opened again");
});

test("what follows an operation that the server has moved is shown after what others did before that, in other targets, too", async () => {
  const page = await tab({ pace: { batch: 1 } });
  const now = await behind(page);
  server.operations.push(theirs({ millis: now - 1000, count: 0 }));
  // While theirs is on its way, the first of two is sent, and then the server can't be reached.
  server.beforePulled = async () => {
    server.beforePulled = async () => {};
    await write(page, "first", "note/2");
    await write(page, "second");
    server.faults = [undefined, { status: 503 }];
    assert.equal((await sync(page)).status, 503);
    server.pullable = false;
  };
  assert.equal((await sync(page)).status, 503);
  assert.equal(server.operations.length, 2);
  assert.deepEqual(await everywhere(page), ["second", ["second", 1]]);
});

test("what was done last stays shown if a pull is the first to tell what the server has moved, also in an old database", async () => {
  const page = await tab();
  await page.evaluate(async () => {
    await device.close();
    const request = indexedDB.open("settled-sync:test");
    await new Promise((done) => (request.onsuccess = done));
    const transaction = request.result.transaction("meta", "readwrite");
    const metas = transaction.objectStore("meta");
    metas.get("meta").onsuccess = ({ target }) => {
      const { moved: _, ...before } = target.result;
      metas.put(before, "meta");
    };
    await new Promise((done) => (transaction.oncomplete = done));
    request.result.close();
  });
  await reopen(page, server.url);
  await behind(page);
  server.operations.push(theirs({ millis: 5, count: 0 }));
  // While the first page is on its way, an operation is sent, whose answer is lost.
  server.beforePulled = async () => {
    server.beforePulled = async () => {};
    await write(page, 1);
    server.faults = ["lost"];
    assert.equal((await sync(page)).status, 0);
    for (const value of [2, 3]) await write(page, value);
  };
  assert.equal(await sync(page), null);
  assert.deepEqual([...server.sent.values()], [1]);
  assert.deepEqual(await everywhere(page), [3, [3, 2]]);
});

test("a removal names what this device has seen added, also what is not sent yet", async () => {
  const page = await tab();
  const observed = await page.evaluate(async () => {
    const { add, field, remove } = settled;
    const first = await device.act("task/1", field("tags", add("a")));
    await device.sync();
    const acts = [field("tags", add("a")), field("tags", remove("a")), field("tags", add("b"))].map((wish) =>
      device.act("task/1", wish),
    );
    const [second, removal] = await Promise.all(acts);
    return [[first.op_id, second.op_id].sort(), removal.change.field[1].remove.observed];
  });
  assert.deepEqual(observed[0], observed[1]);
  assert.deepEqual(await shown(page, "task/1"), { title: null, done: null, tags: ["b"], votes: 0 });
  assert.equal(await sync(page), null);
  assert.deepEqual((await shown(page, "task/1")).tags, ["b"]);
});

test("operations of a later schema are kept for when this device has it, also if an older tab pulled them", async () => {
  const old = await tab();
  const kinds = { ...SCHEMA.kinds, plan: "latest", task: { ...SCHEMA.kinds.task, due: "min" } };
  const changes = [
    ["plan/1", { set: "p" }],
    ["task/1", { field: ["due", { set: 3 }] }],
    ["task/1", { field: ["title", { set: "t" }] }],
  ];
  server.operations = changes.map(([target, change], at) => {
    const number = String(at).padStart(12, "0");
    return {
      op_id: `018bcfe5-6800-7000-8000-${number}`,
      device: "new",
      time: { millis: 5, count: at },
      target,
      change,
    };
  });
  assert.equal(await sync(old), null);
  assert.deepEqual(await old.evaluate(() => device.targets()), [
    { target: "task/1", view: { title: "t", done: null, tags: [], votes: 0 }, pending: 0 },
  ]);
  const later = await tab({ schema: { version: 2, kinds } });
  assert.equal(await shown(later, "plan/1"), "p");
  assert.equal((await shown(later, "task/1")).due, 3);
  await later.evaluate(() => device.act("plan/1", settled.set("q")));
  // The old tab uploads what the new one has made.
  assert.equal(await sync(old), null);
  assert.equal(server.uploads[0].schema, 2);
  assert.equal(await shown(later, "plan/1"), "q");
});

test("a token that has expired is an error that does not pass by itself, and a new one is asked for with each request", async () => {
  server.token = "new";
  const page = await context.newPage();
  await page.goto(`${files.origin}/blank`);
  await page.waitForFunction(() => window.settled);
  await page.evaluate(
    async ([schema, url]) => {
      window.token = "old";
      const pace = { least: 20, most: 50 };
      window.device = await settled.open({ name: "test", schema, url, pace, token: async () => window.token });
      device.start();
    },
    [SCHEMA, server.url],
  );
  await count(page, 2);
  const failing = () => page.evaluate(() => (device.status.is === "failing" ? device.status : undefined));
  const { passing, message } = await until("it says so", failing);
  assert.equal(passing, false);
  assert.match(message, /401.*no-token.*as it was told to/);
  await page.evaluate(() => (window.token = "new"));
  await until("it goes on", () => server.operations.length === 2);
});

test("a device has one name, and a database has one device", async () => {
  const page = await tab({ name: "own", device: "till-3" });
  assert.equal(await page.evaluate(() => device.device), "till-3");
  const error = await page.evaluate(
    (schema) => settled.open({ name: "own", device: "till-4", schema, url: "" }).catch(String),
    SCHEMA,
  );
  assert.match(error, /the database of the device `till-3`, not of `till-4`/);
});
