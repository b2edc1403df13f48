
(() => {
  "use strict";
  const states = [...document.querySelectorAll(".state")];
  const said = document.querySelector(".said");
  const count = document.querySelector(".count");
  const buttons = [...document.querySelectorAll("[data-go]")];
  const last = states.length - 1;
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");
  let now = -1;

  const asked = () => {
    const match = /^#step=(\d{1,9})$/.exec(location.hash);
    return match ? Number(match[1]) : 0;
  };

  const show = (wanted, scroll) => {
    const step = Math.max(0, Math.min(last, wanted));
    if (step === now) return;
    const first = now < 0;
    now = step;
    states.forEach((state, at) => { state.hidden = at !== step; });
    for (const part of document.querySelectorAll(".diagram [data-step]")) {
      part.classList.toggle("now", Number(part.dataset.step) === step);
    }
    said.textContent = states[step].querySelector("h2").textContent;
    count.textContent = `Step ${step} of ${last}`;
    for (const button of buttons) {
      const backwards = button.dataset.go === "first" || button.dataset.go === "back";
      // Not `disabled`, which would take the focus away from a button that has just been pressed.
      button.setAttribute("aria-disabled", String(step === (backwards ? 0 : last)));
    }
    if (scroll) {
      const behavior = first || reduced.matches ? "auto" : "smooth";
      document.querySelector(".step-row.now")?.scrollIntoView({ block: "center", inline: "nearest", behavior });
    }
  };

  const select = (step, scroll) => {
    show(step, scroll);
    history.replaceState(null, "", `#step=${now}`);
  };

  const go = { first: () => 0, back: () => now - 1, on: () => now + 1, last: () => last };
  const keys = { Home: "first", ArrowLeft: "back", ArrowRight: "on", End: "last" };

  document.body.classList.add("scripted");
  document.querySelector(".controls").hidden = false;
  said.hidden = false;

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-go]");
    const part = event.target.closest(".diagram [data-step]");
    if (button) select(go[button.dataset.go](), true);
    else if (part) select(Number(part.dataset.step), false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.closest("pre")) return;
    if (!Object.hasOwn(keys, event.key)) return;
    event.preventDefault();
    select(go[keys[event.key]](), true);
  });
  addEventListener("hashchange", () => show(asked(), true));
  show(asked(), location.hash !== "");
})();
