package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp/kb"
)

// TestRunIsFollowedAndKilled: a job is run with other params, its log is followed while it runs, and an open page shows its end. A
// rerun is killed, and shows by whom.
func TestRunIsFollowedAndKilled(t *testing.T) {
	w, p := entered(t)
	p.open("/console/jobs/shop/rebuild")
	p.click(runLink)
	p.fill("css:[name=params]", "life")
	p.click(submit)
	p.at("/console/runs/")
	p.sees("running", "waits for life")
	p.click("css:a[data-key=l]")
	p.wait("location.pathname.endsWith('/log') && document.readyState === 'complete'")
	p.sees("waits for life")
	p.wait("!document.body.innerText.includes('goes on')")
	w.letGo("life")
	p.sees("goes on")
	p.click("shop/rebuild")
	p.sees("succeeded")

	p.click(`css:a[href*="panel=rerun"]`)
	p.fill("css:dialog textarea", "again")
	p.click("css:dialog [name=with][value=other]")
	p.click(submit)
	p.sees("running", "waits for again")
	p.click(`css:a[href*="panel=kill"]`)
	p.click("css:dialog button.danger")
	p.confirmed() // on the page after the form: the one before may show the end by itself
	p.sees("killed", "A killed run is not retried automatically")
	run := strings.TrimPrefix(p.url(), w.URL+"/console/runs/")
	w.WaitState(t, run, "killed", patience)
}

// keyboard does without the mouse: rows by j and k, Enter, the search by /, all by Ctrl-K,
// the list of keys by ?, Escape closes and the focus is where it was.
func keyboard(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.open("/console/jobs")
	p.press("j")
	p.press("j")
	p.press("j")
	third := eval[string](p, "document.querySelectorAll('table.rows tbody tr')[2].querySelector('a').innerText")
	if p.focused() != third {
		t.Errorf("jjj is at %q, not at %q", p.focused(), third)
	}
	p.press("k")
	second := p.focused()
	p.press(kb.Enter)
	p.at("/console/jobs/" + second)

	p.open("/console/jobs/shop/prices")
	for range 40 {
		if p.press(kb.Tab); eval[bool](p, "document.activeElement.matches('[href*=\"panel=pause\"]')") {
			break
		}
	}
	p.press(kb.Enter)
	p.wait("!!document.querySelector('dialog:modal')")
	p.wait("document.querySelector('dialog:modal').contains(document.activeElement)")
	p.press(kb.Escape)
	p.wait("!document.querySelector('dialog:modal')")
	p.wait("document.activeElement.matches('[href*=\"panel=pause\"]')")

	p.press("k", kb.ModifierCtrl)
	p.wait("!!document.querySelector('dialog:modal input:focus')")
	call(p, input.InsertText, input.InsertTextParams{Text: "ledger"})
	p.press(kb.Enter) // at once: faster than the list
	p.at("/console/jobs/pay/ledger-sync")
	p.press("k", kb.ModifierCtrl)
	p.wait("!!document.querySelector('dialog:modal input:focus')")
	p.press(kb.Escape)
	p.wait("!document.querySelector('dialog:modal')")

	p.open("/console/jobs")
	p.press("/")
	p.wait("document.activeElement.type === 'search'")
	p.press(kb.Escape)
	p.wait("document.activeElement.type !== 'search'")
	p.press("?")
	p.wait("!!document.querySelector('dialog:modal')")
	p.press(kb.Escape)
	p.wait("!document.querySelector('dialog:modal')")
}
