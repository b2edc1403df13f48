// A task list that several devices share. Each device here is a database of its own; on real devices there is one page each.
import { UnfitError, add, count, field, open, remove, set, uuid7 } from "../dist/index.js";

const query = new URLSearchParams(location.search);
const url = query.get("server") ?? "http://127.0.0.1:8081";
const names = (query.get("devices") ?? "phone,laptop").split(",");
const schema = {
  version: 1,
  kinds: { task: { title: "latest", done: "earliest", tags: "add-wins", votes: "counter" } },
};

// The page itself is to be there without a network, too.
await navigator.serviceWorker?.register("sw.js").catch(() => {});

const copy = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);

class Device {
  constructor(name, client) {
    this.name = name;
    this.client = client;
    this.root = copy("device");
    this.find = (selector) => this.root.querySelector(selector);
    this.root.id = name;
    this.find("h2").textContent = name;
    this.find("form").onsubmit = (event) => {
      event.preventDefault();
      const title = event.target.elements.title.value;
      event.target.reset();
      this.act(`task/${uuid7(Date.now())}`, field("title", set(title)));
    };
    const connected = this.find("[role=switch]");
    connected.checked = localStorage.getItem(`cut-off:${name}`) === null;
    connected.onchange = () => {
      if (connected.checked) localStorage.removeItem(`cut-off:${name}`);
      else localStorage.setItem(`cut-off:${name}`, "");
      return connected.checked ? client.start() : client.stop();
    };
    if (connected.checked) client.start();
    client.subscribe(() => this.show());
    this.show();
  }

  async act(target, wish) {
    try {
      await this.client.act(target, wish);
    } catch (error) {
      if (!(error instanceof UnfitError || error.name === "StorageFullError")) throw error;
      this.find(".status").textContent = error.message;
    }
  }

  /** Shows the latest, and once more if something has happened meanwhile. */
  async show() {
    if (this.showing) return void (this.again = true);
    this.showing = true;
    do {
      this.again = false;
      const [tasks, pending, refused] = await Promise.all([
        this.client.targets("task/"),
        this.client.pending(),
        this.client.refused(),
      ]);
      this.find(".status").textContent = this.status(pending.length);
      this.find(".status").dataset.is = this.client.status.is;
      this.find(".refused").replaceChildren(...refused.map((one) => this.refusal(one)));
      // What somebody is typing in stays as it is.
      if (!this.find(".tasks").contains(document.activeElement?.closest("input"))) {
        this.find(".tasks").replaceChildren(...tasks.map((one) => this.task(one)));
      }
    } while (this.again);
    this.showing = false;
  }

  status(pending) {
    const left = pending === 0 ? "" : `, ${pending} to be sent`;
    const { status } = this.client;
    switch (status.is) {
      case "up-to-date":
        return pending === 0 ? "all sent, all received" : `sending${left}`;
      case "failing":
        return `${status.passing ? "offline" : status.message}${left}`;
      case "stopped":
        return `cut off${left}`;
      default:
        return `${status.is}${left}`;
    }
  }

  task({ target, view, pending }) {
    const root = copy("task");
    const find = (selector) => root.querySelector(selector);
    root.dataset.target = target;
    root.classList.toggle("finished", view.done !== null);
    find(".done").textContent = view.done === null ? "" : "✓";
    find(".done").onclick = () => this.act(target, field("done", set(this.name)));
    find(".title").value = view.title ?? "";
    find(".title").onchange = (event) => {
      event.target.blur();
      this.act(target, field("title", set(event.target.value)));
    };
    find(".vote").textContent = `▲ ${view.votes}`;
    find(".vote").onclick = () => this.act(target, field("votes", count(1)));
    find(".tags").append(...view.tags.map((tag) => this.chip(target, tag)));
    find(".tag").onchange = (event) => {
      event.target.blur();
      this.act(target, field("tags", add(event.target.value)));
    };
    const by = view.done === null ? "" : `finished on ${view.done} · `;
    find(".mark").textContent = by + (pending === 0 ? "synced" : `${pending} pending`);
    find(".mark").classList.add(pending === 0 ? "sent" : "waiting");
    return root;
  }

  chip(target, tag) {
    const chip = document.createElement("button");
    chip.className = "chip";
    chip.title = "remove";
    chip.textContent = String(tag);
    chip.onclick = () => this.act(target, field("tags", remove(tag)));
    return chip;
  }

  refusal({ op_id, message }) {
    const root = document.createElement("li");
    const seen = document.createElement("button");
    seen.textContent = "Dismiss";
    seen.onclick = async () => (await this.client.dismiss(op_id), this.show());
    root.append(`The server refused a change: ${message}`, seen);
    return root;
  }
}

const devices = {};
for (const name of names) {
  devices[name] = new Device(name, await open({ name: `demo-${name}`, device: name, schema, url }));
  document.getElementById("devices").append(devices[name].root);
}
window.devices = devices;
