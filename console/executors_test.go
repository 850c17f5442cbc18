package console_test

import (
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/probe"
)

// wrong posts a form that must fail with a status, and returns the page with the error.
func (s *site) wrong(path string, form url.Values, status int, texts ...string) string {
	s.t.Helper()
	w := s.post(path, form)
	body := html.UnescapeString(w.Body.String())
	if w.Code != status {
		s.t.Errorf("%s %v: %d %s", path, form, w.Code, body)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.t.Errorf("%s %v does not say %q:\n%s", path, form, text, body)
		}
	}
	return body
}

// done posts a form, and checks the texts on the page after it.
func (s *site) done(path string, form url.Values, texts ...string) string {
	s.t.Helper()
	w := s.post(path, form)
	if w.Code != http.StatusSeeOther {
		s.t.Fatalf("%s %v: %d %s", path, form, w.Code, w.Body)
	}
	return s.says(w.Header().Get("Location"), texts...)
}

// TestExecutorsThatAreNotKnown: if the executors of an app cannot be read, the list shows the error, and not that
// none is live.
func TestExecutorsThatAreNotKnown(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	s.ask("PUT", "/v1/apps/empty", `{}`)
	s.h = console.New(console.Options{Access: s.access, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return s.Clock },
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/apps/shop/executors" {
				s.api.ServeHTTP(w, r)
				return
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error": {"code": "unavailable", "message": "the store is busy"}}`)
		})})
	body := s.says("/console/executors", "apps: 2", "without executors: 1")
	if row := cutOut(body, `id="app-shop"`, "</tr>"); !strings.Contains(row, `class="s skip">not known`) || strings.Contains(row, "none live") ||
		!strings.Contains(row, "the store is busy") {
		t.Errorf("its row is %s", row)
	}
	if row := cutOut(body, `id="app-empty"`, "</tr>"); !strings.Contains(row, `class="s fail">none live`) {
		t.Errorf("the other is %s", row)
	}
}

