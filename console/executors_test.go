package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestExecutorsThatAreNotKnown: if the executors of an app cannot be read, the list shows the error, and not that
// none is live.
func TestExecutorsThatAreNotKnown(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/empty", `{}`)
	s.stub("/v1/apps/shop/executors", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"error": {"code": "unavailable", "message": "the store is busy"}}`)
	})
	body := s.shows(".head,tr", "/console/executors")
	for app, shape := range map[string]string{"shop": "skip", "empty": "fail"} {
		check.Contains(t, cutOut(body, `id="app-`+app+`"`, "</tr>"), `class="s `+shape+`"`, "the row of %s", app)
	}
}

// TestAppsOfExecutors: an app without executors is red, and the page shows how to register one.
func TestAppsOfExecutors(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/empty", `{"title": "<script>alert(1)</script>"}`)
	s.ask("PUT", "/v1/apps/fixed", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.shows(".head,tr", "/console/executors")
	s.shows(".head,#first", "/console/executors/empty")
	s.shows(".head", "/console/executors/fixed", "http://10.0.0.7:9999")
	s.gets("/console/executors/nobody", http.StatusNotFound)
	if w := s.get("/console/executors/" + strings.Repeat("x", 5000)); w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound {
		t.Errorf("an app with a long name: %d", w.Code)
	}
}

// TestFilterOfApps: apps are found by a part of their name or title. Counts of a single page are labeled as such.
func TestFilterOfApps(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/pay", `{"title": "Payments & <b>banks</b>"}`)
	s.never(s.shows(".head", "/console/executors?text=BANKS", `href="/console/jobs?app=pay"`, `type="search" name="text" value="BANKS"`),
		`id="app-shop"`)
	s.never(s.says("/console/executors?text=sho", `id="app-shop"`), `id="app-pay"`)
	s.shows("#first", "/console/executors?text=%3Ci%3E")
	for i := range 60 {
		s.ask("PUT", fmt.Sprintf("/v1/apps/many-%02d", i), `{"executors": ["http://10.0.0.7:9999"]}`)
	}
	page := s.shows(".head", "/console/executors?text=many")
	next := hrefs(page, "/console/executors?after=")
	if len(next) != 1 {
		t.Fatalf("%v", next)
	}
	s.never(s.shows(".head", next[0], `id="app-many-59"`), `id="app-many-49"`, `id="app-shop"`)
}

// TestDeadFixedAddress: a fixed address that did not accept its last run is red, with its answer, in the list too.
// After it accepts one, it is not.
func TestDeadFixedAddress(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock"}`)
	job, err := s.M.Job(t.Context(), "shop/stock")
	check.OK(t, err)
	sent := func(n int, change func(*core.Run)) {
		s.ended(&job, n, func(r *core.Run) { r.SentAt, r.EndedAt = s.Clock, s.Clock; change(r) })
		s.Clock = s.Clock.Add(time.Second)
	}
	const list, app = "/console/executors", "/console/executors/shop"
	row := func(live bool) {
		t.Helper()
		if fails := strings.Contains(cutOut(s.shows(".head,#app-shop", list), `id="app-shop"`, "</tr>"), `class="s fail"`); fails == live {
			t.Errorf("the app has no executor: %v", fails)
		}
	}
	row(true)
	s.answers = map[string]probe.Answer{"http://10.0.0.7:9999": {At: s.Clock, Problem: "connection <i>refused</i>"}}
	row(false)
	s.shows(".head,tr", app, "connection <i>refused</i>")
	s.answers = nil
	sent(1, func(r *core.Run) {
		r.State, r.Reason, r.Message = core.Failed, core.ReasonNotAccepted, "dial tcp: <b>refused</b>"
	})
	row(false)
	s.shows(".head,tr", app, "dial tcp: <b>refused</b>")
	s.answers = map[string]probe.Answer{"http://10.0.0.7:9999": {At: s.Clock.Add(time.Second), Took: 37 * time.Millisecond}}
	s.shows("tr", app, `<td class="num hide">37 ms</td>`)
	row(true) // it is available again, although no run was sent to it since
	s.answers = nil
	sent(0, func(*core.Run) {})
	row(true)
	s.shows(".head", app)
}

// TestExecutorIsTested: a button in the row of an executor tests it and shows the answer as text. An address that the
// app does not have gets no request.
func TestExecutorIsTested(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999", "http://10.0.0.8:9999"]}`)
	var asked []string
	s.beat = func(address string) error {
		if asked = append(asked, address); strings.Contains(address, ".8:") {
			return errors.New("dial tcp: <b>refused</b>")
		}
		return nil
	}
	const app = "/console/executors/shop"
	s.says(app, `aria-label="Test http://10.0.0.7:9999"`)
	form := url.Values{"do": {"test"}, "address": {"http://10.0.0.7:9999"}}
	s.done(app, form)
	for _, ahead := range []int32{0, 12, -40} {
		s.clock = core.Clock{Known: true, Ahead: ahead}
		s.done(app, form)
	}
	s.done(app, with(form, "address", "http://10.0.0.8:9999"))
	check.Contains(t, s.page, "&lt;b&gt;refused", "the answer is missing")
	s.posts(app, with(form, "address", "http://10.0.0.9:9999"), http.StatusNotFound) // no executor's
	check.Equal(t, len(asked), 5, "requests")
}

