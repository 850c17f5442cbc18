package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// TestHome: without problems the page shows one line and the upcoming runs. Failing and late jobs and apps without
// executors are shown as links.
func TestHome(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.shows("#live", "/console/")
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "title": "<b>levels</b>", "schedule": {"every": "1m", "offset": "0s"}}`)
	calm := s.shows(".head,h2,.hint", "/console/", `href="/console/jobs/shop/stock"`, `href="/console/upcoming"`, `href="/console/system"`)
	s.never(calm, `id="failing-`, `id="late-`, `id="app-`)
	s.ask("PUT", "/v1/apps/pay", `{"title": "<b>Payments</b>"}`)
	s.ask("PUT", "/v1/jobs/pay/out", `{"handler": "out", "schedule": {"cron": "0 0 3 * * ?"}}`)
	job, err := s.M.Job(t.Context(), "shop/stock")
	check.OK(t, err)
	s.Clock = s.Clock.Truncate(time.Minute).Add(80 * time.Second)
	id := s.ended(&job, 0, func(r *core.Run) {
		r.State, r.Reason, r.SentAt, r.EndedAt = core.Failed, core.ReasonHandler, r.At.Time(), r.At.Time().Add(time.Second)
	}).ID
	s.Clock = s.Clock.Add(2 * time.Second) // the state of last runs may be a second old
	s.shows(".head,h2,.rows", "/console/", `href="/console/jobs?status=failing"`, "/console/runs/"+id.String(),
		`href="/console/executors/pay"`, `href="/console/jobs?app=pay"`)
	for _, path := range []string{"/console/", "/console/system", "/console/system?jobs=1"} {
		s.shows("#first", path)
	}
}

// TestHomeSaysWhatItCuts: of each kind only some are shown, with a link to the others and their number.
func TestHomeSaysWhatItCuts(t *testing.T) {
	s := goldenConsole(t)
	for i := range 23 {
		s.ask("PUT", fmt.Sprintf("/v1/apps/app%02d", i), `{}`)
		s.ask("PUT", fmt.Sprintf("/v1/jobs/app%02d/j", i), `{"handler":"h","schedule":{"every":"1m","offset":"0s"}}`)
	}
	s.shows("h2,.hint", "/console/", `<a href="/console/executors">and 17 more</a>`, `<a href="/console/upcoming">and 17 more</a>`)
	s.says("/console/jobs", ": 23\">23</span>")
}

