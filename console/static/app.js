// The script of the console. Every page works without it, but for keys, for what changes
// while it is open, and for panels that lie over it.
"use strict";
(() => {
  const $ = (s, of) => (of || document).querySelector(s), $$ = (s, of) => [...(of || document).querySelectorAll(s)];
  const body = document.body;

  // The browser's own zone, for "times: mine".
  const tz = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (tz && !document.cookie.includes("tickring_tz=" + encodeURIComponent(tz))) {
    document.cookie = "tickring_tz=" + encodeURIComponent(tz) + ";path=/console/;max-age=31536000;samesite=lax";
  }
  document.addEventListener("change", (e) => {
    if (e.target.closest("[data-settings],[data-now]")) e.target.form.requestSubmit();
  });

  // What changed on the server. A page is asked for again, and what differs is put in its
  // place; not under who selects, types or has a panel open.
  let stale = false;
  const busy = () => {
    const at = document.activeElement;
    return !!(changed() || $("dialog:modal") || $("#live input[data-pick]:checked") || (at && at.closest("#live form:not(.filters)")) ||
      (getSelection() && !getSelection().isCollapsed && $("#live").contains(getSelection().anchorNode)));
  };
  let asking = 0;
  function refresh() {
    const live = $("#live");
    if (!live || document.hidden || body.hasAttribute("data-still")) { stale = true; return; }
    if (busy() || (asking && Date.now() - asking < 10000)) { stale = true; setTimeout(() => stale && refresh(), 1000); return; }
    stale = false;
    asking = Date.now();
    live.dispatchEvent(new Event("refresh"));
  }
  document.addEventListener("htmx:after:request", () => { asking = 0; });
  // What is there for who has no scripts is part of a page that was put in its place, and would act.
  const quiet = () => { for (const n of $$("noscript")) n.replaceChildren(); };
  document.addEventListener("htmx:after:swap", () => { asking = 0; quiet(); mark(); document.dispatchEvent(new Event("console:shown")); });
  // What was folded out, and the row that one is at, stay so.
  window.htmx?.registerExtension("stays", {
    htmx_before_morph_attr(e, { attrName, newValue }) {
      if (attrName === "class" && e.matches("tr.at")) e.className = `${newValue || ""} at`.trim();
      return !(attrName === "class" && e.matches("tr.at") || attrName === "open" && e.matches("details"));
    },
  });
  document.addEventListener("htmx:error", () => { asking = 0; });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) refresh(); });
  function lost(text) {
    const box = $(".lost");
    if (text && !box) {
      const d = document.createElement("div");
      d.className = "lost"; d.setAttribute("role", "alert"); d.textContent = text;
      body.prepend(d);
    } else if (text) { box.textContent = text; } else if (box) { box.remove(); refresh(); }
  }
  // Nobody is logged in here any more. The page is asked for again, which is the way in; who
  // types is told instead, can log in elsewhere and go on here.
  function out() {
    if (busy() || body.hasAttribute("data-posted")) lost(body.dataset.ended); else location.reload();
  }
  // What is before a server that is gone may answer for it: of its pages nothing is shown here.
  const other = ({ status, headers }) => status >= 400 && status !== 401 && !headers.has("Content-Security-Policy");
  document.addEventListener("htmx:before:response", (e) => {
    const r = e.detail.ctx.response;
    if (r.status !== 401 && !other(r)) return;
    e.preventDefault();
    asking = 0;
    if (r.status === 401) out(); else gone();
  });
  addEventListener("pageshow", (e) => { if (e.persisted) refresh(); });
  // whether the server answers, and knows who asks: else what is said of that stays; and whether anything is new
  async function look() {
    const r = await reach("/console/live", { method: "HEAD", cache: "no-store", headers: { "X-Since": body.dataset.since } });
    if (r?.status === 401) { out(); return; }
    if (!r?.ok) return;
    lost("");
    if (r.status === 204) { wait = +r.headers.get("X-Ask-Again"); later(); } else refresh();
  }
  // gone says that the server does not answer, and looks until it does; reach asks it for something.
  function gone() {
    lost(body.dataset.lost);
    wait = every;
    clearTimeout(timer);
    timer = setTimeout(poll, wait);
  }
  const reach = (url, how) => fetch(url, how).then((r) => other(r) ? gone() : r, gone);
  // A page that nobody tells asks. Each answer costs, and says when to ask again. A tab that is
  // not seen asks nothing.
  const every = +body.dataset.live || 4000;
  let asks = false, wait = every, timer = 0;
  const later = () => { clearTimeout(timer); if (asks) timer = setTimeout(poll, wait); };
  const poll = () => {
    later();
    if (document.hidden) stale = true; else look();
  };
  document.addEventListener("htmx:after:request", (e) => {
    if (!asks) return;
    const ms = +(e.detail.ctx.response?.headers.get("X-Ask-Again") ?? 0); // none came where the server is gone
    if (e.target.id === "live" && ms) body.dataset.since = e.detail.ctx.response.headers.get("X-Since");
    if (e.target.id !== "live") e.target.askAgain = Date.now() + ms; else if (ms) { wait = ms; later(); }
  });
  const polls = (on) => { asks = on; wait = every; later(); };
  if (body.dataset.live === "push" && !body.hasAttribute("data-out")) {
    // A browser has six connections to a host in all, so only a page that is seen holds one: not
    // a tab behind others, nor what is kept for Back.
    let source = null;
    const listen = () => {
      if (source || document.hidden) return;
      const s = source = new EventSource("/console/live?since=" + body.dataset.since);
      s.addEventListener("changed", refresh);
      s.onopen = () => { polls(false); lost(""); };
      s.onerror = () => {
        // Between two listens the browser connects by itself; it gives up where it was refused:
        // there is no place, or nobody is logged in. Then the page asks, and listens anew now and then.
        setTimeout(() => { if (s === source && s.readyState === EventSource.CONNECTING) lost(body.dataset.lost); }, 1500);
        if (s === source && s.readyState === EventSource.CLOSED) {
          setTimeout(() => {
            if (s !== source) return;
            deaf();
            if (!asks) { look(); polls(true); }
            setTimeout(listen, 30000);
          }, 2000);
        }
      };
    };
    const deaf = () => { source?.close(); source = null; };
    addEventListener("pagehide", deaf);
    addEventListener("pageshow", (e) => { if (e.persisted) listen(); });
    document.addEventListener("visibilitychange", () => { if (document.hidden) { deaf(); stale = true; } else listen(); });
    listen();
  } else if (+body.dataset.live && !body.hasAttribute("data-out")) polls(true);
  // Parts that ask by themselves, again and again.
  document.addEventListener("htmx:before:request", (e) => {
    if (/every/.test(e.target.dataset.hxTrigger) && (document.hidden || Date.now() < e.target.askAgain)) e.preventDefault();
  });

  // How far a moment is from now, in the words of the server; and its clock.
  const [comes, was, ...units] = body.dataset.far.split("|");
  const span = (ms) => {
    const s = Math.round(Math.abs(ms) / 1000), i = s < 60 ? 0 : s < 7200 ? 1 : s < 172800 ? 2 : 3;
    return (ms < 0 ? was : comes).replace("{}", units[i].replace(/\d+/, Math.floor(s / [1, 60, 3600, 86400][i])));
  };
  const clock = $("[data-clock]"), ahead = clock ? clock.dataset.clock * 1000 - Date.now() : 0;
  setInterval(() => {
    for (const e of $$("[data-at]")) { const t = span(+e.dataset.at - Date.now()); if (e.textContent !== t) e.textContent = t; }
    if (clock) clock.textContent = new Date(Date.now() + ahead).toLocaleTimeString("en-GB", { timeZone: clock.dataset.zone });
  }, 1000);

  // Panels: a link with data-panel has the dialog of the page that it leads to laid over this
  // one; closed, the page and the focus are where they were.
  let opener = null, home = "";
  function show(d, from) {
    d.removeAttribute("open"); // it was open as part of the page; to close it would be heard of below
    const u = new URL(location.href); // without the panel it shows the same
    for (const name of ["panel", "pick", "name", "kind"]) u.searchParams.delete(name);
    opener = from; home = d.dataset.back || u.pathname + u.search;
    d.showModal();
    d.addEventListener("close", () => {
      history.replaceState(null, "", home);
      d.remove(); // and with it what was typed there
      if (opener && opener.isConnected) opener.focus();
      opener = null;
      if (stale) refresh();
    }, { once: true });
  }
  async function panel(link) {
    const inner = link.closest("dialog"), back = inner ? home : location.href; // one that follows another closes as that
    const r = await reach(link.href, { headers: { "X-Panel": "1" } });
    if (!r) return;
    const d = new DOMParser().parseFromString(await r.text(), "text/html").querySelector("#panels dialog");
    if (!d || !r.ok) { location.href = link.href; return; }
    d.dataset.back = back;
    history.replaceState(null, "", link.href);
    $("#panels").replaceChildren(d);
    if (window.htmx) htmx.process(d);
    show(d, inner ? opener : link);
  }
  document.addEventListener("click", (e) => {
    const link = e.target.closest("a[data-panel]");
    if (link && !e.metaKey && !e.ctrlKey && !e.shiftKey) { e.preventDefault(); panel(link); return; }
    if (e.target.closest("[data-close]")) { e.preventDefault(); e.target.closest("dialog").close(); }
    if (e.target.matches("dialog.palette")) e.target.close();
  });
  const shown = $("#panels dialog");
  if (shown) show(shown, null);

  // A form is sent once; one that was changed is not left unsaid, by a form of the frame neither:
  // who stays finds its choices as they were.
  const changed = () => $("form[data-changed]");
  if (body.hasAttribute("data-posted")) for (const f of $$("#panels form[data-keep], form.full[data-keep]")) f.dataset.changed = "1"; // not saved
  const unsent = () => { for (const f of $$("form[data-sent]")) delete f.dataset.sent; };
  document.addEventListener("input", (e) => { const f = e.target.closest("form[data-keep]"); if (f) f.dataset.changed = "1"; });
  document.addEventListener("submit", (e) => {
    const f = e.target;
    if (f.method !== "post") return;
    if (f.dataset.sent) { e.preventDefault(); return; }
    f.dataset.sent = "1"; delete f.dataset.changed;
    setTimeout(() => { delete f.dataset.sent; }, 5000);
  });
  addEventListener("pageshow", unsent);
  addEventListener("beforeunload", (e) => {
    if (!changed()) return;
    e.preventDefault();
    unsent();
    for (const f of $$("form[data-settings]")) f.reset();
  });

  // Where code is typed Tab indents; after Escape it goes on to the next field, as elsewhere.
  document.addEventListener("keydown", (e) => {
    const t = e.target;
    if (!t.matches("textarea[data-code]")) return;
    if (e.key === "Escape") { t.dataset.leave = "1"; e.stopPropagation(); return; }
    if (e.key === "Tab" && !e.shiftKey && !e.altKey && !e.ctrlKey && !e.metaKey && !t.dataset.leave) {
      e.preventDefault();
      t.setRangeText("  ", t.selectionStart, t.selectionEnd, "end");
      t.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }, true);
  document.addEventListener("input", (e) => {
    const of = e.target.matches("textarea[data-code]") && e.target.previousElementSibling;
    if (of && of.matches("[data-numbers]")) of.textContent = e.target.value.split("\n").map((_, i) => i + 1).join("\n");
  });
  // A common schedule is put in the last row of them, to be changed there.
  document.addEventListener("change", (e) => {
    const row = e.target.matches("select[data-common]") && e.target.value && $$(".rule:has([name^=kind])", e.target.form).pop();
    if (!row) return;
    const [, kind, expr] = e.target.value.match(/(\S+) (.*)/), field = $("input", row);
    e.target.value = ""; $("select", row).value = kind; field.value = expr;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.focus();
  });
  // A script that is still the template of its language becomes that of another with it.
  document.addEventListener("change", (e) => {
    const all = $$("option[data-template]", e.target).map((o) => o.dataset.template);
    const t = all.length && $("textarea[data-code]", e.target.form);
    if (!t || !["", ...all].includes(t.value)) return;
    t.value = e.target.selectedOptions[0].dataset.template;
    t.dispatchEvent(new Event("input", { bubbles: true }));
  });
  document.addEventListener("focusin", (e) => { if (e.target.matches("textarea[data-code]")) delete e.target.dataset.leave; });

  // Rows: picked ones have their actions in a sheet at the foot.
  let lastPick = null;
  function mark() {
    const picks = $$("input[data-pick]"), on = picks.filter((p) => p.checked);
    for (const p of picks) p.closest("tr").setAttribute("aria-selected", p.checked);
    for (const s of $$("[data-sheet]")) {
      s.hidden = on.length === 0;
      for (const n of $$("[data-count]", s)) n.textContent = on.length;
      for (const a of $$("a[data-panel]", s)) {
        const u = new URL(a.dataset.href || (a.dataset.href = a.getAttribute("href")), location.href);
        u.searchParams.delete("pick");
        for (const p of on) u.searchParams.append("pick", p.value);
        a.setAttribute("href", u.pathname + u.search);
      }
      const cli = $("[data-cli]");
      if (cli) cli.textContent = cli.dataset.cli.replace("{}", on.map((p) => p.value).join(" "));
    }
  }
  document.addEventListener("click", (e) => {
    const p = e.target.closest("input[data-pick]");
    if (e.target.closest("input[data-all]")) { for (const q of $$("input[data-pick]")) q.checked = e.target.checked; mark(); return; }
    if (!p) return;
    if (e.shiftKey && lastPick) {
      const all = $$("input[data-pick]"), [i, j] = [all.indexOf(lastPick), all.indexOf(p)].sort((a, b) => a - b);
      for (const q of all.slice(i, j + 1)) q.checked = p.checked;
    }
    lastPick = p;
    mark();
  });

  // Keys.
  const rows = () => $$("table.rows tbody tr");
  function step(n) {
    const all = rows(), i = all.findIndex((r) => r.classList.contains("at")), next = all[Math.min(all.length - 1, Math.max(0, i < 0 ? 0 : i + n))];
    if (!next) return;
    for (const r of all) r.classList.remove("at");
    next.classList.add("at");
    const link = $("a", next);
    if (link) link.focus();
    next.scrollIntoView({ block: "nearest" });
  }
  let palette = null;
  // first goes to what is found first for a text; the list that is shown may be of the letters before it.
  async function first(text) {
    const r = await reach("/console/find/list?text=" + encodeURIComponent(text));
    const to = r && new DOMParser().parseFromString(await r.text(), "text/html").querySelector("li a");
    if (to && palette) location.href = to.getAttribute("href");
  }
  async function find() {
    if (palette && palette.open) return;
    const from = document.activeElement;
    const r = await reach("/console/find", { headers: { "X-Panel": "1" } });
    if (!r) return;
    const d = new DOMParser().parseFromString(await r.text(), "text/html").querySelector("dialog.palette");
    if (!d) { location.href = "/console/find"; return; }
    palette = d;
    if (d.open) d.close();
    d.removeAttribute("open");
    body.append(d);
    if (window.htmx) htmx.process(d);
    d.showModal();
    $("input", d).focus();
    d.addEventListener("close", () => { d.remove(); palette = null; if (from && from.isConnected) from.focus(); });
    d.addEventListener("keydown", (e) => {
      const links = $$("li a", d), i = links.findIndex((l) => l.parentNode.classList.contains("at"));
      if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        e.preventDefault();
        for (const l of links) l.parentNode.classList.remove("at");
        const to = links[(i + (e.key === "ArrowDown" ? 1 : -1) + links.length) % links.length];
        if (to) { to.parentNode.classList.add("at"); to.scrollIntoView({ block: "nearest" }); }
      }
    });
    d.addEventListener("submit", (e) => { // Enter, but for that which ends a word of an input method
      e.preventDefault();
      const at = $("li.at a", d);
      if (at) at.click(); else first($("input", d).value);
    });
  }
  document.addEventListener("click", (e) => { if (e.target.closest("[data-find]")) { e.preventDefault(); find(); } });
  document.addEventListener("keydown", (e) => {
    if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === "k") { e.preventDefault(); find(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input,textarea,select,[contenteditable]") || $("dialog:modal")) {
      if (e.key === "Escape" && e.target.matches("input[type=search]")) e.target.blur();
      return;
    }
    switch (e.key) {
      case "/": { const s = $("#live input[type=search]"); if (s) { e.preventDefault(); s.focus(); s.select(); } break; }
      case "j": step(1); break;
      case "k": step(-1); break;
      case "x": { const p = $("tr.at input[data-pick]"); if (p) p.click(); break; }
      case "?": { const k = $("a[data-keys]"); if (k) { e.preventDefault(); panel(k); } break; }
      case "Escape": for (const p of $$("input[data-pick]:checked")) p.checked = false; mark(); break;
      default: { const a = $(`[data-key="${CSS.escape(e.key)}"]`); if (a) { e.preventDefault(); a.click(); } }
    }
  });
  mark();
  $("form[data-once]")?.requestSubmit(); // of a link that logs in
})();