// TestClocks: the row of an executor shows how far its clock is off, with a mark if that is harmful. If it is
// unknown, the row shows the reason.
func TestClocks(t *testing.T) {
	s := goldenConsole(t)
	row := func(mark string) {
		t.Helper()
		s.shows("tr", "/console/executors/shop", mark)
	}
	beat := func(c core.Clock) {
		check.OK(t, s.E.PutExecutor(t.Context(), core.Executor{App: "shop", Address: "http://10.0.0.7:9999", Beat: s.Clock,
			Since: s.Clock, Clock: c}))
	}
	beat(core.Clock{})
	row(`">–`)
	beat(core.Clock{Known: true})
	row(`<td class="hide">`)
	beat(core.Clock{Known: true, Ahead: 12})
	row(`<td class="hide">12 s`)
	beat(core.Clock{Known: true, Ahead: -40})
	row(`<span class="s late"`)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.8:9999"]}`)
	row(`">–`)
	s.answers = map[string]probe.Answer{"http://10.0.0.8:9999": {At: s.Clock, Clock: core.Clock{Known: true, Ahead: 50}}}
	row(`<span class="s late"`)
}

// TestAppForms: apps are created, edited, paused, resumed and deleted. Errors are shown and the input is kept, tokens
// are never shown, and the second of two edits gets a conflict.
func TestAppForms(t *testing.T) {
	s := goldenConsole(t)
	s.shows("dialog", "/console/executors?panel=new")
	s.wrong("/console/executors?panel=new", url.Values{"name": {"no spaces"}, "title": {"kept"}}, http.StatusBadRequest, `role="alert"`, `value="kept"`)
	s.wrong("/console/executors?panel=new", url.Values{"name": {""}}, http.StatusBadRequest, `role="alert"`)
	s.done("/console/executors?panel=new", url.Values{"name": {"pay"}, "token": {"set"}, "secret": {"a-secret-of-the-app-1"}, "limit": {"2"}},
		"<h1>pay</h1>")
	s.compare("the new app", "dl")
	s.wrong("/console/executors?panel=new", url.Values{"name": {"pay"}}, http.StatusConflict, `role="alert"`)

	page := s.shows("h2", "/console/executors/pay?panel=edit")
	s.never(page, "a-secret-of-the-app-1")
	rev := cutOut(page, `name="rev" value="`, `"`)
	edit := url.Values{"do": {"edit"}, "rev": {rev}, "token": {"keep"}, "title": {"Payments"},
		"executors": {"http://10.0.0.7:9999\nhttp://10.0.0.8:9999"}, "wait": {"10m"}, "inflight": {"20"}}
	s.wrong("/console/executors/pay?panel=edit", url.Values{"do": {"edit"}, "rev": {rev}, "inflight": {"many"}, "title": {"typed"}},
		http.StatusBadRequest, "many", `value="typed"`)
	s.done("/console/executors/pay?panel=edit", edit, "http://10.0.0.8:9999", "Payments")
	s.compare("the edited app", "dl")
	edit.Set("title", "second")
	page = s.wrong("/console/executors/pay?panel=edit", edit, http.StatusConflict, `value="second"`)
	s.says("/console/executors/pay", "Payments")
	edit.Set("rev", cutOut(page, `name="rev" value="`, `"`))
	s.done("/console/executors/pay?panel=edit", edit, "second")

	s.wrong("/console/executors/pay?panel=pause", url.Values{"do": {"pause"}, "reason": {"why"}, "until": {"soon"}}, http.StatusBadRequest,
		"soon", `value="why"`)
	s.done("/console/executors/pay?panel=pause", url.Values{"do": {"pause"}, "reason": {"the bank is closed"}, "until": {"2h"}})
	s.done("/console/executors/pay?panel=resume", url.Values{"do": {"resume"}})
	s.Clock = s.Clock.Add(time.Minute)
	s.never(s.says("/console/executors/pay", "panel=pause"), `class="warn"`, "panel=resume")
	s.shows("#app-pay", "/console/executors")
	s.wrong("/console/executors/pay", url.Values{"do": {"explode"}}, http.StatusBadRequest)
	s.done("/console/executors/pay?panel=delete", url.Values{"do": {"delete"}})
	s.wrong("/console/executors/pay?panel=delete", url.Values{"do": {"delete"}}, http.StatusNotFound)
}

// TestAppWithJobsStays: an app with jobs cannot be deleted, and the page shows the reason.
func TestAppWithJobsStays(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"every": "1m"}}`)
	s.shows("dialog", "/console/executors/shop?panel=delete", "disabled")
	s.wrong("/console/executors/shop?panel=delete", url.Values{"do": {"delete"}}, http.StatusConflict, `role="alert"`)
	s.says("/console/executors/shop", "shop/stock")
}
