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

// TestRunsByFilter: the list has exactly the runs that its URL selects, and the pages of a list have all of them
// once.
func TestRunsByFilter(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("a", usecasetest.Every(time.Minute)))
	other := s.Create(usecasetest.Spec("b", usecasetest.Every(time.Minute)))
	good := s.ended(&job, 30, func(*core.Run) {})
	bad := s.ended(&job, 20, func(r *core.Run) { r.State, r.Reason, r.Message = core.Failed, core.ReasonHandler, "Disk is full" })
	slow := s.ended(&other, 10, func(r *core.Run) {
		r.Address, r.EndedAt, r.SentAt = "http://10.0.0.8:9999", r.EndedAt.Add(time.Hour), r.SentAt.Add(90*time.Second)
	})
	hand := s.ended(&other, 9, func(r *core.Run) { r.Cause = core.CauseMisfire })
	all := map[string]core.RunID{"good": good.ID, "bad": bad.ID, "slow": slow.ID, "hand": hand.ID}
	for query, want := range map[string]string{
		"": "good bad slow hand", "?job=shop/a": "good bad", "?app=shop&failed=1": "bad", "?state=failed&state=lost": "bad",
		"?address=" + url.QueryEscape("http://10.0.0.8:9999"): "slow", "?longer=30m": "slow", "?shorter=30m": "good bad hand",
		"?late=1m": "slow", "?cause=misfire": "hand", "?text=disk+is": "bad", "?when=1h": "good bad slow hand", "?when=yesterday": "",
		"?from=2026-11-20T11:35:00Z&to=2026-11-20T11:45:00Z": "bad",
	} {
		body := s.says("/console/runs" + query)
		for name, id := range all {
			check.Equal(t, strings.Contains(body, "run-"+id.String()+`"`), strings.Contains(want, name), "%q: %s is shown", query, name)
		}
	}
	s.shows("tr,.cli", "/console/runs", ">"+good.ID.String()+"<")
	s.shows("#first", "/console/runs?when=yesterday")
}

// TestFilterThatIsNotUnderstood: a link with an invalid filter shows the page with an error and a link to all runs.
func TestFilterThatIsNotUnderstood(t *testing.T) {
	s := goldenConsole(t)
	for _, query := range []string{"state=gone", "cause=moon", "longer=soon", "late=-5s", "from=when", "when=5y", "after=x", "job=shop/none",
		"app=%20", "text=" + strings.Repeat("x", 129),
		"from=2026-11-20T12:00:00Z&to=2026-11-20T11:00:00Z", "job=" + strings.Repeat("x", 10_000), "address=" + strings.Repeat("y", 5000),
		"job=" + url.QueryEscape(markup)} {
		w := s.get("/console/runs?" + query)
		check.Equal(t, w.Code/100, 4, "%.80s: status %d", query, w.Code)
		s.compare(fmt.Sprintf("%.80s", query), "[role=alert]")
	}
}

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

// TestSkipsOfADeletedJob: a time that was skipped without a run links to the reason, even if the job is deleted and
// only its number is known.
func TestSkipsOfADeletedJob(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("gone", usecasetest.Every(time.Minute)))
	at := core.InstantOf(s.Clock.Truncate(time.Minute)) - 600
	check.OK(t, s.E.PutSkips(usecasetest.Ctx, []core.Skip{{Job: job.Def.ID, First: at, Last: at, Count: 1, Reason: core.ReasonMisfire,
		Rev: job.Sched.Rev, Made: at.Time()}})[0])
	number := fmt.Sprint(job.Def.ID)
	follow := func(job string) {
		_, skips, _ := strings.Cut(s.shows("h2,.rows", "/console/runs?job="+job), "<h2>")
		list := hrefs(cutOut(skips, "<tbody>", "</table>"), "/console/")
		if len(list) != 1 {
			t.Fatalf("of %s: %q", job, list)
		}
		s.shows(".story", list[0])
	}
	follow("shop/gone")
	follow(number)
	s.ask("DELETE", "/v1/jobs/shop/gone", "")
	follow(number)
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

// TestRunManyAgainWithParams: runs are rerun with other params. The reasons why runs are not rerun are shown for all
// parts together, and the command has the same effect.
func TestRunManyAgainWithParams(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("again", usecasetest.Every(time.Minute)))
	for n := range 101 {
		s.ended(&job, n+1, func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler })
	}
	body := s.says("/console/runs?job=shop/again&state=failed&cause=schedule&panel=rerun", `value="same" checked`)
	s.compare("the panel", "fieldset,.cli")
	q := with(formTo(t, body, "/console/runs/rerun"), "with", "other", "params", "a\r\nb")
	q.Add("why", "3: it was <b>left before")
	first := s.wrong("/console/runs/rerun", q, http.StatusOK, "3: it was <b>left before")
	s.compare("the first part", ".head,.why")
	if next := formTo(t, first, "/console/runs/rerun"); next.Get("params") != "a\nb" && next.Get("params") != "a\r\nb" ||
		next.Get("with") != "other" || next.Get("why") == "" {
		t.Errorf("the next part has %v", next)
	}
	var list struct {
		Runs []struct{ Params *string }
	}
	if s.answer(fmt.Sprintf("/v1/runs?job=%d&cause=manual&limit=1", job.Def.ID), &list); len(list.Runs) != 1 ||
		list.Runs[0].Params == nil || *list.Runs[0].Params != "a\nb" {
		t.Errorf("it is run with %+v", list.Runs)
	}
}

// TestRemoveRuns: runs are counted before they are deleted, and an empty filter deletes none.
func TestRemoveRuns(t *testing.T) {
	s := goldenConsole(t)
	s.reportsSince(50 * 24 * time.Hour)
	job := s.Create(usecasetest.Spec("old", usecasetest.Every(time.Minute)))
	old := s.ended(&job, 40*24*60, func(*core.Run) {})
	s.ended(&job, 1, func(*core.Run) {})
	check.OK(t, s.reports.Pass(usecasetest.Ctx))
	s.says("/console/runs?job=shop/old", "/console/runs/clean?job=")
	s.shows("h2,p,.buttons,.cli", "/console/runs/clean?job=shop/old&older=30d")
	s.says("/console/runs/" + old.ID.String())
	s.posts("/console/runs/clean", url.Values{"job": {"shop/old"}}, http.StatusBadRequest)
	w := s.posts("/console/runs/clean", url.Values{"job": {"shop/old"}, "older": {"2026-10-25T00:00:00Z"}}, http.StatusSeeOther)
	s.says(w.Header().Get("Location"))
	s.messages("deleted")
	s.says("/console/audit-log?job=shop/old&verb=cleaned")
	s.compare("the change", ".wide")
	s.gets("/console/runs/"+old.ID.String(), http.StatusNotFound)
	for _, query := range []string{"older=30d", "job=shop/none&older=30d", "job=shop/old&older=x", "job=shop/old&keep=-1",
		"job=shop/old&older=1h", "job=shop/old&older=30d&state=moon"} {
		check.Equal(t, s.get("/console/runs/clean?"+query).Code/100, 4, "%q", query)
	}
	at := "/console/runs/" + old.ID.String() // the ID of a run in the place of a job leads to it
	check.Equal(t, s.get("/console/runs?job="+old.ID.String()).Header().Get("Location"), at)
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
