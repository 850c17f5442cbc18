package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// TestShapeOfRuns: above the rows are bars of results over time, each with a link to its time range.
func TestShapeOfRuns(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("shape", usecasetest.Every(time.Minute)))
	for n := 40; n > 0; n-- {
		s.ended(&job, n, func(r *core.Run) {
			if n%4 == 1 {
				r.State, r.Reason = core.Failed, core.ReasonHandler
			}
			r.Journal = core.JournalKey{Minute: int64(r.At) / 60}
		})
	}
	s.never(s.says("/console/runs?job=shop/shape&when=1h", `<tr id="run-`), "b-fail")
	body := s.says("/console/runs?job=shop/shape&when=1h&shape=1", `class="b-fail"`, `class="b-ok"`, "data-step=")
	s.compare("the chart", "#over")
	bar := cutOut(body, `<a href="/console/runs?from=`, ">")
	check.Contains(t, bar, "&to=")
	check.Contains(t, bar, "job=")
	s.never(bar, "when=", "shape=")
	zoomed := s.says("/console/runs?job=shop/shape&from=2026-11-20T11:50:00Z&to=2026-11-20T11:55:00Z")
	check.Equal(t, strings.Count(zoomed, `<tr id="run-`), 5, "a span has N runs")
}

// TestSpansMeet: a run that is due where two time ranges meet belongs to the second. This applies to the list, its
// histogram, a bar, and a rerun of the list. The command, which includes its end, gives the same runs.
func TestSpansMeet(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("hourly", usecasetest.Every(time.Hour)))
	s.Clock = s.Clock.Truncate(24 * time.Hour).Add(30 * time.Hour)
	for n := 60; n <= 40*60; n += 60 {
		s.ended(&job, n, func(r *core.Run) {
			r.State, r.Reason, r.Journal = core.Failed, core.ReasonHandler, core.JournalKey{Minute: int64(r.At) / 60}
		})
	}
	of := func(path string) int { return strings.Count(s.says(path), `<tr id="run-`) }
	const list, hour = "/console/runs?job=shop/hourly&", "from=2026-11-20T02:00:00Z&to=2026-11-20T03:00:00Z"
	for query, want := range map[string]int{
		"when=yesterday": 24, hour: 1, "from=2026-11-20T02:00:00Z&to=2026-11-20T02:00:00Z": 1,
		"from=2026-11-20T02:00:00.25Z&to=2026-11-20T03:00:00.5Z": 1, "from=2026-11-20T02:00:00.25Z&to=2026-11-20T02:00:00.5Z": 0,
	} {
		check.Equal(t, of(list+query), want, "%s has N runs", query)
	}
	body := s.shows("#over", list+"when=yesterday&shape=1")
	for _, bar := range hrefs(cutOut(body, "data-step=", "</svg>"), "/console/runs?from=") {
		if n := of(bar); n > 1 {
			t.Errorf("%s has %d runs", bar, n)
		}
	}
	body = s.shows("dialog", list+hour+"&panel=rerun")
	w := s.post("/console/runs/rerun", formTo(t, body, "/console/runs/rerun"))
	s.says(w.Header().Get("Location"))
	s.messages("rerun")
}

// TestRunManyAgain: the runs that match a filter are counted and listed, and then rerun part by part with the
// progress. The rerun can be stopped, and a form that is sent twice reruns nothing twice.
func TestRunManyAgain(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("again", usecasetest.Every(time.Minute)))
	for n := range 130 {
		s.ended(&job, n+1, func(r *core.Run) { r.State, r.Reason, r.Message = core.Failed, core.ReasonHandler, "Disk full" })
	}
	s.ended(&job, 131, func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler }) // the filter excludes it
	body := s.says("/console/runs?job=shop/again&failed=1&text=disk+full&panel=rerun", `action="/console/runs/rerun"`)
	s.compare("the panel", "dialog")
	s.shows("#over,.cli", "/console/runs?job=shop/again&text=disk+full&shape=1")
	s.never(s.says("/console/runs?failed=1&panel=rerun"), `action="/console/runs/rerun"`) // all of everything
	form := formTo(t, body, "/console/runs/rerun")
	first := s.posts("/console/runs/rerun", form, http.StatusOK, "data-goon", `id="stop"`).Body.String()
	s.compare("the first part", ".head,.buttons")
	_, halt, _ := strings.Cut(first, `id="stop"`)
	halted := formTo(t, halt, "/console/runs/rerun")
	halted["why"] = []string{"3: <b>gone"}
	s.never(s.wrong("/console/runs/rerun", halted, http.StatusOK, "3: <b>gone",
		"/console/runs?failed=1&job=shop%2Fagain&text=disk+full"), "data-goon")
	s.compare("stopped", ".head,p")
	next := cutOut(first, `name="next" value="`, `"`)
	form.Set("next", next)
	form.Set("done", "100")
	for range 2 {
		to := s.posts("/console/runs/rerun", form, http.StatusSeeOther).Header().Get("Location")
		check.Contains(t, to, "job=shop%2Fagain")
		s.says(to)
		s.messages("the last part")
	}
	if w := s.get("/console/runs/rerun"); w.Header().Get("Location") != "/console/runs" { // the URL of a part, loaded again
		t.Errorf("a reload of a part: %d", w.Code)
	}
	made, path := 0, fmt.Sprintf("/console/runs?job=%d&cause=manual", job.Def.ID)
	for path != "" {
		body := s.says(path)
		made += strings.Count(body, `<tr id="run-`)
		path = cutOut(body, `rel="next" href="`, `"`)
	}
	check.Equal(t, made, 130, "runs were made")
}

