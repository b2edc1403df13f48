
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const dialog = document.getElementById("detail");
  const title = document.getElementById("detail-title");
  const body = document.getElementById("detail-body");
  const SVG = "http://www.w3.org/2000/svg";

  // Everything is put in as text: what frameworks say can't become a part of the page.
  const element = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const drawn = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const LANES = ["harness", "framework", "tool"];
  const ROW = 34, TOP = 44, LINE = 17;

  // What an event looks like: an arrow to another lane, an effect, or a note on its own lane.
  const LOOKS = [
    [1, /^called /, { to: 2 }],
    [2, /^answered /, { to: 1 }],
    [2, /^effect /, { effect: true }],
    [1, /^gave up on /, { fault: true }],
    [1, /^(exit|ended)/, { to: 0 }],
    [0, /^(started|resumed)/, { to: 1 }],
    [0, /^(killed|stopped|woken|cancelled)/, { to: 1, fault: true }],
    [0, /^(the answer is|holds|lets|delivered|the tool is)/, { to: 2, fault: true }],
    [0, /./, { fault: true }],
  ];
  const look = (lane, what) => (LOOKS.find(([its, form]) => its === lane && form.test(what)) || [0, 0, {}])[2];

  const wrap = (text, most) => {
    const lines = [""];
    for (let word of text.replace(/(.)\1{11,}/g, "$1$1$1…").split(" ")) {
      while (word.length > most) {
        lines.push(word.slice(0, most));
        word = word.slice(most);
      }
      const last = lines.length - 1;
      if (lines[last] === "") lines[last] = word;
      else if (lines[last].length + word.length < most) lines[last] += ` ${word}`;
      else lines.push(word);
    }
    return lines.filter((line, at) => line !== "" || at > 0);
  };

  const diagram = (run, name) => {
    // Lanes are narrower where there is little room; text is broken then.
    const narrow = innerWidth < 720;
    const LEFT = narrow ? 54 : 70, PITCH = narrow ? 104 : 230, WIDTH = LEFT + 3 * PITCH + 10;
    const x = (lane) => LEFT + PITCH / 2 + lane * PITCH;
    const LANE = Math.min(140, PITCH - 8);
    const letters = Math.floor((PITCH - 14) / 7.5);
    const parts = [];
    const add = (...args) => parts.push(drawn(...args));
    const seen = {};
    let y = TOP + 20;
    const rows = [];
    for (const [at, lane, word] of run.events) {
      const what = data.words[word];
      const { to, effect, fault } = look(lane, what);
      const lines = wrap(what, to !== undefined && Math.abs(to - lane) > 1 ? 2 * letters : letters);
      const height = Math.max(ROW, lines.length * LINE + 14);
      rows.push([y, height]);
      const bottom = y + height;
      const from = x(lane);
      const mark = fault ? " fault" : "";
      add("text", { x: LEFT - 8, y: y + 19, class: "time" }, `${at} ms`);
      const write = (middle, kind, first) =>
        lines.forEach((line, n) => add("text", { x: middle, y: first + n * LINE, class: kind }, line));
      if (to !== undefined) {
        const end = x(to), side = end > from ? 1 : -1;
        add("path", { class: `arrow${mark}`, d: `M${from} ${bottom - 6}H${end - side * 8}` });
        add("path", { class: `head${mark}`, d: `M${end} ${bottom - 6}l${-side * 9} -5v10z` });
        write((from + end) / 2, `label${mark}`, bottom - 12 - (lines.length - 1) * LINE);
      } else if (effect) {
        const step = what.slice(7);
        seen[step] = (seen[step] || 0) + 1;
        const again = seen[step] > 1 ? " again" : "";
        add("rect", { class: `effect${again}`, x: from - LANE / 2, y: y + 4, width: LANE, height: height - 8, rx: 13 });
        add("text", { x: from, y: y + 22, class: "effect-text" }, again ? `${what} (${seen[step]}.)` : what);
      } else {
        add("rect", { class: `note${mark}`, x: from - PITCH / 2 + 4, y: y + 3, width: PITCH - 8, height: height - 6, rx: 3 });
        write(from, `label${mark}`, y + 20);
      }
      y = bottom;
    }
    const effects = Object.entries(run.effects).map(([step, times]) => `${step}: ${times}`).join(", ");
    const picture = drawn("svg", {
      class: "course", viewBox: `0 0 ${WIDTH} ${y + 12}`, width: WIDTH, height: y + 12, role: "img",
      "aria-label": `Sequence diagram of ${name}: ${run.events.map(([, lane, word]) => `${LANES[lane]} ${data.words[word]}`).join("; ")}. Effects: ${effects}`,
    });
    rows.forEach(([top, height], n) => {
      if (n % 2 === 0) picture.append(drawn("rect", { class: "stripe", x: 0, y: top, width: WIDTH, height }));
    });
    LANES.forEach((lane, n) => {
      picture.append(
        drawn("path", { class: "lifeline", d: `M${x(n)} ${TOP}V${y + 6}` }),
        drawn("rect", { class: "lane", x: x(n) - LANE / 2, y: 10, width: LANE, height: 28, rx: 4 }),
        drawn("text", { class: "lane-name", x: x(n), y: 29 }, lane),
      );
    });
    picture.append(...parts);
    return picture;
  };

  const plural = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;

  const prediction = (cell) => {
    if (!cell.fault && !cell.predicted) return "The model has no such fault.";
    const about = [];
    if (cell.fault) about.push(`fault of the model: ${cell.fault}`);
    if (cell.property) about.push(`property at stake: ${cell.property}`);
    const names = about.length ? ` (${about.join("; ")})` : "";
    if (!cell.predicted) return `Not predicted${names}.`;
    const { protocol, possible, agrees } = cell.predicted;
    const says = `The protocol “${protocol}” predicts ${possible.join(" or ") || "nothing"}${names}`;
    if (!agrees) return `${says}: that is not what was seen.`;
    const other = cell.runs.some((run) => !run.missed && !possible.includes(run.kind));
    return `${says}, and so it was${other ? ", but for runs that were killed before their first call: the model begins with that" : ""}.`;
  };

  let now = null;
  let opener = null;

  const showRun = (number, focus) => {
    const [profile, name] = now;
    const cell = data.profiles[profile].cells[name];
    now[2] = number;
    const run = cell.runs[number];
    for (const button of body.querySelectorAll("[data-run]")) {
      const its = Number(button.dataset.run) === number;
      button.setAttribute("aria-pressed", String(its));
      if (its && focus) button.focus();
    }
    const course = body.querySelector(".run");
    const effects = Object.entries(run.effects).map(([step, times]) => `${step} ${plural(times, "time")}`).join(", ");
    course.replaceChildren(
      element("p", {}, `Run ${number + 1}: `, element("b", {}, run.missed ? "missed" : run.outcome),
        run.missed ? `: ${run.missed}` : "", `. Effects: ${effects || "none"}. ${run.seconds} s.`),
      element("div", { class: "picture", tabindex: "0", role: "region", "aria-label": "Course of the run, to scroll" },
        diagram(run, `run ${number + 1} of ${name}`)),
    );
    history.replaceState(null, "", `#cell=${profile}/${name}/${number + 1}`);
  };

  const open = (profile, name, run) => {
    const cell = data.profiles[profile]?.cells[name];
    if (!cell) return;
    opener = document.activeElement;
    now = [profile, name, 0];
    title.textContent = `${data.profiles[profile].name}: ${name}`;
    const runs = cell.runs.map((its, n) => element("button", {
      type: "button", "data-run": n, class: `mark ${its.missed ? "missed" : its.kind}`, "aria-pressed": "false",
      title: its.missed ? `missed: ${its.missed}` : its.outcome,
    }, `${n + 1}: ${its.missed ? "missed" : its.kind === "error" ? "error" : its.outcome}`));
    const counts = {};
    for (const its of cell.runs) {
      const kind = its.missed ? "missed" : its.outcome;
      counts[kind] = (counts[kind] || 0) + 1;
    }
    const counted = Object.entries(counts).map(([kind, times]) => `${times} × ${kind}`).join(", ");
    const said = element("p", {}, prediction(cell));
    if (cell.predicted && !cell.predicted.agrees) said.className = "disagrees";
    body.replaceChildren(
      // What is between back quotes is code.
      element("p", {}, ...(data.cells[name] || "").split("`").map((part, at) => (at % 2 ? element("code", {}, part) : part))),
      element("p", {}, `${plural(cell.runs.length, "run")}: ${counted || "none"}.`),
      said,
      element("div", { class: "runs", role: "group", "aria-label": "Runs" }, ...runs),
      element("div", { class: "run", "aria-live": "polite" }),
    );
    if (cell.runs.length) showRun(Math.max(0, Math.min(cell.runs.length - 1, run)), false);
    if (!dialog.open) dialog.showModal();
    title.focus();
  };

  dialog.addEventListener("close", () => {
    history.replaceState(null, "", location.pathname + location.search);
    if (opener && opener.isConnected) opener.focus();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.getElementById("detail-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("keydown", (event) => {
    const button = event.target.closest("[data-run]");
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!button || !step) return;
    const next = Number(button.dataset.run) + step;
    if (body.querySelector(`[data-run="${next}"]`)) showRun(next, true);
    event.preventDefault();
  });

  document.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-cell]");
    const run = event.target.closest("[data-run]");
    if (cell) open(Number(cell.dataset.profile), cell.dataset.cell, 0);
    else if (run) showRun(Number(run.dataset.run), false);
  });

  // One stop for the tab key; within the matrix the arrow keys move.
  const table = document.querySelector(".matrix");
  const rows = () => [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const stop = (button) => {
    for (const other of table.querySelectorAll("button")) other.tabIndex = -1;
    if (button) button.tabIndex = 0;
  };
  stop(table.querySelector("button"));
  table.addEventListener("focusin", (event) => { if (event.target.matches("button")) stop(event.target); });
  table.addEventListener("keydown", (event) => {
    const field = event.target.closest("td");
    if (!field || event.altKey || event.ctrlKey || event.metaKey) return;
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    const all = rows();
    let row = all.indexOf(field.parentElement), column = field.cellIndex;
    for (;;) {
      row += move[0];
      column += move[1];
      const button = all[row]?.cells[column]?.querySelector("button");
      if (!all[row]?.cells[column] || column < 1) return;
      if (button) return button.focus();
    }
  });

  const filters = document.querySelector(".filters");
  const byName = document.getElementById("filter-name");
  const byKind = document.getElementById("filter-kind");
  const byGuard = document.getElementById("filter-behind");
  const filter = () => {
    const words = byName.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = byKind.value;
    const guard = byGuard ? byGuard.value : "*";
    let shown = 0, found = 0;
    for (const row of table.tBodies[0].rows) {
      let hits = 0;
      for (const button of row.querySelectorAll("button")) {
        const hit = !kind || button.dataset.kinds.split(" ").includes(kind);
        button.classList.toggle("dim", !hit);
        hits += hit ? 1 : 0;
      }
      row.hidden = !words.every((word) => row.dataset.name.includes(word))
        || (guard !== "*" && row.dataset.behind !== guard) || (kind !== "" && hits === 0);
      shown += row.hidden ? 0 : 1;
      found += row.hidden ? 0 : hits;
    }
    const count = document.getElementById("filter-count");
    count.textContent = `${plural(shown, "profile")}, ${plural(found, "cell")}`;
    const stopped = table.querySelector("button[tabindex='0']");
    if (!stopped || stopped.closest("tr").hidden) stop(rows()[0]?.querySelector("button"));
  };
  filters.addEventListener("input", filter);
  filters.addEventListener("submit", (event) => event.preventDefault());
  for (const hidden of document.querySelectorAll(".filters, .hint")) hidden.hidden = false;
  filter();

  const asked = () => {
    const match = /^#cell=(\d{1,6})\/([a-z-]{1,40})\/(\d{1,6})$/.exec(location.hash);
    if (match) open(Number(match[1]), match[2], Number(match[3]) - 1);
  };
  addEventListener("hashchange", asked);
  asked();
})();
