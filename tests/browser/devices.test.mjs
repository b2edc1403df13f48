// Browsers, killed and cut off, on the real server: each operation is applied once, none is lost, and all show the same.
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { Browser, SCHEMA, device, reopen, serveFiles, until } from "./browser.mjs";
import { Server } from "./settled.mjs";

const screenshots = fileURLToPath(new URL("../../target/browser/", import.meta.url));
let files, browser, server, contexts;
before(async () => {
  await mkdir(screenshots, { recursive: true });
  files = await serveFiles();
  browser = new Browser();
  await browser.start();
});
after(async () => {
  await browser.clear();
  files.close();
});
beforeEach(async () => {
  contexts = [];
  server = await new Server().start(files.origin);
});
afterEach(async () => {
  await Promise.all(contexts.map((context) => context.close()));
  await server.clear();
});

/** A page of a new device. */
async function newDevice(options) {
  const context = await browser.context();
  contexts.push(context);
  return device(context, files.origin, server.url, options);
}

const act = (page, target, ...wishes) =>
  page.evaluate(
    async ([target, wishes]) =>
      (await Promise.all(wishes.map((wish) => device.act(target, wish)))).map((act) => act.op_id),
    [target, wishes],
  );
const counts = (page, times) => act(page, "counter/1", ...Array.from({ length: times }, () => ({ count: 1 })));
const shown = (page, target) => page.evaluate((target) => device.view(target), target);
const targets = (page) => page.evaluate(() => device.targets());
const sync = (page) => page.evaluate(() => device.sync());
const start = (page) => page.evaluate(() => device.start());
/** The operations that this page has seen answered. */
const sent = (page) =>
  page.evaluate(() => Math.max(0, ...events.map((event) => (event.is === "progress" ? event.sent : 0))));

/** Nothing waits any more, each of these was applied once, and a new device shows the same as this one. */
async function settles(page, made) {
  await until("all is sent", () =>
    page.evaluate(async () => device.status.is === "up-to-date" && (await device.pending()).length === 0),
  );
  const applied = (await server.operations()).map((operation) => operation.op_id);
  assert.deepEqual(applied.toSorted(), made.toSorted());
  const fresh = await newDevice();
  await sync(fresh);
  assert.deepEqual(await targets(fresh), await targets(page));
  assert.deepEqual(await page.evaluate(() => device.refused()), []);
}

test("two devices edit the same offline, and agree whoever comes first", async () => {
  const ends = [];
  for (const order of [
    [0, 1],
    [1, 0],
  ]) {
    const one = await newDevice({ device: "one" });
    const two = await newDevice({ device: "two" });
    const pages = [one, two];
    const target = "task/shared";
    await act(one, target, { field: ["tags", { add: "a" }] });
    await sync(one);
    await sync(two);
    // Fixed clocks, so that both orders are about the same operations.
    const now = Date.now();
    await one.clock.setFixedTime(now - 3000);
    await two.clock.setFixedTime(now - 2000);
    await act(
      one,
      target,
      { field: ["title", { set: "by one" }] },
      { field: ["done", { set: "one" }] },
      { field: ["tags", { remove: "a" }] },
    );
    await act(
      two,
      target,
      { field: ["title", { set: "by two" }] },
      { field: ["done", { set: "two" }] },
      { field: ["tags", { add: "a" }] },
    );
    await act(one, target, { field: ["votes", { count: 2 }] });
    await act(two, target, { field: ["votes", { count: 3 }] });
    for (const at of [...order, ...order]) await sync(pages[at]);
    assert.deepEqual(await targets(one), await targets(two));
    const { view } = await server.get(`/v1/targets/${encodeURIComponent(target)}`);
    assert.deepEqual(view, await shown(one, target));
    ends.push(view);
    await server.clear();
    server = await new Server().start(files.origin);
  }
  assert.deepEqual(ends[0], { title: "by two", done: "one", tags: ["a"], votes: 5 });
  assert.deepEqual(ends[1], ends[0]);
});

test("two tabs and another device at once: each operation once, and all show the same", async () => {
  const first = await newDevice();
  const second = await device(contexts[0], files.origin, server.url);
  const other = await newDevice();
  const pages = [first, second, other];
  await Promise.all(pages.map(start));
  const made = (await Promise.all(pages.map((page) => counts(page, 200)))).flat();
  for (const page of pages) await until("all is shown", async () => (await shown(page, "counter/1")) === 600);
  await settles(first, made);
  const devices = await first.evaluate(() => device.device);
  assert.equal(devices, await second.evaluate(() => device.device));
});

