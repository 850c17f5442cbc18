// The log of a run: asked for piece by piece, and of many lines only those near to what is
// seen are in the page. It is text: nothing of it is ever taken for markup.
"use strict";
(() => {
  const box = document.querySelector("#log[data-lines].tall");
  if (!box) return;
  const part = box.closest("[hx-morph-skip]"), $ = (s) => part.querySelector(s);
  const block = 200, line = 19, most = 500000;
  const lines = [], blocks = [];
  let first = +box.dataset.from || 1, next = first, open = box.dataset.open === "true", follow = open && !location.hash, asked = false, done = false, broken = false, hits = [], at = -1, want = "";

  // Blocks of lines: filled when they come near, emptied to their height when they are far.
  const near = new IntersectionObserver((list) => {
    for (const e of list) (e.isIntersecting ? fill : empty)(e.target);
  }, { root: box, rootMargin: "2000px" });
  function row(i) {
    const d = document.createElement("div"), a = document.createElement("a"), text = lines[i], n = first + i;
    d.id = "L" + n; a.href = "#L" + n; a.textContent = n;
    const head = text.slice(0, 200);
    d.className = /\b(ERROR|FATAL|PANIC|SEVERE|CRITICAL)\b/.test(head) ? "t-fail" : /\bWARN(ING)?\b/.test(head) ? "t-late" : "";
    d.append(a);
    const low = want ? text.toLowerCase() : "";
    let from = 0;
    for (let to = want ? low.indexOf(want) : -1; to >= 0 && low.length === text.length; to = low.indexOf(want, from)) {
      const m = document.createElement("mark");
      m.textContent = text.slice(to, to + want.length);
      d.append(text.slice(from, to), m);
      from = to + want.length;
    }
    d.append(text.slice(from));
    if (location.hash === "#" + d.id || (at >= 0 && hits[at] === i)) d.classList.add("hit");
    return d;
  }
  const size = (b) => Math.min(block, lines.length - b.i * block);
  function fill(b) {
    if (b.full === size(b)) return;
    const rows = [];
    for (let i = b.i * block + b.full; i < b.i * block + size(b); i++) rows.push(row(i));
    b.append(...rows);
    b.full = rows.length + b.full;
    b.style.height = "";
  }
  function empty(b) {
    if (b.full) b.style.height = b.offsetHeight + "px"; else b.style.height = size(b) * line + "px";
    b.replaceChildren();
    b.full = 0;
  }
  function again() { for (const b of blocks) { if (b.full) { b.replaceChildren(); b.full = 0; fill(b); } } }
  function add(list) {
    if (!lines.length) box.replaceChildren();
    for (const text of list) lines.push(text);
    for (let i = blocks.length ? blocks.length - 1 : 0; i * block < lines.length; i++) {
      let b = blocks[i];
      if (!b) {
        b = document.createElement("div");
        b.i = i; b.full = 0; b.className = "block";
        blocks.push(b);
        box.append(b);
        b.style.height = size(b) * line + "px";
        near.observe(b);
      } else if (b.full) fill(b); else b.style.height = size(b) * line + "px";
    }
  }
  function show(i) {
    const b = blocks[Math.floor(i / block)];
    if (!b) return;
    fill(b);
    for (const d of box.querySelectorAll(".hit")) d.classList.remove("hit");
    const d = b.children[i % block];
    d.classList.add("hit");
    d.scrollIntoView({ block: "center" });
    requestAnimationFrame(() => d.isConnected && d.scrollIntoView({ block: "center" }));
  }
  // Lines that came with the page count until the script has its own.
  const count = () => lines.length || box.querySelectorAll(":scope > [id]").length;
  const say = (key) => box.dataset[key].replace("{}", count().toLocaleString());
  function stand() {
    $("[data-stand]").textContent = lines.length >= most ? say("full") : broken ? (count() ? say("broken") : "") : open ? say("more") : done ? say("all") : say("asks");
    const f = $("[data-follow]");
    f.hidden = !open;
    f.setAttribute("aria-pressed", follow);
  }
  const bottom = () => { box.scrollTop = box.scrollHeight; };
  function hash() {
    const n = +(/^#L(\d+)$/.exec(location.hash) || [])[1];
    if (n >= first && n < first + lines.length) { show(n - first); return true; }
    return false;
  }

  // load asks for what comes next, and goes on while there is or will be any. Where it does
  // not, and the rest is missing, who reads may have it asked again.
  async function load() {
    if (asked || document.hidden) return setTimeout(load, 1000);
    asked = true;
    let p = null, wait = 3000, on = true;
    try {
      const r = await fetch(box.dataset.lines + "?from=" + next);
      on = r.ok || r.status === 429 || r.status >= 500;
      if (r.ok && (r.headers.get("Content-Type") || "").includes("json")) p = await r.json();
    } catch { /* the server is not there */ }
    asked = false;
    broken = !p || !!p.broken;
    if (p) {
      const further = p.next > next;
      took(p);
      on = lines.length < most && (open || (!p.end && p.lines.length > 0));
      if (!p.broken) wait = !p.lines.length || !further ? 1000 : open ? 500 : 0;
    }
    stand();
    $("[data-again]").hidden = !broken || on;
    if (on) setTimeout(load, wait);
  }
  function took(p) {
    const note = $("[data-note]"), more = $("[data-more].more");
    note.hidden = !p.note;
    if (p.note) note.textContent = p.note;
    if (p.lines.length) {
      if (more) more.remove();
      if (p.from !== next) restart(p.from);
      add(p.lines);
      if (!hit) hit = hash();
      if (follow) { bottom(); requestAnimationFrame(bottom); }
      if (want) find(false);
    }
    if (p.end) open = false;
    next = Math.max(next, p.next);
    done = p.end || !p.lines.length;
  }
  // restart lets go of the lines that are there: what was kept begins later, and lines between are missing.
  function restart(from) {
    near.disconnect();
    lines.length = blocks.length = 0;
    first = from;
    at = -1;
  }
  let hit = false;

  // Find: all lines that have it, one after the other.
  function find(go) {
    hits = [];
    if (want) for (let i = 0; i < lines.length; i++) if (lines[i].toLowerCase().includes(want)) hits.push(i);
    if (go) at = hits.length ? hits.findIndex((i) => i >= Math.floor(box.scrollTop / line)) : -1;
    if (go && at < 0 && hits.length) at = 0;
    told();
  }
  function told() {
    $("[data-hits]").textContent = !want ? "" : hits.length ? `${at + 1} / ${hits.length.toLocaleString()}` : box.dataset.none;
  }
  function state() {
    const u = new URL(location.href);
    for (const [k, v] of [["find", search.value], ["wrap", box.classList.contains("wrap") ? "1" : ""]]) {
      if (v) u.searchParams.set(k, v); else u.searchParams.delete(k);
    }
    history.replaceState(null, "", u);
  }
  const search = $("[data-search]");
  let typing = 0;
  function look() {
    if (search.value.toLowerCase() === want) return;
    want = search.value.toLowerCase();
    find(true); again(); state();
    if (at >= 0) { follow = false; show(hits[at]); stand(); }
  }
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(look, 150); });
  search.addEventListener("keydown", (e) => {
    if (e.key !== "Enter") return;
    e.preventDefault();
    look();
    if (!hits.length) return;
    at = (at + (e.shiftKey ? -1 : 1) + hits.length) % hits.length;
    follow = false;
    show(hits[at]); told(); stand();
  });
  $("[data-wrap]").addEventListener("click", (e) => {
    const on = box.classList.toggle("wrap");
    e.currentTarget.setAttribute("aria-pressed", on);
    for (const b of blocks) if (!b.full) b.style.height = size(b) * line + "px";
    state();
  });
  $("[data-again]").addEventListener("click", (e) => { e.currentTarget.hidden = true; load(); });
  $("[data-follow]").addEventListener("click", () => { follow = !follow; if (follow) bottom(); stand(); });
  let top = 0;
  box.addEventListener("wheel", (e) => { if (e.deltaY < 0 && follow) { follow = false; stand(); } }, { passive: true });
  box.addEventListener("scroll", () => {
    // Up: who reads is not carried away. Down to the end: on with it.
    const down = box.scrollHeight - box.scrollTop - box.clientHeight < 4;
    if (open && box.scrollTop < top - 40 && !down && follow) { follow = false; stand(); } else if (open && down && !follow && box.scrollTop > top) { follow = true; stand(); }
    top = box.scrollTop;
  }, { passive: true });
  addEventListener("hashchange", () => { follow = false; hash(); stand(); });
  $("[data-tools]").hidden = false;
  want = search.value.toLowerCase();
  stand();
  load();
})();