// TestMenuCountsApps: the menu of every page has the number of apps without executors. The count is repeated after
// some time, and on the overview page.
func TestMenuCountsApps(t *testing.T) {
	s := goldenConsole(t)
	const one = `: 1">1</span>`
	s.never(s.says("/console/jobs"), "class=bad")
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"cron": "0 0 3 * * ?"}}`)
	s.never(s.says("/console/runs"), "class=bad")
	s.Clock = s.Clock.Add(time.Minute)
	s.shows("nav", "/console/runs", one)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.says("/console/")
	s.never(s.says("/console/runs"), "class=bad")
}

// TestHomeNamesWhatWaits: a job is late if a due run was not sent. A run that takes longer than earlier ones is shown
// with their duration.
func TestHomeNamesWhatWaits(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	late := s.Create(usecasetest.Spec("stock", usecasetest.Every(time.Hour)))
	long := s.Create(usecasetest.Spec("export", usecasetest.Every(time.Hour)))
	s.ended(&late, 4, func(r *core.Run) { r.State, r.SentAt, r.EndedAt = core.Planned, time.Time{}, time.Time{} })
	s.ended(&long, 30, func(*core.Run) {})
	run := s.ended(&long, 4, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
	page := s.shows(".head,h2,.rows", "/console/", `id="late-1"`, `href="/console/jobs/shop/stock"`, `href="/console/jobs?status=late"`,
		`id="long-`+run.ID.String()+`"`, `href="/console/jobs/shop/export"`, "/console/runs/"+run.ID.String())
	s.never(page, `id="failing-`, `id="app-`)
}

// TestPausesOfMoreThanAJobAreSaid: runs that a pause of everything or of an app holds are neither on the axis nor in
// the list. The page shows the pause, and not that no job has a schedule.
func TestPausesOfMoreThanAJobAreSaid(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/a", `{"handler": "x", "schedule": {"every": "1h"}}`)
	s.ask("PUT", "/v1/apps/pay", `{}`)
	s.ask("POST", "/v1/pause", `{"reason": "a <b>move"}`)
	s.shows("p", "/console/upcoming", `<a href="/console/system">`, "a <b>move")
	s.ask("POST", "/v1/resume", `{}`)
	s.Resumed()
	s.ask("POST", "/v1/apps/shop/pause", `{"reason": "stock-taking"}`)
	for query, said := range map[string]bool{"": true, "?app=shop": true, "?app=pay": false} {
		body := s.shows("p", "/console/upcoming"+query)
		if strings.Contains(body, `class="warn"`) != said || strings.Contains(body, "stock-taking") != said {
			t.Errorf("%s: %s", query, body)
		}
	}
	for _, name := range []string{"b", "c", "d", "e", "f"} {
		s.ask("PUT", "/v1/apps/"+name, `{}`)
		s.ask("POST", "/v1/apps/"+name+"/pause", `{}`)
	}
	s.says("/console/upcoming", `href="/console/executors/b"`)
	s.compare("six paused apps", "p")
	s.ask("POST", "/v1/apps/shop/resume", `{}`)
	s.Resumed()
	s.says("/console/upcoming", ">shop<")
	s.compare("five paused apps", "p")
}

// TestWhatWaitsOfManyJobs: if there are too many jobs to list waiting retries and triggers, the page shows that, with
// a link to them.
func TestWhatWaitsOfManyJobs(t *testing.T) {
	s := goldenConsole(t)
	for n := range 100 {
		s.Create(usecasetest.Spec(fmt.Sprint("job-", n), core.Schedule{}))
	}
	s.ask("POST", "/v1/jobs/shop/job-7/trigger", `{"at": "2026-11-20T14:00:00Z"}`)
	const waiting = "/console/runs?state=planned"
	s.never(s.says("/console/upcoming", "/console/jobs/shop/job-7/at/2026-11-20T14:00:00Z"), waiting)
	s.Create(usecasetest.Spec("more", core.Schedule{}))
	list := hrefs(s.shows(".hint", "/console/upcoming?app=shop"), waiting)
	if len(list) != 1 || !strings.Contains(s.says(list[0]), "job-7") {
		t.Errorf("the runs that wait are at %q", list)
	}
}

// TestUpcoming: each app has a lane, with a band for frequent jobs and marks for peaks. A time range in the URL lists
// its runs, with pauses. Invalid times show an error.
func TestUpcoming(t *testing.T) {
	s := goldenConsole(t)
	s.shows("p", "/console/upcoming")
	s.ask("PUT", "/v1/apps/pay", `{}`)
	s.ask("PUT", "/v1/jobs/pay/often", `{"handler": "x", "schedule": {"every": "10s"}}`)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		s.ask("PUT", "/v1/jobs/shop/"+name, `{"handler": "x", "title": "<b>t</b>", "route": "failover", "schedule": {"cron": "0 30 2 * * ?"}}`)
	}
	s.ask("POST", "/v1/jobs/shop/l/pause", `{"reason": "the <i>bank</i>"}`)
	page := s.shows(".head,p", "/console/upcoming", ">pay<", ">shop<", "often: 8640", "from=2026-11-21T02%3A00%3A00Z")
	if n := strings.Count(page, "class=fire"); n > 20 {
		t.Errorf("%d bars for a frequent job", n)
	}
	list := s.shows("details,#first,.cli", "/console/upcoming?from=2026-11-21T02:00:00Z&to=2026-11-21T03:00:00Z&app=shop",
		`href="/console/jobs/shop/a"`)
	s.never(list, "pay/often")
	check.Equal(t, strings.Count(list, `/at/2026-11-21T02:30:00Z`), 11, "of 11 instants are listed")
	check.Equal(t, strings.Count(list, "route failover"), 12, "the page shows the results of N of 12 jobs")
	s.shows(".head", "/console/upcoming?days=7", "often: 60480")
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"} {
		s.ask("PUT", "/v1/jobs/shop/"+name, `{"handler": "x", "schedule": {"cron": "0 30 2-9 * * ?"}}`)
	}
	page = s.shows(".hint", "/console/upcoming")
	s.never(page, `href="/console/jobs?status=paused"`)
	bar := regexp.MustCompile(`from=2026-11-21T(\d\d)[^"]*" tabindex="-1" aria-label="scheduled`)
	if bars := bar.FindAllString(page, -1); len(bars) < 8 || !slices.IsSorted(bars) {
		t.Errorf("the bars are not in the order of their times: %q", bars)
	}
	s.ask("POST", "/v1/jobs/pay/often/pause", `{}`)
	s.shows(".hint", "/console/upcoming", `href="/console/jobs?status=paused"`)
	for _, bad := range []url.Values{{"from": {"soon"}}, {"app": {"no app"}}, {"from": {"2990-01-01T00:00:00Z"}},
		{"from": {strings.Repeat("9", 5000)}}} {
		s.gets("/console/upcoming?"+bad.Encode(), http.StatusBadRequest)
	}
}