test("a page that is reloaded, or gone, in the middle of an upload loses nothing and repeats nothing", async () => {
  let page = await newDevice({ pace: { batch: 100, least: 20, most: 200 } });
  const made = await counts(page, 2000);
  for (const [point, gone] of [
    [1, false],
    [300, true],
    [500, false],
    [700, true],
  ]) {
    await start(page);
    await until("it is in the middle", async () => (await sent(page)) >= Math.min(point, 300));
    if (gone) {
      await page.close();
      page = await contexts[0].newPage();
      await page.goto(`${files.origin}/blank`);
    } else {
      await page.reload();
    }
    await reopen(page, server.url, { pace: { batch: 100, least: 20, most: 200 } });
  }
  const left = await page.evaluate(async () => (await device.pending()).length);
  assert.ok(left < 2000, "it goes on where it was");
  await start(page);
  await settles(page, made);
  assert.equal(await shown(page, "counter/1"), 2000);
});

test("a browser that is killed in the middle of acts and uploads keeps what it said it had", async () => {
  const own = new Browser();
  try {
    await own.start();
    let page = await device(own.kept, files.origin, server.url, { pace: { batch: 50, least: 20, most: 200 } });
    const made = new Set();
    for (let round = 0; round < 2; round++) {
      await start(page);
      // Acts are known as soon as they are on the disk, and the kill comes while others are made.
      await page.exposeFunction("made", (op_id) => made.add(op_id));
      await page.evaluate(() => {
        void (async () => {
          for (;;)
            await Promise.all(
              Array.from({ length: 20 }, () =>
                device.act("counter/1", settled.count(1)).then((act) => made(act.op_id)),
              ),
            );
        })();
      });
      const goal = made.size + 200;
      await until("it is in the middle", async () => made.size >= goal && (await sent(page)) > 0);
      await own.kill();
      await own.start();
      page = await device(own.kept, files.origin, server.url, { pace: { batch: 50, least: 20, most: 200 } });
    }
    await start(page);
    await until("all is sent", () =>
      page.evaluate(async () => device.status.is === "up-to-date" && (await device.pending()).length === 0),
    );
    const applied = (await server.operations()).map((operation) => operation.op_id);
    assert.equal(new Set(applied).size, applied.length, "each once");
    assert.deepEqual(
      [...made].filter((op_id) => !applied.includes(op_id)),
      [],
      "none is lost",
    );
    assert.equal(await shown(page, "counter/1"), applied.length);
  } finally {
    await own.clear();
  }
});

test("a server that is killed in the middle of uploads loses nothing and applies nothing twice", async () => {
  const page = await newDevice({ pace: { batch: 50, least: 20, most: 200 } });
  const made = await counts(page, 1000);
  await start(page);
  for (let round = 1; round <= 3; round++) {
    await until("it is in the middle", async () => {
      const left = await page.evaluate(async () => (await device.pending()).length);
      return left <= 1000 - 200 * round;
    });
    await server.kill();
    await server.start();
  }
  await settles(page, made);
});

test("a page that is opened and reloaded without a network shows and takes changes, and catches up", async () => {
  const pages = [];
  for (const name of ["one", "two"]) {
    const context = await browser.context();
    contexts.push(context);
    const page = await context.newPage();
    await page.goto(`${files.origin}/demo/?server=${server.url}&devices=${name}`);
    await page.waitForFunction(() => window.devices);
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => null));
    pages.push(page);
  }
  const [one, two] = pages;
  const title = (page) => page.locator(".title").first();
  await one.locator("form input").fill("Order the paint");
  await one.locator("form button").click();
  await title(two).waitFor();
  await contexts[0].setOffline(true);
  await one.locator(".vote").click();
  // What is shown is on the disk; what is not yet shown is nobody's promise.
  await until("the vote is shown", async () => (await one.locator(".vote").textContent()) === "▲ 1");
  await one.reload();
  await one.waitForFunction(() => window.devices);
  await until("the vote is still there", async () => (await one.locator(".vote").textContent()) === "▲ 1");
  await one.locator(".vote").click();
  await until("it waits", async () => (await one.locator(".mark").textContent()) === "2 pending");
  await two.locator(".vote").click();
  await contexts[0].setOffline(false);
  for (const page of pages) {
    await until("both show all votes", async () => (await page.locator(".vote").textContent()) === "▲ 3");
    await until("nothing waits", async () => (await page.locator(".mark").textContent()) === "synced");
  }
  assert.equal((await server.operations()).length, 4);
});

