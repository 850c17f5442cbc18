// What the suite asks of a page: where a control is, what of its layout is
// broken, and when its first row was painted. Runs before the page's own script.
(() => {
  const t = (window.tickringTest = {});
  const controls = 'a[href],button,input,select,textarea,summary,label,[role=button],[role=option],[tabindex]';
  const squeeze = (s) => (s || '').replace(/\s+/g, ' ').trim();

  t.shown = (e) => {
    if (!e.checkVisibility({ visibilityProperty: true, opacityProperty: true })) return false;
    const r = e.getBoundingClientRect();
    return r.width > 1 && r.height > 1;
  };
  t.name = (e) => {
    const by = e.getAttribute('aria-labelledby');
    if (by) return squeeze(by.split(/\s+/).map((id) => document.getElementById(id)?.textContent).join(' '));
    if (e.getAttribute('aria-label')) return squeeze(e.getAttribute('aria-label'));
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName)) {
      if (/^(submit|button|reset)$/.test(e.type)) return squeeze(e.value);
      if (e.labels?.length) return squeeze([...e.labels].map((l) => l.innerText || l.textContent).join(' '));
      return squeeze(e.title || e.placeholder || e.name);
    }
    return squeeze(e.innerText || e.textContent || e.title);
  };
  // find answers where to click for a control of this name: exactly so named,
  // else beginning with it, else holding it. Or a selector, after "css:".
  t.element = (what) => {
    // What a modal dialog covers is nobody's to click.
    const open = [...document.querySelectorAll('dialog:modal')].pop() || document;
    if (what.startsWith('css:')) return [...open.querySelectorAll(what.slice(4))].find(t.shown);
    // Of a link and the box that picks its row, the link.
    const all = [...open.querySelectorAll(controls)].filter(t.shown).sort((a, b) => b.matches('a,button') - a.matches('a,button'));
    const named = (f) => all.find((e) => f(t.name(e)));
    return named((n) => n === what) || named((n) => n.startsWith(what)) || named((n) => n.includes(what));
  };
  t.find = (what) => {
    if (document.readyState !== 'complete') return { why: 'the page is still loading' };
    const e = t.element(what);
    if (!e) return { why: `nothing on the page is called "${what}"` };
    e.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
    const r = e.getClientRects()[0];
    const x = r.left + r.width / 2, y = r.top + r.height / 2;
    const top = document.elementFromPoint(x, y);
    if (!top || !(e.contains(top) || top.contains(e) || [...(e.labels || [])].some((l) => l.contains(top)))) {
      return { why: `"${what}" is covered by <${top?.tagName.toLowerCase()} class="${top?.className}"> ${squeeze(top?.textContent).slice(0, 60)}` };
    }
    // Whether the click that comes next is its: the page may move under it. Of what lies under a label, or in what is clicked, that is not said.
    t.missed = e.contains(top);
    document.addEventListener('click', (c) => { if ((t.element(what) || e).contains(c.target)) t.missed = false; }, { capture: true, once: true });
    return { x, y };
  };

  const at = (e) => {
    const words = squeeze(e.innerText || e.textContent || e.value).slice(0, 60);
    return `<${e.tagName.toLowerCase()}${e.id ? ' id=' + e.id : ''}${typeof e.className === 'string' && e.className ? ' class="' + e.className + '"' : ''}> "${words}"`;
  };
  const scrolls = (s) => /auto|scroll/.test(s.overflowX) || /auto|scroll/.test(s.overflowY);
  const scroller = (e) => {
    for (let p = e.parentElement; p && p !== document.body && p !== document.documentElement; p = p.parentElement) {
      if (scrolls(getComputedStyle(p))) return p;
    }
  };
  // hiddenFromEyes: text for screen readers alone, as every page has some.
  const hiddenFromEyes = (e) => {
    for (; e && e !== document.body; e = e.parentElement) {
      const s = getComputedStyle(e);
      if (s.clipPath === 'inset(50%)' || (s.position === 'absolute' && e.clientWidth <= 1 && e.clientHeight <= 1)) return true;
    }
    return false;
  };
  // layout lists what is cut, covered, or wider than the window.
  t.layout = () => {
    const bad = [], wide = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > wide + 1) bad.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${wide}`);
    const texts = [];
    for (const e of (document.querySelector('dialog:modal') || document.body).querySelectorAll('*')) {
      if (!t.shown(e) || hiddenFromEyes(e)) continue;
      const s = getComputedStyle(e), r = e.getBoundingClientRect();
      const inSVG = e.ownerSVGElement;
      if (!inSVG && !scroller(e) && (r.right > wide + 1 || r.left < -1) && e.children.length === 0) bad.push(`outside the window: ${at(e)} from ${r.left | 0} to ${r.right | 0} of ${wide}`);
      const field = /^(INPUT|TEXTAREA|SELECT)$/.test(e.tagName);
      if (!field && !inSVG && squeeze(e.textContent)) {
        const hides = (o) => o === 'hidden' || o === 'clip';
        if (hides(s.overflowX) && s.textOverflow !== 'ellipsis' && e.scrollWidth > e.clientWidth + 1) bad.push(`cut at the side: ${at(e)}, ${e.scrollWidth} in ${e.clientWidth}`);
        if (hides(s.overflowY) && e.clientHeight > 0 && e.scrollHeight > e.clientHeight + 3 && s.webkitLineClamp === 'none') bad.push(`cut at the foot: ${at(e)}, ${e.scrollHeight} in ${e.clientHeight}`);
      }
      if (e.tagName === 'SELECT' && e.selectedOptions.length && !e.multiple && s.textOverflow !== 'ellipsis') {
        const pen = (t.pen ||= document.createElement('canvas').getContext('2d'));
        pen.font = `${s.fontWeight} ${s.fontSize} ${s.fontFamily}`; // s.font is empty where digits are of one width
        const needs = pen.measureText(squeeze(e.selectedOptions[0].text)).width, arrow = s.appearance === 'none' ? 0 : 16;
        const has = e.clientWidth - parseFloat(s.paddingLeft) - parseFloat(s.paddingRight) - arrow;
        if (needs > has + 2) bad.push(`cut in its field: ${squeeze(e.selectedOptions[0].text)} needs ${needs | 0} of ${has | 0}`);
      }
      if (e.tagName === 'OPTION' || s.userSelect === 'none' && s.pointerEvents === 'none') continue;
      for (const n of e.childNodes) {
        if (n.nodeType !== Node.TEXT_NODE || !squeeze(n.data)) continue;
        const range = document.createRange();
        range.selectNodeContents(n);
        for (const q of range.getClientRects()) {
          let box = { left: q.left, right: q.right, top: q.top, bottom: q.bottom };
          // What a scroller or an ellipsis hides lies over nothing.
          for (let p = e; p && p !== document.body; p = p.parentElement) {
            const ps = getComputedStyle(p);
            if (ps.overflowX === 'visible' && ps.overflowY === 'visible') continue;
            const b = p.getBoundingClientRect();
            box = { left: Math.max(box.left, b.left), right: Math.min(box.right, b.right), top: Math.max(box.top, b.top), bottom: Math.min(box.bottom, b.bottom) };
          }
          if (box.right - box.left > 2 && box.bottom - box.top > 2) texts.push({ e, n, ...box });
        }
      }
    }
    // Two texts in one place.
    texts.sort((a, b) => a.top - b.top);
    for (let i = 0; i < texts.length; i++) {
      const a = texts[i];
      for (let j = i + 1; j < texts.length && texts[j].top < a.bottom - 5; j++) {
        const b = texts[j];
        if (a.n === b.n) continue;
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - b.top;
        if (across > 2 && down > 5) bad.push(`${at(a.e)} and ${at(b.e)} lie over each other`);
      }
    }
    // A control that is stretched far beyond its words.
    for (const e of document.querySelectorAll('a[href],button')) {
      if (!t.shown(e) || e.querySelector('svg') || hiddenFromEyes(e) || getComputedStyle(e).display === 'inline') continue;
      const range = document.createRange();
      range.selectNodeContents(e);
      const high = range.getBoundingClientRect().height;
      if (high > 0 && e.getBoundingClientRect().height > high + 60) bad.push(`stretched: ${at(e)}`);
    }
    // A control under something else: the click goes elsewhere. Only what is
    // in the window can be asked.
    for (const e of document.querySelectorAll('a[href],button,input,select,textarea,summary')) {
      if (!t.shown(e) || hiddenFromEyes(e) || e.disabled) continue;
      const r = e.getClientRects()[0], x = r.left + r.width / 2, y = r.top + r.height / 2;
      if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
      const s = scroller(e)?.getBoundingClientRect();
      if (s && (x < s.left || x > s.right || y < s.top || y > s.bottom)) continue;
      if (document.querySelector('dialog:modal') && !e.closest('dialog:modal')) continue;
      const top = document.elementFromPoint(x, y);
      if (top && !(e.contains(top) || top.contains(e) || [...(e.labels || [])].some((l) => l.contains(top)))) bad.push(`${at(e)} is covered by ${at(top)}`);
    }
    return [...new Set(bad)].slice(0, 20);
  };

  // usable is when the first row of a table (or what else is named) was painted,
  // in milliseconds since the navigation began.
  t.usable = 0;
  const first = 'tbody tr, [data-row]';
  const seen = () => {
    if (t.usable || !document.querySelector(first)) return;
    t.usable = -1;
    requestAnimationFrame(() => setTimeout(() => (t.usable = performance.now()), 0));
  };
  new MutationObserver((_, o) => { seen(); if (t.usable) o.disconnect(); }).observe(document, { childList: true, subtree: true });
})();
