package browser

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
)

// TestServerGone: the server dies by kill -9 under an open page and starts again. The page reports that, also for clicks during the
// outage, and reconnects by itself.
func TestServerGone(t *testing.T) {
	w := newWorld(t, "--listen", "127.0.0.1:"+freeport.Free(t)) // in each of its lives
	p := newPage(t, w.URL, manner{})
	p.may("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "status of 401",
		"htmx:error: ",  // requests in progress when the server dies
		"status of 503") // of a server that opens its data
	p.logIn()
	p.open("/console/jobs")
	p.sees("shop/prices")
	w.Kill()
	p.warned("lost")
	p.press("?")
	p.press("k", kb.ModifierCtrl)
	p.warned("lost")
	p.sees("shop/prices")
	w.Server = harness.Start(t, binary, w.Dir, "--listen", strings.TrimPrefix(w.URL, "http://"))
	p.wait("!document.querySelector('.lost')")
	w.OK(t, "", "pause", "shop/prices", "--reason", "after the fall")
	p.sees("after the fall")
}

// TestProxyAnswersForTheServer: if a proxy answers for a dead server, the page shows the same warning as without an answer, also
// after a click, and keeps its content. The page reconnects by itself.
func TestProxyAnswersForTheServer(t *testing.T) {
	w := newWorld(t)
	at, err := url.Parse(w.URL)
	check.OK(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(at)
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html><body><h1>502 Bad Gateway</h1></body></html>")
		},
	})
	t.Cleanup(proxy.Close)
	p := newPage(t, proxy.URL, manner{})
	p.may("status of 502", "status of 401", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "htmx:error: ")
	p.logIn()
	p.open("/console/runs/" + w.runs["held"])
	p.sees("shop/import", "Log")
	w.Kill()
	p.warned("lost")
	logAsked := func() { // again and again, by a page that is still there
		t.Helper()
		p.count()
		var requests []string
		check.OK(t, waiting.For(patience, func() error {
			more, _ := p.count()
			if requests = append(requests, more...); !slices.ContainsFunc(more, func(r string) bool { return strings.Contains(r, "/log?last=") }) {
				return fmt.Errorf("the log is not asked for: %q", requests)
			}
			return nil
		}))
	}
	logAsked()
	eval[bool](p, "(window.same = true)")
	p.press("?")
	p.press("k", kb.ModifierCtrl)
	logAsked()
	logAsked()
	if !eval[bool](p, "!!window.same") {
		t.Errorf("a key led to %s", p.url())
	}
	p.warned("lost")
	p.sees("shop/import")
	w.Server = harness.Start(t, binary, w.Dir, "--listen", at.Host)
	p.wait("!document.querySelector('.lost')")
}

// TestLogIn: users without a login are asked to log in, and then see the page that they wanted. A wrong token is reported. After a
// logout the Back button shows no pages.
func TestLogIn(t *testing.T) {
	w := bare(t)
	p := newPage(t, w.URL, manner{})
	p.may("status of 401")
	p.open("/")
	p.loggedOut()
	p.open("/console/jobs?text=a%20b")
	p.fill("css:input[name=token]", "a wrong one")
	p.press(kb.Enter)
	p.wait("!!document.querySelector('[role=alert]')")
	p.fill("css:input[name=token]", harness.Token)
	p.press(kb.Enter)
	p.at("/console/jobs?text=a%20b")
	p.click(logOut)
	p.confirmed()
	p.loggedOut()
	eval[bool](p, "(window.old = true, history.back(), true)")
	p.wait("!window.old")
	p.at("/console/jobs?text=a%20b")
	p.loggedOut()
	if eval[bool](p, `!!document.querySelector('form[action="/console/logout"]')`) {
		t.Errorf("Back shows a page after the logout: %s", p.text())
	}
	p.open("/console/jobs")
	p.loggedOut()
}

// reloadAndBack: no browser keeps a page, and each shows the same all the same: its filter by Back,
// its open panel after a reload.
func reloadAndBack(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.open("/console/jobs?text=stock")
	p.sees("shop/stock")
	p.click("shop/stock")
	p.at("/console/jobs/shop/stock")
	p.click(pauseLink)
	p.wait("!!document.querySelector('dialog:modal') && location.search.includes('panel=pause')")
	eval[bool](p, "(window.old = true, location.reload(), true)")
	p.wait("!window.old && !!document.querySelector('dialog:modal input[name=reason]')")
	eval[bool](p, "(history.back(), true)")
	p.at("/console/jobs?text=stock")
	p.sees("shop/stock")
	p.wait("!document.body.innerText.includes('shop/prices')")
}

// panelOfTheURLCloses: a panel that came with the URL leaves the page's filters in it.
func panelOfTheURLCloses(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	p.open("/console/jobs?panel=pause&pick=shop%2Fstock&text=stock")
	p.wait("!!document.querySelector('dialog:modal input[name=reason]')")
	p.click("css:dialog [data-close]")
	p.wait("!document.querySelector('dialog') && location.pathname + location.search === '/console/jobs?text=stock'")
}

// pagesLetGo: a browser has six connections to a host, and pages that were left, which it keeps for Back, hold none of them.
func pagesLetGo(t *testing.T, w *world) {
	p := w.enter(t, manner{})
	for range 8 {
		p.open("/console/jobs/shop/prices")
		p.click(jobsLink)
		p.wait("location.pathname === '/console/jobs' && document.readyState === 'complete'")
		p.wait("document.querySelectorAll('tbody tr').length > 5")
	}
	p.click("shop/prices")
	p.click(pauseLink)
	p.wait("!!document.querySelector('dialog:modal')")
}

// TestNoPlaceToListen: if a user has the maximum number of pages with a live connection, the next one polls every few seconds, and
// the server renders it only once for that.
func TestNoPlaceToListen(t *testing.T) {
	w, p := entered(t)
	p.may("status of 503", "status of 404")
	p.open("/healthz") // which holds no live connection
	jar, err := cookiejar.New(nil)
	check.OK(t, err)
	other := &http.Client{Jar: jar}
	in, err := other.PostForm(w.URL+"/console/login", url.Values{"token": {harness.Token}})
	check.OK(t, err)
	in.Body.Close()
	// A page that was left can release its connection a moment later: all are in use if many attempts in a row fail.
	for refused := 0; refused < 20; {
		res, err := other.Get(w.URL + "/console/live")
		check.OK(t, err)
		t.Cleanup(func() { res.Body.Close() })
		switch res.StatusCode {
		case http.StatusOK:
			refused = 0
		case http.StatusServiceUnavailable:
			refused++
		default:
			t.Fatalf("listening: %s", res.Status)
		}
	}
	p.open("/console/jobs")
	p.sees("shop/prices")
	check.OK(t, waiting.For(patience, func() error {
		requests, _ := p.count()
		if !slices.ContainsFunc(requests, func(r string) bool { return strings.HasSuffix(r, "/console/live") }) {
			return fmt.Errorf("it does not ask: %q", requests)
		}
		return nil
	}))
	p.count()
	w.OK(t, "", "pause", "shop/prices", "--reason", "changed outside the page")
	p.sees("changed outside the page")
	requests, _ := p.count()
	tries, asked := 0, 0
	for _, r := range requests {
		switch {
		case strings.Contains(r, "/console/live?"):
			tries++
		case strings.HasSuffix(r, "/console/jobs"):
			asked++
		}
	}
	if tries > 2 || asked > 5 {
		t.Errorf("it tried to listen %d times and had itself made %d times: %q", tries, asked, requests)
	}
}
