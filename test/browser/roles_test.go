package browser

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/test/harness"
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

// post sends a form of the console from an open page, and returns the status of the answer.
func (p *page) post(path, body string) int {
	p.tb.Helper()
	return eval[int](p, `fetch(`+quote(path)+`, {method: 'POST', headers: {'Content-Type': 'application/x-www-form-urlencoded'}, body: `+
		quote(body)+`}).then(r => r.status)`)
}

// TestRoles: each role can do the permitted actions, and gets an explanation for the others.
func TestRoles(t *testing.T) {
	w := newWorld(t)
	acts := []struct{ path, body string }{
		{"/console/jobs/shop/once/trigger", "params=x"},
		{"/console/jobs/shop/once/pause", "reason=tidy&running=leave"},
		{"/console/jobs/shop/once/label", "labels=a%3Db"},
		{"/console/jobs/shop/once/delete", "name=shop/once"},
	}
	// Actions that need a separate permission, or belong to no app: the page with the control, its selector, and the request.
	own := []struct{ page, offer, path, body string }{
		{"/console/jobs/reports/script/script", "form[data-keep] button.first", "/console/jobs/reports/script/script", "source=true&kind=shell"},
		{"/console/executors/reports?panel=edit", "[name=token]", "/console/executors/reports", "do=edit&token=set&secret=of-somebody"},
		{"/console/jobs/reports/nightly?panel=run", "[name=other]", "/console/jobs/reports/nightly/trigger", "other=http%3A%2F%2F127.0.0.1%3A9"},
		{"/console/notifications", "#rest a[href*='panel=rest']", "/console/notifications", "do=rest&to=oncall"},
		{"/console/users", "a[href*='panel=new']", "/console/users", "do=save&name=made&roles=viewer&password=" + url.QueryEscape(given)},
	}
	const script, secret, address, rest, people = "0", "1", "2", "3", "4"
	p := w.person(t, "paul", "viewer")
	for _, r := range []struct {
		role string
		may  int    // number of permitted acts
		own  string // and these of own
	}{
		{"viewer", 0, ""}, {"shop:viewer", 0, ""}, {"operator", 2, ""}, {"shop:operator", 2, ""}, {"pay:operator", 0, ""},
		{"reports:editor", 0, ""}, {"reports:editor+scripts", 0, script}, {"reports:editor+secrets", 0, secret},
		{"reports:operator+addresses", 0, address}, {"reports:admin", 0, script + secret + address},
		{"shop:editor", 4, ""}, {"editor", 0, rest}, {"admin", 0, script + secret + address + rest + people},
	} {
		w.OK(t, "", "users", "set", "paul", "--role", r.role)
		for j, a := range acts {
			if j >= r.may && r.own != "" {
				break // the acts' job is deleted, or belongs to another app
			}
			got := p.post(a.path, a.body)
			if may := j < r.may; may && got != 200 || !may && got != 403 && got != 404 {
				t.Errorf("%s: %s answers %d", r.role, a.path, got)
			}
		}
		for j, a := range own {
			may := strings.Contains(r.own, strconv.Itoa(j))
			p.open(a.page)
			if offered := eval[bool](p, "!!document.querySelector("+quote(a.offer)+")"); offered != may {
				t.Errorf("%s: %s offers %s: %t", r.role, a.page, a.offer, offered)
			}
			rev := "&rev=" + eval[string](p, "document.querySelector('form [name=rev]')?.value || ''")
			if got := p.post(a.path, a.body+rev); may && got != 200 || !may && got != 403 && got != 404 {
				t.Errorf("%s: %s answers %d to %s", r.role, a.path, got, a.body)
			}
		}
		if r.role == "pay:operator" {
			p.open("/console/jobs")
			p.sees("pay/ledger-sync")
			p.wait("!document.body.innerText.includes('shop/')")
			p.open("/console/jobs/shop/stock")
			if p.answered() != 404 {
				t.Errorf("a job of another app answers %d", p.answered())
			}
		}
	}
	p.close()

	// Through the page, as users do it.
	p = w.person(t, "vera", "viewer")
	p.open("/console/jobs/shop/stock?panel=pause")
	p.fill("css:[name=reason]", "I would like it quiet")
	p.click(submit)
	p.sees("vera", "operator") // the user without permission, and the permission needed
	if out := w.OK(t, "", "get", "shop/stock"); strings.Contains(out, "quiet") {
		t.Error("a viewer paused a job")
	}
	p = w.person(t, "otto", "operator")
	p.open("/console/jobs/shop/stock")
	p.click(pauseLink)
	p.fill("css:[name=reason]", "I would like it quiet")
	p.click(submit)
	p.wait("document.querySelector('.answer').innerText.includes('otto')")
}

// TestSessionEndsInAnEdit: a user who is logged out during an edit keeps the text, and sees a warning until the next login.
func TestSessionEndsInAnEdit(t *testing.T) {
	w := newWorld(t)
	p := w.person(t, "lina", "editor")
	p.open("/console/jobs/shop/stock?view=manifest")
	text := eval[string](p, "document.querySelector('textarea[name=text]').value")
	p.fill("css:textarea[name=text]", strings.Replace(text, "Stock levels", "Typed for an hour", 1))
	other := p.beside()
	other.open("/console/jobs")
	other.click(logOut)
	other.loggedOut()
	p.count()
	eval[bool](p, "dispatchEvent(new Event('pagehide')) && dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
	p.warned("ended")
	asked := 0
	if err := harness.Eventually(patience, func() error { // one request at once, and then one every few seconds
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
	}); err != nil {
		t.Error(err)
	}
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
	other := p.beside()
	other.open("/console/account")
	other.click(logOut)
	other.loggedOut()
	eval[bool](p, "dispatchEvent(new Event('pagehide')) && dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
	p.warned("ended")
	p.sees(token)
}
