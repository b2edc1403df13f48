(() => {
  "use strict";
  const failed = [];
  let checks = 0;
  const holds = (what, is) => {
    checks += 1;
    if (!is) failed.push(what);
  };
  const all = (selector) => [...document.querySelectorAll(selector)];
  const cell = (profile, name) => document.querySelector(`.matrix [data-profile="${profile}"][data-cell="${name}"]`);
  const dialog = document.getElementById("detail");
  const press = (on, key) => on.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  try {
    holds("one stop for the tab key", all('.matrix button[tabindex="0"]').length === 1);

    cell(0, "kill-after-effect").focus();
    cell(0, "kill-after-effect").click();
    holds("a click opens a cell", dialog.open && document.getElementById("detail-title").textContent.includes("kill-after-effect"));
    holds("its five runs", all("[data-run]").length === 5);
    holds("its prediction", document.getElementById("detail-body").textContent.includes("“workflow-journal” predicts duplicate"));
    const svg = document.querySelector("svg.course");
    const words = svg ? [...svg.querySelectorAll("text")].map((text) => text.textContent) : [];
    holds("the lanes", ["harness", "framework", "tool"].every((lane) => words.includes(lane)));
    holds("the second effect stands out", words.includes("effect b (2.)") && svg.querySelector(".effect.again") !== null);
    holds("the kill is an arrow", words.includes("killed") && svg.querySelector(".arrow.fault") !== null);
    press(document.querySelector('[data-run="0"]'), "ArrowRight");
    holds("the arrow key shows the next run", location.hash === "#cell=0/kill-after-effect/2");
    document.getElementById("detail-close").click();
    holds("it closes", !dialog.open);

    cell(0, "kill-after-effect").focus();
    press(document.activeElement, "ArrowDown");
    holds("the arrow keys move", document.activeElement === cell(1, "kill-after-effect"));

    const shown = () => all(".matrix tbody tr").filter((row) => !row.hidden).length;
    const choose = (id, value) => {
      const field = document.getElementById(id);
      field.value = value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    };
    choose("filter-name", "other");
    holds("the filter by name", shown() === 1 && document.getElementById("filter-count").textContent.startsWith("1 profile,"));
    choose("filter-name", "");
    choose("filter-kind", "disagrees");
    holds("the filter by outcome", shown() === 1 && all(".matrix button:not(.dim)").length === 1);
    choose("filter-kind", "");
    choose("filter-behind", "settled");
    holds("the filter by guard", shown() === 1);
    choose("filter-behind", "*");
    holds("all is shown again", shown() === 4 && all(".matrix .dim").length === 0);
  } catch (error) {
    failed.push(String(error));
  }
  const said = document.createElement("pre");
  said.id = "probe";
  said.textContent = failed.length ? `failed: ${failed.join("; ")}` : `all ${checks} checks hold`;
  document.body.append(said);
})();
