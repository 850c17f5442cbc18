package browser

import (
	"strings"
	"testing"

	cdpage "github.com/chromedp/cdproto/page"
)

// answers replaces the server's answers to the script of a log: each is used once, the last one repeatedly.
const answers = `(() => {
	const real = window.fetch, piece = (o) => () => new Response(JSON.stringify({lines: [], end: false, ...o}),
		{headers: {"Content-Type": "application/json"}});
	const list = [
		piece({from: 1, next: 1, end: true, broken: true, note: "it is not there"}),
		piece({from: 1, lines: ["one", "two"], next: 3}),
		piece({from: 3, next: 3, end: true, broken: true, note: "The rest of the log is missing: it is gone"}),
		() => new Response("", {status: 503}),
		() => new Response("", {status: 404}),
		piece({from: 50, lines: ["fifty"], next: 51, end: true, note: "lines 1 to 49 are missing"}),
	];
	window.asked = 0;
	window.fetch = (url, o) => {
		if (!String(url).includes("/log/lines?")) return real(url, o);
		return Promise.resolve(list[Math.min(window.asked++, list.length - 1)]());
	};
})()`

// lineCount is true if the page states its number of lines with the text of this data attribute.
func lineCount(data, lines string) string {
	return "document.querySelector('[data-stand]').textContent === document.querySelector('#log').dataset." + data +
		".replace('{}', " + lines + ")"
}

// TestLogThatBreaksOff: a log with a missing rest shows that, and is requested again on a click. After a server error the page retries
// by itself. Kept lines keep their numbers, and do not continue the lines before.
func TestLogThatBreaksOff(t *testing.T) {
	w := bare(t)
	w.OK(t, "version: 1\napps:\n  - {name: shop, token: "+shopToken+"}\njobs:\n  - {app: shop, name: prices, handler: fine}\n",
		"apply", "-f", "-")
	w.executor(t, "shop", shopToken)
	run := w.Trigger(t, "shop/prices")
	w.WaitState(t, run, "succeeded", patience)
	p := w.enter(t, manner{})
	call(p, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: answers})
	p.open("/console/runs/" + run + "/log")
	p.sees("it is not there")
	if stand := eval[string](p, "document.querySelector('[data-stand]').textContent"); strings.HasPrefix(stand, "0 ") {
		t.Errorf("lines that came with the page, or none, are announced as %q", stand)
	}
	p.click("css:[data-again]")
	p.wait(lineCount("broken", "2"))
	p.sees("The rest of the log is missing: it is gone")
	p.wait("!!document.querySelector('#L2') && !document.querySelector('#L3')")
	p.click("css:[data-again]") // the server fails, and on the retry reports that there is none
	p.wait("window.asked === 5 && !document.querySelector('[data-again]').hidden")
	p.wait(lineCount("broken", "2"))
	p.click("css:[data-again]")
	p.wait(lineCount("all", "1"))
	p.sees("lines 1 to 49 are missing", "fifty")
	p.wait("!!document.querySelector('#L50') && !document.querySelector('#L1') && document.querySelector('[data-again]').hidden")
}
