package browser

import (
	"slices"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestHeldRows: rows of an open page keep their places and show no outdated state. A row that no longer matches disappears; a row
// that newer ones pushed out shows the time of its last update.
func TestHeldRows(t *testing.T) {
	w := newWorld(t)
	w.runs["stays"] = w.Trigger(t, "shop/rebuild", "--params", "stays")
	w.WaitState(t, w.runs["stays"], "running", patience)
	row := func(what string) string { return "document.getElementById('run-" + w.runs[what] + "')" }
	const old = "document.querySelector('[data-old]').dataset.old"

	few, all := w.enter(t, manner{}), w.enter(t, manner{lang: "zh"})
	for p, path := range map[*page]string{few: "/console/runs?state=running", all: "/console/runs"} {
		p.open(path)
		p.wait(row("held") + ".innerText && " + row("stays") + ".innerText")
	}
	w.letGo("held")
	few.wait("!" + row("held"))
	all.wait(row("held") + ".querySelector('.s.ok')")
	few.sees("running")
	few.wait(row("stays") + ".querySelector('.s.run')")

	w.OK(t, "", append([]string{"trigger"}, slices.Repeat([]string{"shop/stock"}, 51)...)...)
	all.wait(row("stays") + ".innerText.includes(" + old + ")")
	all.wait("!" + row("held") + ".innerText.includes(" + old + ")") // it has ended, so its state is final
	check.Equal(t, eval[int](all, row("stays")+".innerText.split("+old+").length - 1"), 1, "a row shows it N times")
	few.wait(row("stays") + ".querySelector('.s.run')")

	w.letGo("stays") // the last of them
	few.wait("document.querySelector('p#first') && !document.querySelector('tr[id^=run-]')")
}

// brush: a range of the chart is drawn and gone to; a touch that scrolls the page instead leaves nothing.
func brush(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.size(390, 800)
	p.open("/console/runs?when=1h")
	p.wait("!!document.querySelector('svg[data-step]')")
	// draw drags a finger over the chart, until the browser ends the gesture, and returns the resulting URLs.
	draw := func(ends ...string) []string {
		t.Helper()
		js := `((ends) => { const heard = [], svg = document.querySelector('svg[data-step]'), r = svg.getBoundingClientRect();
			const note = (e) => { heard.push(e.destination.url); e.preventDefault(); };
			const send = (type, part) => svg.dispatchEvent(new PointerEvent(type, {bubbles: true, pointerType: 'touch',
				clientX: r.left + part * r.width, clientY: r.top + 5}));
			navigation.addEventListener('navigate', note);
			send('pointerdown', .2); send('pointermove', .6);
			if (svg.querySelector('.brush').hasAttribute('hidden')) heard.push('nothing is drawn');
			for (const end of ends) send(end, .7);
			navigation.removeEventListener('navigate', note);
			if (ends[0] === 'pointercancel' && !svg.querySelector('.brush').hasAttribute('hidden')) heard.push('it stays drawn');
			return heard })`
		list := ""
		for _, end := range ends {
			list += quote(end) + ","
		}
		return eval[[]string](p, js+"(["+list+"])")
	}
	if got := draw("pointercancel", "pointermove", "pointerup"); len(got) > 0 {
		t.Errorf("after a scroll a tap leads to %q", got)
	}
	if got := draw("pointerup"); len(got) != 1 {
		t.Errorf("the drawing leads to %q", got)
	}
}

// TestSpanFieldsAreLeft: a browser sends the fields of a span unchanged, so the exact times behind them still apply.
func TestSpanFieldsAreLeft(t *testing.T) {
	p := bare(t).enter(t, manner{})
	p.open("/console/runs?from=2026-11-20T10:15:10.5Z&to=2026-11-20T10:16:00Z")
	p.fill("css:[name=address]", "x")
	p.click("css:form.filters button.chip")
	p.wait("location.search.includes('address=x')")
	p.wait(`(q => q.get('from') === '2026-11-20T10:15:10.5Z' && q.get('to') === '2026-11-20T10:16:00Z')(new URLSearchParams(location.search))`)
}
