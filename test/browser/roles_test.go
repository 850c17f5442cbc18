package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
)

const given, password = "given by another user", "correct horse battery"

// person creates a user with a role, and logs in as that user.
func (w *world) person(t *testing.T, name, role string) *page {
	t.Helper()
	w.OK(t, given, "users", "set", name, "--role", role, "--password", "-")
	p := newPage(t, w.URL, manner{})
	p.may("status of 401", "status of 403", "status of 404")
	p.open("/console/login")
	p.fill("css:[name=name]", name)
	p.fill("css:[name=password]", given)
	p.press(kb.Enter)
	p.at("/console/account")
	p.fill("css:[name=old]", given)
	p.fill("css:[name=password]", password)
	p.fill("css:[name=twice]", password)
	p.press(kb.Enter)
	p.confirmed()
	return p
}

// sessionEnds logs the user of a page out in another tab, and waits until the page warns about that.
func (p *page) sessionEnds() {
	p.tb.Helper()
	other := p.beside()
	other.open("/console/jobs")
	other.click(logOut)
	other.loggedOut()
	p.count()
	eval[bool](p, "dispatchEvent(new Event('pagehide')) && dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
	p.warned("ended")
}

// TestSessionEndsInAnEdit: a user who is logged out during an edit keeps the text, and sees a warning until the next login.
func TestSessionEndsInAnEdit(t *testing.T) {
	w := newWorld(t)
	p := w.person(t, "lina", "editor")
	p.open("/console/jobs/shop/stock?view=manifest")
	text := eval[string](p, "document.querySelector('textarea[name=text]').value")
	p.fill("css:textarea[name=text]", strings.Replace(text, "Stock levels", "Typed for an hour", 1))
	p.sessionEnds()
	asked := 0
	check.NoError(t, waiting.For(patience, func() error { // one request at once, and then one every few seconds
		requests, _ := p.count()
		for _, r := range requests {
			if strings.HasSuffix(r, "/console/live") {
				asked++
			}
		}
		if asked < 3 {
			return fmt.Errorf("it asked %d times whether a user is logged in", asked)
		}
		return nil
	}))
	p.warned("ended")
	p.click(saveManifest)
	p.fill("css:[name=name]", "lina")
	p.fill("css:[name=password]", password)
	p.press(kb.Enter)
	p.click(saveManifest + "[autofocus]")
	p.at("/console/jobs/shop/stock")
	p.sees("Typed for an hour")
}

// TestShownOnceStays: a secret that a page shows once stays until the user leaves the page, even if the session ends during that
// time.
func TestShownOnceStays(t *testing.T) {
	w := bare(t)
	p := w.person(t, "lina", "editor")
	p.open("/console/account")
	p.fill("css:form[data-keep] input[name=name]", "ci")
	p.press(kb.Enter)
	p.wait("document.querySelector('#secret')")
	token := eval[string](p, "document.querySelector('#secret').innerText")
	p.sessionEnds()
	p.sees(token)
}
