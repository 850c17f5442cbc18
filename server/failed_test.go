package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestFailuresAreTold: jobs fail at each attempt, each time, or because their app has no executor. The log, the metrics, the list
// of runs and doctor report these failures, and show final failures apart from attempts that are retried.
func TestFailuresAreTold(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/fine" {
			http.Error(w, "no such table", http.StatusInternalServerError)
		}
	})
	log := &lines{}
	s := start(t, Options{Log: log.warnings()})
	s.app(t, "web", "call:"+web.URL)
	s.app(t, "shop")
	spec := func(name string, retries int) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: "POST /" + name,
			Retry: core.Retry{Max: retries, Delay: time.Second, Backoff: core.BackoffConstant, On: []core.State{core.Failed}}}}
	}
	backup := manage.JobSpec{Def: core.Def{App: "shop", Name: "backup", Handler: "backup"},
		Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCrontab, Expr: "0 3 * * *"}}}}
	saveAll(t, s, spec("thrice", 2), spec("never", 0), spec("fine", 2), backup)
	first := s.trigger(t, "web/thrice")
	for range 3 {
		s.trigger(t, "web/never")
	}
	s.trigger(t, "web/fine")
	cl := s.client(t)
	runs := func(p client.ListRunsParams) client.RunPage {
		page, err := cl.ListRuns(t.Context(), p)
		check.OK(t, err)
		return page
	}
	eventually(t, time.Minute, func() error {
		if n := len(runs(client.ListRunsParams{Failed: true}).Runs); n != 4 {
			return fmt.Errorf("%d runs failed for good, want 4", n)
		}
		if n := len(runs(client.ListRunsParams{State: []string{"succeeded"}}).Runs); n != 1 {
			return fmt.Errorf("%d runs succeeded, want 1", n)
		}
		return nil
	})

	// The three attempts, newest first; only the last is not followed by another.
	thrice := runs(client.ListRunsParams{Job: "web/thrice"}).Runs
	for i, r := range thrice {
		if r.Attempt != 3-i || r.Attempt+r.Retries != 3 || (r.Then == "") != (i == 0) || i > 0 && !r.ThenAt.Equal(thrice[i-1].DueAt) {
			t.Errorf("attempt %d: %+v", i, r)
		}
	}
	if len(thrice) != 3 {
		t.Fatalf("%d attempts, want 3", len(thrice))
	}
	if r, err := cl.GetRun(t.Context(), first.String()); err != nil || !r.ThenAt.Equal(thrice[1].DueAt) {
		t.Errorf("the first alone: %+v %v", r, err)
	}

	// Metrics follow the stored runs after a moment.
	eventually(t, time.Minute, s.counted(t,
		`tickring_runs_finished_total{app="web",name="thrice",outcome="failed"} 1`+"\n",
		`tickring_runs_finished_total{app="web",name="thrice",outcome="succeeded"} 0`+"\n",
		`tickring_runs_finished_total{app="web",name="never",outcome="failed"} 3`+"\n",
		`tickring_runs_finished_total{app="web",name="fine",outcome="succeeded"} 1`+"\n",
		`tickring_runs_closed_total{app="web",state="failed"} 6`+"\n"))

	// One line for each retry chain, none for retried attempts.
	if lines := log.with("failed for good"); len(lines) != 4 {
		t.Errorf("%d lines, want 4: %s", len(lines), lines)
	}
	var line struct {
		App, State, Reason, ScheduledAt string
		Run                             core.RunID
		Job                             core.JobID
		Attempt, Code                   int
	}
	last := log.with(`"attempt":3`)
	if len(last) != 1 || json.Unmarshal([]byte(last[0]), &line) != nil || line.Run.String() != thrice[0].ID || line.Job != first.Job() ||
		line.App != "web" || line.State != "failed" || line.Reason != "handler" || line.Code != 500 || line.ScheduledAt == "" {
		t.Errorf("%s: %+v", last, line)
	}

	jobs, err := cl.GetJobFacts(t.Context())
	if err != nil || jobs.Looked != 4 || jobs.More || jobs.FailingJobs != 2 || jobs.Pending != nil {
		t.Errorf("%+v %v", jobs, err)
	}
	list, own := s.findings(t)
	texts.Equal(t, "findings", findingsWith(list, "shop/", "web/"))
	// /healthz shows the same verdict as doctor and the console.
	_, answer := ask(t, "GET", s.URL()+"/healthz", "")
	var health struct{ Status, Verdict string }
	if err := json.Unmarshal([]byte(answer), &health); err != nil || health.Status != "ok" ||
		health.Verdict != doctor.Verdict(&own, list).String() {
		t.Errorf("%+v, %v; doctor: %s", health, err, doctor.Verdict(&own, list))
	}
	texts.Equal(t, "verdict", health.Verdict)
}

// TestJobsHaveBoundedLabels: a bounded number of jobs have their own series, and no app uses up that number. All other jobs of an
// app share one series. A deleted job keeps its number as label.
func TestJobsHaveBoundedLabels(t *testing.T) {
	m := newMetrics()
	next := core.JobID(0)
	fail := func(app string, jobs int) {
		for range jobs {
			next++
			m.closed(&core.Run{ID: core.NumberedRun(next, 1), App: app, State: core.Failed, Then: core.NumberedRun(next, 2)})
			m.closed(&core.Run{ID: core.NumberedRun(next, 2), App: app, State: core.Failed})
		}
	}
	fail("web", maxJobs+50)
	fail("pay", 60)
	for i := range 300 {
		fail(fmt.Sprint("app-", i), 1)
	}
	m.closed(&core.Run{ID: core.NumberedRun(1, 3), App: "web", State: core.Failed})
	rec, e := httptest.NewRecorder(), memory.Open(t, memory.Options{})
	p := &parts{store: e, reports: report.New(e, report.Options{})}
	m.handler(p).ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	text := rec.Body.String()
	series := func(app, name string, n int) string {
		return fmt.Sprintf("tickring_runs_finished_total{app=%q,name=%q,outcome=\"failed\"} %d\n", app, name, n)
	}
	for want, n := range map[string]int{
		`",outcome="failed"`:            maxJobs + 3,
		series("", "1", 2):              1,
		series("", "100", 1):            1,
		series("", "101", 1):            0,
		series("web", others, 150):      1,
		series("pay", others, 10):       1,
		series(others, others, 250):     1,
		series("", fmt.Sprint(next), 1): 0,
	} {
		check.Equal(t, strings.Count(text, want), n, "%q is there N times", want)
	}
}