// TestHomeOfAnInstantThatNobodyPlanned: the run is shown as due, with a link to its page, and without the result of
// the run before it.
func TestHomeOfAnInstantThatNobodyPlanned(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("stock", usecasetest.Every(time.Hour)))
	s.ended(&job, 4, func(r *core.Run) { r.SentAt = r.Slot.Time().Add(120 * time.Millisecond) })
	s.Clock = job.Sched.Next.Time().Add(10 * time.Minute)
	at := "/console/jobs/shop/stock/at/" + job.Sched.Next.Time().UTC().Format(time.RFC3339)
	row := cutOut(s.shows("h2,.rows", "/console/"), fmt.Sprintf(`id="late-%d"`, job.Def.ID), "</tr>")
	check.Contains(t, row, at, "the row does not lead to the run")
	s.shows("#first", at)
}

// TestMenuDoesNotWaitForACount: if a count takes too long, this page and the next one show the count before.
func TestMenuDoesNotWaitForACount(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"cron": "0 0 3 * * ?"}}`)
	slow, asked := false, 0
	s.stub("/v1/overview", func(w http.ResponseWriter, r *http.Request) {
		if !slow {
			s.api.ServeHTTP(w, r)
			return
		}
		asked++
		if until, ends := r.Context().Deadline(); !ends || time.Until(until) > 5*time.Second {
			t.Errorf("it is waited for as long as any call: until %s", until)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	const one = `: 1">1</span>`
	s.says("/console/runs", one)
	s.Clock, slow = s.Clock.Add(time.Minute), true
	s.says("/console/runs", one)
	s.says("/console/runs", one)
	check.Equal(t, asked, 1, "it was asked for N times")
}

// TestPagesSayWhatTheyDidNotCheck: if the runs of some jobs were not read, the overview page shows that, and does not claim that no
// job is late. If more jobs may be failing than a page checks, the overview page and the job list show how many, with a link. They
// do not claim that no job fails.
func TestPagesSayWhatTheyDidNotCheck(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"every": "1m", "offset": "0s"}}`)
	with := strings.NewReplacer(`"long":`, `"unread": true, "long":`)
	s.remade(func(o *console.Options) {
		o.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			of := httptest.NewRecorder()
			s.api.ServeHTTP(of, r)
			maps.Copy(w.Header(), of.Header())
			w.WriteHeader(of.Code)
			fmt.Fprint(w, with.Replace(of.Body.String()))
		})
	})
	s.says("/console/", `href="/console/jobs?status=late"`)
	s.compare("runs were not read", ".head,.hint")
	with = strings.NewReplacer(`"long":`, `"unchecked": 9800, "long":`, `"counts":{`, `"counts":{"unchecked": 9800,`)
	for _, path := range []string{"/console/", "/console/jobs", "/console/jobs?status=failing"} {
		s.shows(".head,.hint", path)
	}
}
