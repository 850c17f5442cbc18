package browser

import (
	"errors"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/test/rig"
)

var errNoLink = errors.New("serve prints no link to the console")

// logIn gets into the console by the admin token, as at a first set-up.
func (p *page) logIn() { p.tb.Helper(); p.logInWith(rig.Token) }

func (p *page) logInWith(token string) {
	p.tb.Helper()
	p.may("status of 401") // the log-in that stands in the place of a page
	p.open("/console/login")
	p.fill("css:input[name=token]", token)
	p.press(kb.Enter)
	p.at("/console/")
	p.wait("!location.pathname.startsWith('/console/login')")
	p.clicked()
}

// keysToFirstRow is how many keys it takes from a page that was just opened to
// something in the first row of its table.
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