test("a clock that is days off is said to be, and has no say", async () => {
  const off = await newDevice({ device: "off" });
  const right = await newDevice({ device: "right" });
  const day = 86_400_000;
  // Within the bound, so that it is believed; the other one's operations must come after what it has seen of this.
  await right.clock.setFixedTime(Date.now() + 300_000);
  for (const [ahead, word] of [
    [3 * day, "ahead"],
    [-3 * day, "behind"],
  ]) {
    const target = `note/${word}`;
    await act(right, target, { set: "before" });
    await sync(right);
    await sync(off);
    await off.clock.setFixedTime(Date.now() + ahead);
    await act(off, target, { set: "first" }, { set: "second" });
    await sync(off);
    const clock = await off.evaluate(() => device.clock());
    assert.equal(clock.believed, false);
    assert.ok(Math.abs(clock.ahead - ahead) < clock.bound, `${clock.ahead}`);
    assert.equal(await shown(off, target), "second", "what it knew of is before what it did");
    await sync(right);
    assert.equal(await shown(right, target), "second");
    await act(right, target, { set: "after" });
    await sync(right);
    await sync(off);
    assert.equal(await shown(off, target), "after", "and what came after that is after it");
    const all = (await server.operations()).filter((operation) => operation.target === target);
    assert.deepEqual(
      all.map((operation) => operation.redated ?? false),
      [false, true, true, false],
    );
    for (const { time } of all) assert.ok(Math.abs(time.millis - Date.now()) < clock.bound, "bounded");
  }
});

test("what the server's schema does not have is refused, or held if the device's is a later one", async () => {
  const kinds = { ...SCHEMA.kinds, plan: "latest" };
  const same = await newDevice({ schema: { version: 1, kinds } });
  const later = await newDevice({ schema: { version: 2, kinds } });
  for (const page of [same, later]) {
    await act(page, "plan/1", { set: "p" });
    await act(page, "note/1", { set: "n" });
    await sync(page);
    assert.equal(await shown(page, "note/1"), "n");
  }
  assert.deepEqual(await same.evaluate(async () => (await device.refused()).map((one) => one.reason)), ["unfit"]);
  assert.deepEqual(await same.evaluate(() => device.pending()), []);
  assert.equal(await shown(same, "plan/1"), null);
  assert.deepEqual(await later.evaluate(() => device.refused()), []);
  assert.match(await later.evaluate(async () => (await device.pending())[0].held), /./);
  assert.equal(await shown(later, "plan/1"), "p");
});

test("the demonstration: two devices cut off, then connected again", async () => {
  const context = await browser.context();
  contexts.push(context);
  const page = await context.newPage();
  await page.setViewportSize({ width: 1080, height: 460 });
  await page.goto(`${files.origin}/demo/?server=${server.url}&devices=phone,laptop`);
  await page.waitForFunction(() => window.devices);
  const on = (device, selector) => page.locator(`#${device} ${selector}`);
  const status = (device, text) =>
    until(`${device}: ${text}`, async () => (await on(device, ".status").textContent()) === text);
  const write = async (device, selector, text) => {
    await on(device, selector).first().fill(text);
    await on(device, selector).first().press("Enter");
  };
  await write("phone", "form input", "Order the paint");
  await write("phone", "form input", "Call the plumber");
  await on("laptop", ".task").nth(1).waitFor();
  for (const device of ["phone", "laptop"]) await on(device, "[role=switch]").uncheck();
  await write("phone", ".title", "Order white paint");
  await write("phone", ".tag", "shop");
  await on("phone", ".vote").first().click();
  await on("phone", ".done").nth(1).click();
  await write("laptop", ".title", "Order blue paint");
  await write("laptop", ".tag", "urgent");
  await on("laptop", ".vote").first().click();
  await on("laptop", ".done").nth(1).click();
  for (const device of ["phone", "laptop"]) await status(device, "cut off, 4 to be sent");
  await page.screenshot({ path: `${screenshots}cut-off.png` });
  for (const device of ["laptop", "phone"]) {
    await on(device, "[role=switch]").check();
    await status(device, "all sent, all received");
  }
  const text = async (device) => [
    await on(device, ".title").first().inputValue(),
    await on(device, ".tasks").innerText(),
  ];
  await until("both show the same", async () => String(await text("phone")) === String(await text("laptop")));
  const [title, rest] = await text("phone");
  assert.equal(title, "Order blue paint");
  assert.match(rest, /▲ 2[\s\S]*shop[\s\S]*urgent[\s\S]*finished on phone/);
  await page.screenshot({ path: `${screenshots}connected.png` });
});
