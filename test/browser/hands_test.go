package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/test/harness"
)

// entered is a world, and a page in it that is logged in.
func entered(t *testing.T) (*world, *page) {
	t.Helper()
	w := newWorld(t)
	return w, w.enter(t, manner{})
}

// enter opens a page that is logged in.
func (w *world) enter(t *testing.T, m manner) *page {
	t.Helper()
	p := newPage(t, w.URL, m)
	p.logIn()
	return p
}

// TestReading shares one world between tests that change nothing in it.
func TestReading(t *testing.T) {
	w := newWorld(t)
	for name, test := range map[string]func(*testing.T, *world){
		"jobs list cold":              jobsListCold,
		"keyboard":                    keyboard,
		"reload and back":             reloadAndBack,
		"panel of the URL closes":     panelOfTheURLCloses,
		"pages let go":                pagesLetGo,
		"typed during a check":        typedDuringACheck,
		"template of its language":    templateOfItsLanguage,
		"common schedule is taken":    commonScheduleIsTaken,
		"script is run from its page": scriptIsRunFromItsPage,
		"brush":                       brush,
		"phone":                       phone,
		"frame":                       frame,
	} {
		t.Run(name, func(t *testing.T) { test(t, w) })
	}
}

// logIn gets into the console by the admin token, as at a first setup.
func (p *page) logIn() { p.tb.Helper(); p.logInWith(harness.Token) }

func (p *page) logInWith(token string) {
	p.tb.Helper()
	p.may("status of 401") // the login page that is shown instead of a page
	p.open("/console/login")
	p.fill("css:input[name=token]", token)
	p.press(kb.Enter)
	p.wait("location.pathname.startsWith('/console/') && !location.pathname.startsWith('/console/login')")
	p.at("/console/")
}

// keysToFirstRow is how many keys it takes from a page that was just opened to something in the first row of its table.
func (p *page) keysToFirstRow(t *testing.T) int {
	t.Helper()
	for n := 1; n < 60; n++ {
		if eval[bool](p, "document.activeElement.classList.contains('skip')") {
			p.press(kb.Enter)
			continue
		}
		p.press(kb.Tab)
		if eval[bool](p, "!!document.activeElement.closest('tbody tr')") {
			return n
		}
	}
	return 60
}

// TestRefreshKeepsWhatIsOpen: a refresh of the page keeps open sections and the current row.
func TestRefreshKeepsWhatIsOpen(t *testing.T) {
	w, p := entered(t)
	p.open("/console/jobs/shop/prices")
	p.click("css:#more-acts summary")
	w.OK(t, "", "pause", "shop/prices", "--reason", "one refresh")
	p.sees("one refresh")
	p.wait("document.querySelector('details.more-acts[open]')")
	p.open("/console/jobs?app=shop")
	p.press("j")
	p.press("j")
	at := eval[string](p, "document.querySelector('tr.at').id")
	w.OK(t, "", "pause", "shop", "--reason", "another refresh")
	p.sees("another refresh")
	p.wait("document.querySelector('tr.at')?.id === " + quote(at))
	if p.press("j"); eval[string](p, "document.querySelector('tr.at').id") == at {
		t.Error("j does not go on")
	}
}

// TestEnterOnARow: Enter on the box of a row does nothing, even after a refresh has added the page's elements for browsers without
// scripts.
func TestEnterOnARow(t *testing.T) {
	w, p := entered(t)
	p.open("/console/jobs?app=shop")
	w.OK(t, "", "pause", "shop/prices", "--reason", "so that it is refreshed")
	p.sees("so that it is refreshed")
	eval[bool](p, "(window.same = true, document.querySelector('#job-1 input[data-pick], tbody input[data-pick]').focus(), true)")
	p.press(kb.Enter)
	p.press(" ") // its effect shows that Enter was processed
	p.wait("document.querySelector('tbody input[data-pick]:checked')")
	if !eval[bool](p, "window.same && !location.search.includes('panel')") {
		t.Errorf("it led to %s", p.url())
	}
}
