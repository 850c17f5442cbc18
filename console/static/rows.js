// Runs: rows that are seen stay where they are, a range of a chart is drawn, many are run
// again part by part.
"use strict";
(() => {
  // What is new announces itself; only what is known changes in its place. What is known and not
  // told of any more may have ended since: where rows are of a state it goes, elsewhere it says so.
  const old = (r, words) => {
    if (!r.hasAttribute("data-open")) return r.cloneNode(true); // it has ended, and stays so
    if (new URLSearchParams(location.search).has("state")) return [];
    const c = r.cloneNode(true);
    if (!c.classList.contains("old")) c.querySelector(".s").after(" " + words);
    c.classList.add("old");
    return c;
  };
  document.addEventListener("htmx:before:swap", (e) => {
    const table = document.querySelector("table[data-held]");
    for (const task of (table && e.detail.tasks) || []) {
      const fresh = task.fragment && task.fragment.querySelector && task.fragment.querySelector("table[data-held]");
      if (!fresh || task.target.id !== "live") continue;
      const came = new Map([...fresh.tBodies[0].rows].map((r) => [r.id, r])), known = [...table.tBodies[0].rows];
      const n = [...came.keys()].filter((id) => !known.some((r) => r.id === id)).length;
      const held = known.flatMap((r) => came.get(r.id) || old(r, fresh.dataset.old));
      if (!held.length) continue;
      fresh.tBodies[0].replaceChildren(...held);
      const say = task.fragment.querySelector("[data-new]");
      if (say && n) { say.hidden = false; say.textContent = say.dataset.say.replace("{}", n >= came.size ? n + "+" : n); }
    }
  });

  // A range of a chart.
  let from = null;
  const at = (svg, e) => {
    const r = svg.getBoundingClientRect(), n = svg.viewBox.baseVal.width / 8;
    return Math.max(0, Math.min(n - 1, Math.floor((e.clientX - r.left) / r.width * n)));
  };
  document.addEventListener("pointerdown", (e) => {
    const svg = e.target.closest("svg[data-step]");
    if (svg && e.button === 0) from = { svg, i: at(svg, e), moved: false };
  });
  document.addEventListener("dragstart", (e) => { if (e.target.closest && e.target.closest("svg[data-step]")) e.preventDefault(); });
  document.addEventListener("pointermove", (e) => {
    if (!from) return;
    const i = at(from.svg, e), brush = from.svg.querySelector(".brush");
    from.moved = from.moved || i !== from.i;
    if (!from.moved) return;
    brush.removeAttribute("hidden");
    brush.setAttribute("x", Math.min(i, from.i) * 8);
    brush.setAttribute("width", (Math.abs(i - from.i) + 1) * 8);
  });
  document.addEventListener("pointercancel", () => { // the finger scrolls
    if (from) from.svg.querySelector(".brush").setAttribute("hidden", "");
    from = null;
  });
  document.addEventListener("pointerup", (e) => {
    if (!from) return;
    const f = from, i = at(f.svg, e);
    from = null;
    if (!f.moved || i === f.i) return;
    const u = new URL(location.href), time = (k) => new Date(+f.svg.dataset.from + k * +f.svg.dataset.step).toISOString().replace(".000Z", "Z");
    u.searchParams.set("from", time(Math.min(i, f.i)));
    u.searchParams.set("to", time(Math.max(i, f.i) + 1));
    for (const k of ["when", "after", "panel"]) u.searchParams.delete(k);
    addEventListener("click", (c) => c.preventDefault(), { capture: true, once: true });
    location.href = u;
  });

  // The next part goes by itself, a moment later: time to stop it.
  const next = document.querySelector("form[data-goon]");
  if (next) {
    const timer = setTimeout(() => { if (next.isConnected) next.requestSubmit(); }, 700);
    addEventListener("submit", () => clearTimeout(timer)); // also that which stops it
  }
})();