// TestRunManyAgainIsBounded: a count stops at the time limit of a page. The page shows that there may be more, and
// they can be rerun too.
func TestRunManyAgainIsBounded(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("again", usecasetest.Every(time.Minute)))
	for n := range 330 {
		s.ended(&job, n+1, func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler })
	}
	asked := 0
	s.stub("/v1/rerun", func(w http.ResponseWriter, r *http.Request) {
		s.api.ServeHTTP(w, r)
		asked, s.Clock = asked+1, s.Clock.Add(6*time.Second)
	})
	s.shows("dialog", "/console/runs?job=shop/again&failed=1&panel=rerun", `action="/console/runs/rerun"`)
	check.Equal(t, asked, 2, "it was counted N times")
}

// TestFieldsKeepTheSpan: the fields of a time range are less exact than its times. Sent unchanged with other input,
// they keep the exact times; a changed field is parsed. Both use the zone that the form names, even if the user has
// selected another one since.
func TestFieldsKeepTheSpan(t *testing.T) {
	s := newConsole(t)
	s.cookies["tickring_zone"], s.cookies["tickring_tz"] = "mine", "Europe/Berlin"
	for _, page := range []string{"runs", "audit-log", "reports"} {
		for name, c := range map[string]struct {
			from, to  string // in the page
			typed, at string // in place of from; empty: unchanged
		}{
			"seconds":          {from: "2026-11-20T10:15:10Z", to: "2026-11-20T10:15:40Z"},
			"part of a second": {from: "2026-11-20T10:15:10.25Z", to: "2026-11-20T10:15:10.5Z"},
			"the second 02:30": {from: "2026-10-25T01:30:00Z", to: "2026-10-25T02:30:00Z"},
			"the first 02:30":  {from: "2026-10-25T00:30:00Z", to: "2026-10-25T01:30:00Z"},
			"an end":           {to: "2026-11-20T10:15:10Z"},
			"another is typed": {from: "2026-11-20T10:15:10Z", to: "2026-11-20T10:15:40Z", typed: "2026-11-20T11:00",
				at: "2026-11-20T11:00:00+01:00"},
			"the first is emptied": {from: "2026-11-20T10:15:10Z", to: "2026-11-20T10:15:40Z", typed: " "},
		} {
			u := url.URL{Path: "/console/" + page}
			q := url.Values{"to": {c.to}}
			if c.from != "" {
				q.Set("from", c.from)
			}
			u.RawQuery = q.Encode()
			body := s.says(u.String())
			if seconds := strings.Contains(c.to, "10:15:"); strings.Contains(body, `step="1"`) != seconds {
				t.Errorf("%s, %s: its fields take seconds: %v", page, name, !seconds)
			}
			form := fields(cutOut(body, `<form class="filters"`, "</form>"))
			want := c.from
			if page == "reports" && c.from == "" { // the default is seven days
				want = "2026-11-13T10:15:10Z"
			}
			if form.Set("job", "shop/a"); c.typed != "" {
				form.Set("from", strings.TrimSpace(c.typed))
				want = c.at
			}
			s.cookies["tickring_zone"] = "utc" // in another tab
			w := s.get("/console/" + page + "?" + form.Encode())
			s.cookies["tickring_zone"] = "mine"
			to, err := url.Parse(w.Header().Get("Location"))
			if err != nil || w.Code != http.StatusSeeOther {
				t.Fatalf("%s, %s: %d %s", page, name, w.Code, w.Body)
			}
			if got := to.Query(); got.Get("from") != want || got.Get("to") != c.to || got.Get("job") != "shop/a" || got.Has("to-at") ||
				got.Has("zone") {
				t.Errorf("%s, %s: the form leads to %s", page, name, to)
			}
		}
	}
	w := s.get("/console/runs?app=shop&when=24h&from=&to=&zone=Europe%2FBerlin")
	check.Equal(t, w.Header().Get("Location"), "/console/runs?app=shop&when=24h", "a preset leads to")
	w = s.get("/console/runs?from=2026-11-20T19:00&job=shop/a&when=7d")
	check.Equal(t, w.Header().Get("Location"), "/console/runs?from=2026-11-20T19%3A00%3A00%2B01%3A00&job=shop%2Fa", "a time leads to")
}

// TestRemovedByTheClockThatWasNamed: a deletion by time uses the zone that its field named. The time is the same when
// the runs are counted, shown again and deleted.
func TestRemovedByTheClockThatWasNamed(t *testing.T) {
	s := newConsole(t)
	s.Create(usecasetest.Spec("old", usecasetest.Every(time.Minute)))
	s.cookies["tickring_zone"], s.cookies["tickring_tz"] = "mine", "Asia/Shanghai"
	form := fields(cutOut(s.says("/console/runs/clean", "a time in Asia/Shanghai"), `action="/console/runs/clean"`, "</form>"))
	s.cookies["tickring_zone"] = "utc"
	w := s.get("/console/runs/clean?" + with(form, "job", "shop/old", "older", "2026-11-10").Encode())
	to, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if q := to.Query(); q.Get("older") != "2026-11-10T00:00:00+08:00" || q.Has("zone") || q.Get("job") != "shop/old" {
		t.Errorf("it leads to %s", to)
	}
	s.says(to.String(), `value="2026-11-10T00:00:00+08:00"`, "--older 2026-11-10T00:00:00+08:00")
	w = s.get("/console/runs/clean?" + with(form, "older", "30d").Encode())
	if to, err := url.Parse(w.Header().Get("Location")); err != nil || to.Query().Get("older") != "30d" || to.Query().Has("zone") {
		t.Errorf("too many days lead to %s", to)
	}
}
