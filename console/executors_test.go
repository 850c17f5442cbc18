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