// TestAppsOfExecutors: an app without executors is red, and the page shows how to register one. Markup in a name
// stays text.
func TestAppsOfExecutors(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/apps/empty", `{"title": "<script>alert(1)</script>"}`)
	s.ask("PUT", "/v1/apps/fixed", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.says("/console/executors", "apps: 3", "without executors: 2", "none live", "fixed addresses")
	if body := s.get("/console/executors").Body.String(); strings.Contains(body, "<script>alert") {
		t.Errorf("a title is markup: %s", body)
	}
	s.says("/console/executors/empty", "no executor is live", "xxl.job.admin.addresses=http://console.test/xxl-job-admin",
		"xxl.job.executor.appname=empty", "/api/registry", "tickring exec --app empty")
	s.says("/console/executors/fixed", "http://10.0.0.7:9999", "1 of 1 live")
	if w := s.get("/console/executors/nobody"); w.Code != http.StatusNotFound {
		t.Errorf("an app that is not there: %d", w.Code)
	}
	if w := s.get("/console/executors/" + strings.Repeat("x", 5000)); w.Code != http.StatusBadRequest && w.Code != http.StatusNotFound {
		t.Errorf("an app with a long name: %d", w.Code)
	}
}

// TestFilterOfApps: apps are found by a part of their name or title. Counts of a single page are labeled as such.
func TestFilterOfApps(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/apps/pay", `{"title": "Payments & <b>banks</b>"}`)
	s.never(s.says("/console/executors?text=BANKS", "apps: 1,", `href="/console/jobs?app=pay"`, `type="search" name="text" value="BANKS"`),
		`id="app-shop"`)
	s.never(s.says("/console/executors?text=sho", `id="app-shop"`), `id="app-pay"`)
	s.says("/console/executors?text=%3Ci%3E", "No app matches.")
	for i := range 60 {
		s.ask("PUT", fmt.Sprintf("/v1/apps/many-%02d", i), `{"executors": ["http://10.0.0.7:9999"]}`)
	}
	page := s.says("/console/executors?text=many", "apps: 60; of the 50 on this page, executors live: 50")
	next := hrefs(page, "/console/executors?after=")
	if len(next) != 1 {
		t.Fatalf("%v", next)
	}
	s.never(s.says(next[0], "of the 10 on this page", `id="app-many-59"`), `id="app-many-49"`, `id="app-shop"`)
}

// TestDeadFixedAddress: a fixed address that did not accept its last run is red, with its answer, in the list too.
// After it accepts one, it is not.
func TestDeadFixedAddress(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock"}`)
	job, err := s.M.Job(t.Context(), "shop/stock")
	if err != nil {
		t.Fatal(err)
	}
	sent := func(after time.Duration, state core.State, reason core.Reason) {
		at := core.InstantOf(s.Clock.Add(after))
		id := core.PlannedRun(job.Def.ID, at)
		r := core.Run{ID: id, App: "shop", State: state, Reason: reason, Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1, First: id,
			SentAt: at.Time(), EndedAt: at.Time(), Address: "http://10.0.0.7:9999"}
		if reason != "" {
			r.Message = "dial tcp: <b>refused</b>"
		}
		if err := s.E.Finish.Create(t.Context(), []core.Run{r})[0]; err != nil {
			t.Fatal(err)
		}
		s.Clock = s.Clock.Add(after)
	}
	s.says("/console/executors", "1 live")
	s.answers = map[string]probe.Answer{"http://10.0.0.7:9999": {At: s.Clock, Problem: "connection <i>refused</i>"}}
	s.says("/console/executors", "none live", "without executors: 1")
	s.says("/console/executors/shop", "no executor is live", "no answer", "connection <i>refused</i>")
	s.answers = nil
	sent(time.Second, core.Failed, core.ReasonNotAccepted)
	s.says("/console/executors", "none live", "without executors: 1")
	s.says("/console/executors/shop", "no executor is live", "no answer", "dial tcp: <b>refused</b>")
	if raw := s.get("/console/executors/shop").Body.String(); strings.Contains(raw, "<b>refused") {
		t.Error("the answer is shown as markup")
	}
	s.answers = map[string]probe.Answer{"http://10.0.0.7:9999": {At: s.Clock.Add(time.Second)}}
	s.answers["http://10.0.0.7:9999"] = probe.Answer{At: s.Clock.Add(time.Second), Took: 37 * time.Millisecond}
	s.says("/console/executors/shop", ">Response time<", ">Run time p50<", `<td class="num hide">37 ms</td>`)
	s.says("/console/executors", "1 live") // it is available again, although no run was sent to it since
	s.answers = nil
	sent(time.Second, core.Succeeded, "")
	s.says("/console/executors", "1 live")
	s.says("/console/executors/shop", "1 of 1 live")
}

// TestExecutorIsTested: a button in the row of an executor tests it and shows the answer as text. An address that the
// app does not have gets no request.
func TestExecutorIsTested(t *testing.T) {
	s := newConsole(t)
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
	s.done(app, form, "http://10.0.0.7:9999 is live and answered in ", "it does not report its time")
	for ahead, says := range map[int32]string{0: "its clock matches", 12: "its clock is 12s ahead", -40: "its clock is 40s behind"} {
		s.clock = core.Clock{Known: true, Ahead: ahead}
		s.done(app, form, says)
	}
	page := s.post(app, url.Values{"do": {"test"}, "address": {"http://10.0.0.8:9999"}})
	raw := s.get(page.Header().Get("Location")).Body.String()
	if !strings.Contains(raw, "http://10.0.0.8:9999 did not answer the test (") || !strings.Contains(raw, "&lt;b&gt;refused") {
		t.Errorf("the answer is missing: %s", raw)
	}
	if w := s.post(app, url.Values{"do": {"test"}, "address": {"http://10.0.0.9:9999"}}); w.Code != http.StatusNotFound || len(asked) != 5 {
		t.Errorf("an address that is no executor's: %d, asked %v", w.Code, asked)
	}
}

// TestClocks: the row of an executor shows how far its clock is off, with a mark if that is harmful. If it is
// unknown, the row shows the reason.
func TestClocks(t *testing.T) {
	s := newConsole(t)
	row := func(says string) {
		t.Helper()
		if body := s.says("/console/executors/shop", "Clock"); !strings.Contains(body, says) {
			t.Errorf("there is no %q in %s", says, body)
		}
	}
	beat := func(c core.Clock) {
		if err := s.E.Registry.PutExecutor(t.Context(), core.Executor{App: "shop", Address: "http://10.0.0.7:9999", Beat: s.Clock,
			Since: s.Clock, Clock: c}); err != nil {
			t.Fatal(err)
		}
	}
	beat(core.Clock{})
	row(`title="the executor does not report its time when it registers or answers">–`)
	beat(core.Clock{Known: true})
	row(`<td class="hide">same</td>`)
	beat(core.Clock{Known: true, Ahead: 12})
	row(`<td class="hide">12 s ahead</td>`)
	beat(core.Clock{Known: true, Ahead: -40})
	row(`<span class="s late" title="the clock differs: logs may not be found, and lateness may be wrong">40 s behind</span>`)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.8:9999"]}`)
	row(`title="the executor was not checked yet">–`)
	s.answers = map[string]probe.Answer{"http://10.0.0.8:9999": {At: s.Clock, Clock: core.Clock{Known: true, Ahead: 50}}}
	row("50 s ahead")
}

// TestAppForms: apps are created, edited, paused, resumed and deleted. Errors are shown and the input is kept, tokens
// are never shown, and the second of two edits gets a conflict.
func TestAppForms(t *testing.T) {
	s := newConsole(t)
	s.says("/console/executors?panel=new", "Create app")
	s.wrong("/console/executors?panel=new", url.Values{"name": {"no spaces"}, "title": {"kept"}}, http.StatusBadRequest, `role="alert"`, `value="kept"`)
	s.wrong("/console/executors?panel=new", url.Values{"name": {""}}, http.StatusBadRequest, "an app needs a name")
	s.done("/console/executors?panel=new", url.Values{"name": {"pay"}, "token": {"set"}, "secret": {"a-secret-of-the-app-1"}, "limit": {"2"}},
		"pay is created", "set, never shown", "Concurrent runs per job")
	s.wrong("/console/executors?panel=new", url.Values{"name": {"pay"}}, http.StatusConflict, `role="alert"`)

	page := s.says("/console/executors/pay?panel=edit", "Edit app pay")
	if strings.Contains(page, "a-secret-of-the-app-1") {
		t.Error("the token is shown")
	}
	rev := between(page, `name="rev" value="`, `"`)
	edit := url.Values{"do": {"edit"}, "rev": {rev}, "token": {"keep"}, "title": {"Payments"},
		"executors": {"http://10.0.0.7:9999\nhttp://10.0.0.8:9999"}, "wait": {"10m"}, "inflight": {"20"}}
	s.wrong("/console/executors/pay?panel=edit", url.Values{"do": {"edit"}, "rev": {rev}, "inflight": {"many"}, "title": {"typed"}},
		http.StatusBadRequest, "many", "a whole number is expected", `value="typed"`)
	s.done("/console/executors/pay?panel=edit", edit, "pay is saved", "http://10.0.0.8:9999", "Payments", "set, never shown", "10m", "20")
	edit.Set("title", "second")
	page = s.wrong("/console/executors/pay?panel=edit", edit, http.StatusConflict, "Another user changed this",
		"<ul><li>title: changed from Payments to second</li></ul>", `value="second"`, "Overwrite with mine")
	s.says("/console/executors/pay", "Payments")
	edit.Set("rev", between(page, `name="rev" value="`, `"`))
	s.done("/console/executors/pay?panel=edit", edit, "pay is saved", "second")

	s.wrong("/console/executors/pay?panel=pause", url.Values{"do": {"pause"}, "reason": {"why"}, "until": {"soon"}}, http.StatusBadRequest,
		"soon", `value="why"`)
	s.done("/console/executors/pay?panel=pause", url.Values{"do": {"pause"}, "reason": {"the bank is closed"}, "until": {"2h"}},
		"the bank is closed", "until")
	s.done("/console/executors/pay?panel=resume", url.Values{"do": {"resume"}}, "pay is resumed")
	s.Clock = s.Clock.Add(time.Minute)
	s.never(s.says("/console/executors/pay", "panel=pause"), "the bank is closed", "panel=resume")
	s.never(s.says("/console/executors", "pay"), "the bank is closed")
	s.wrong("/console/executors/pay", url.Values{"do": {"explode"}}, http.StatusBadRequest, "no form with this name")
	s.done("/console/executors/pay?panel=delete", url.Values{"do": {"delete"}}, "pay is deleted")
	s.wrong("/console/executors/pay?panel=delete", url.Values{"do": {"delete"}}, http.StatusNotFound)
}

// TestAppWithJobsStays: an app with jobs cannot be deleted, and the page shows the reason.
func TestAppWithJobsStays(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"every": "1m"}}`)
	s.says("/console/executors/shop?panel=delete", "The app has jobs. Delete them first.")
	s.wrong("/console/executors/shop?panel=delete", url.Values{"do": {"delete"}}, http.StatusConflict, `role="alert"`)
	s.says("/console/executors/shop", "shop/stock")
}

func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	found, _, _ := strings.Cut(rest, to)
	return found
}
