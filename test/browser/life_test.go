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
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.logIn()
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
	p.open("/console/audit-log?job=shop/rebuild")
	p.open("/console/runs/" + run)
	p.sees("killed")
}

// TestFormSentTwice: two presses of one button are one run.
func TestFormSentTwice(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.logIn()
	p.open("/console/jobs/shop/strange?panel=run")
	p.wait("!!document.querySelector('dialog form')")
	// Some browsers send both: here the script that would stop the second request is bypassed.
	eval[string](p, `(async () => { const f = document.querySelector('dialog form'), body = () => new URLSearchParams(new FormData(f));
		const [a, b] = await Promise.all([fetch(f.action, {method: 'POST', body: body()}), fetch(f.action, {method: 'POST', body: body()})]);
		return a.url + ' ' + b.url })()`)
	p.open("/console/jobs/shop/strange")
	p.wait("document.querySelectorAll('tr[id^=run-]').length === 2") // one from the world, one from this test
}

// TestTwoEditors: if two users edit one job, the second gets a conflict, and loses nothing.
func TestTwoEditors(t *testing.T) {
	w := newWorld(t)
	one, two := newPage(t, w.URL, manner{}), newPage(t, w.URL, manner{})
	for _, p := range []*page{one, two} {
		p.logIn()
		p.open("/console/jobs/shop/stock?view=manifest")
		p.wait("document.querySelector('textarea[name=text]')")
	}
	two.may("status of 409")
	edit := func(p *page, from, to string) {
		t.Helper()
		text := eval[string](p, "document.querySelector('textarea[name=text]').value")
		if !strings.Contains(text, from) {
			t.Fatalf("%s is not in %s", from, text)
		}
		p.fill("css:textarea[name=text]", strings.Replace(text, from, to, 1))
	}
	edit(one, "Stock levels", "Stock levels of the one")
	edit(two, "warehouse=7", "warehouse=8")
	one.click(saveManifest)
	one.sees("Stock levels of the one")
	two.click(saveManifest)
	two.wait("document.querySelector('.warn[role=alert]')?.innerText.includes('Stock levels of the one')")
	if text := eval[string](two, "document.querySelector('textarea[name=text]').value"); !strings.Contains(text, "warehouse=8") {
		t.Errorf("the text of the second user is lost: %s", text)
	}
	edit(two, "Stock levels", "Stock levels of the two")
	two.click(saveManifest)
	two.sees("Stock levels of the two")
	two.wait("!document.querySelector('textarea[name=text]') || document.querySelector('textarea[name=text]').value.includes('warehouse=8')")
	if out := w.OK(t, "", "changes", "shop/stock"); !strings.Contains(out, "of the one") || !strings.Contains(out, "of the two") {
		t.Errorf("not both stand in the changes: %s", out)
	}
}

// TestKeyboard does without the mouse: rows by j and k, Enter, the search by /, all by Ctrl-K,
// the list of keys by ?, Escape closes and the focus is where it was.
func TestKeyboard(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.logIn()
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

// TestBadLinks: missing objects and invalid values in URLs are explained.
func TestBadLinks(t *testing.T) {
	w := newWorld(t)
	p := newPage(t, w.URL, manner{})
	p.may("status of 404", "status of 400", "status of 413", "status of 422")
	p.logIn()
	for path, words := range map[string]string{
		"/console/jobs/shop/never-was":                      "shop/never-was",
		"/console/jobs/never/was":                           "never/was",
		"/console/runs/4294967297999":                       "4294967297999",
		"/console/runs/nonsense":                            "nonsense",
		"/console/runs/4294967297999/log":                   "4294967297999",
		"/console/runs?state=nonsense":                      "nonsense",
		"/console/runs?from=nonsense":                       "nonsense",
		"/console/jobs?sort=nonsense":                       "nonsense",
		"/console/audit-log?from=nonsense":                  "nonsense",
		"/console/jobs/shop/prices?view=nonsense":           "shop/prices",
		"/console/nonsense":                                 "nonsense",
		"/console/jobs/" + strings.Repeat("a", 3000) + "/b": "aaaa",
		"/console/executors/nobody":                         "nobody",
		"/console/notifications/nobody":                     "nobody",
	} {
		p.open(path)
		if !strings.Contains(p.text(), words) || p.answered() >= 500 {
			t.Errorf("%.60s: %d: %s", path, p.answered(), p.text())
		}
	}
}
