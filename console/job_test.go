package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// never fails if a page has one of the texts.
func (s *site) never(body string, texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if strings.Contains(body, text) {
			s.t.Errorf("it says %q:\n%s", text, body)
		}
	}
}

const pay = `{"handler":"sweep","title":"Ledger to bank","author":"lina","params":"{\"since\":\"13:40\"}",` +
	`"schedule":{"crontab":"0 3 * * *","timezone":"Europe/Berlin"},"labels":{"team":"pay"},"retry":{"max":2}}`

// TestWhatComesOfAJob: the page does not claim that a job has no schedule, if the job or its app is paused. The same
// holds if its fixed delay starts after the present run, or if the next run is over a year away. If a fixed delay has
// ended or cannot be planned, there is no next run.
func TestWhatComesOfAJob(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/a", `{"handler": "x", "schedule": {"every": "1h"}}`)
	s.ask("PUT", "/v1/jobs/shop/after", `{"handler": "x", "schedule": {"fixedDelay": "90s"}}`)
	s.ask("PUT", "/v1/jobs/shop/once", `{"handler": "x", "schedule": {"at": "2037-01-01T01:00:00Z"}}`)
	const page = "/console/jobs/shop/after"
	s.shows(".answer,.cols", "/console/jobs/shop/once", "next <time")
	after := s.Job("shop/after")
	move := func(change func(*core.Advance)) {
		to := s.Job("shop/after").Sched.Stay()
		change(&to)
		check.OK(t, s.E.Advance(t.Context(), []core.Advance{to})[0])
	}
	move(func(to *core.Advance) { to.NewTail = core.PlannedRun(after.Def.ID, after.Sched.Next) })
	s.shows(".answer,.muted", page)
	move(func(to *core.Advance) { to.PlanError = "no such zone" })
	s.shows(".answer,.muted", page)
	move(func(to *core.Advance) { to.PlanError, to.NewState = "", core.Ended })
	s.shows(".answer,.muted", page)
	move(func(to *core.Advance) { to.NewState = core.Started })
	s.ask("POST", "/v1/apps/shop/pause", `{"reason": "stock-taking"}`)
	for _, name := range []string{"a", "after", "once"} {
		s.shows(".answer,.muted", "/console/jobs/shop/"+name)
	}
}

// TestManyChanges: a page has a limited number of changes and a link to the next page, which keeps the filter. A
// difference far back can be opened and undone.
func TestManyChanges(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", pay)
	for i := range 250 {
		s.Clock = s.Clock.Add(time.Second)
		s.ask("PUT", "/v1/jobs/shop/ledger", strings.Replace(pay, "0 3", fmt.Sprintf("%d %d", i%60, i%24), 1))
	}
	body := s.says("/console/audit-log?by=admin-token&app=shop", `value="admin-token"`, `rel="next"`)
	s.compare("the command", ".cli")
	first := strings.Count(body, `id="change-`)
	next := cutOut(body, `rel="next" href="`, `"`)
	if !strings.Contains(next, "by=admin-token") || !strings.Contains(next, "app=shop") || first != 100 {
		t.Fatalf("%d lines, then %s", first, next)
	}
	body = s.says(next, `id="change-`, `rel="next"`)
	next = cutOut(body, `rel="next" href="`, `"`)
	body = s.says(next)
	all := strings.Split(body, "audit-log?diff=")
	rev, _, _ := strings.Cut(all[len(all)-1], `&`) // of the first change of all
	rev, _, _ = strings.Cut(rev, `"`)
	s.never(s.get("/console/jobs/shop/ledger/audit-log").Body.String(), rev)
	body = s.says("/console/jobs/shop/ledger/audit-log?diff="+rev+"&panel=restore", `d-del`, `d-add`, "0 3 * * *", "<dialog")
	s.never(body, `rel="next"`)
	newest, _, _ := strings.Cut(strings.Split(s.says("/console/jobs/shop/ledger/audit-log"), "audit-log?diff=")[1], `"`)
	next = cutOut(s.says("/console/jobs/shop/ledger/audit-log?diff="+newest, "d-add"), `rel="next" href="`, `"`)
	s.never(s.says(next, `id="change-`), newest) // it continues, and does not return to the open changes
	s.done("/console/jobs/shop/ledger/restore", url.Values{"change": {rev}})
	s.compare("the restored job", ".answer")
}

// TestWhatWaitsIsNamed: the page of a job names each waiting run by its cause.
func TestWhatWaitsIsNamed(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/ledger", `{"handler":"ledger","retry":{"max":2,"delay":"2h"}}`)
	at := s.Clock.Add(time.Hour).UTC().Format(time.RFC3339)
	const page = "/console/jobs/shop/ledger"
	for _, cause := range []string{"manual", "api"} {
		s.ask("POST", "/v1/jobs/shop/ledger/trigger", fmt.Sprintf(`{"at":%q,"cause":%q,"key":%q}`, at, cause, cause))
		s.shows("table", page)
		s.ask("DELETE", "/v1/jobs/shop/ledger/waiting/"+cause, "")
	}
	s.ask("POST", "/v1/jobs/shop/ledger/trigger", `{"key":"now"}`)
	run, err := s.M.Find(t.Context(), "shop/ledger#now")
	check.OK(t, err)
	end := finish.New(s.E, finish.Options{Plan: plan.Local(), Now: func() time.Time { return s.Clock }})
	check.OK(t, end.End(t.Context(), []finish.Result{{Run: run.ID, State: core.Failed, Reason: core.ReasonHandler, Code: 500}})[0])
	s.shows("table", page)
}

// skipped stores a run that was skipped n minutes ago because other runs were in progress.
func (s *site) skipped(j *core.Job, n int) core.Run {
	return s.ended(j, n, func(r *core.Run) {
		r.State, r.Reason, r.SentAt, r.Address = core.Skipped, core.ReasonOverlap, time.Time{}, ""
	})
}

// TestAtWorkBehindWhatWasSkipped: a hanging run is shown where its job is killed, paused or run by hand, however many
// runs were skipped since. The next step of the skipped runs links to it.
func TestAtWorkBehindWhatWasSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest: a slow machine does not exceed the time limit
		s := goldenConsole(t)
		spec := usecasetest.Spec("tick", usecasetest.Every(time.Minute))
		spec.Def.Overlap = core.Overlap{Limit: 1, Full: core.FullSkip}
		j := s.Create(spec)
		for n := range 3 {
			s.ended(&j, 3000+n, func(*core.Run) {})
		}
		hanging := func(n int) core.Run {
			return s.ended(&j, n, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
		}
		for n := range 40 {
			s.skipped(&j, 100-n)
		}
		const at = "/console/jobs/shop/tick"
		check := func(hangs core.Run) {
			t.Helper()
			s.says(at, "panel=kill")
			s.says(at+"?panel=kill", "/console/runs/"+hangs.ID.String(), "http://10.0.0.7:9999")
			s.shows(".hint", at+"?panel=run")
			s.shows("fieldset", at+"?panel=pause")
		}
		check(hanging(2000))
		last := s.skipped(&j, 50)
		s.says("/console/runs/"+last.ID.String(), "/console/runs?job=shop%2ftick&state=running")
		s.ended(&j, 49, func(*core.Run) {}) // another run ended since, elsewhere
		check(hanging(150))
	})
}

// TestAtWorkIsSoughtOnlyThere: older runs are searched for running ones only if there can be one more. If the search
// takes too long, the page is shown without it.
func TestAtWorkIsSoughtOnlyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest: a slow machine does not exceed the time limit
		s := newConsole(t)
		spec := usecasetest.Spec("tick", usecasetest.Every(time.Minute))
		spec.Def.Overlap = core.Overlap{Limit: 1, Full: core.FullSkip}
		j := s.Create(spec)
		sought := 0
		s.stub("/v1/runs", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("state") == "running" {
				sought++
				<-r.Context().Done()
			}
			s.api.ServeHTTP(w, r)
		})
		for n := range 40 {
			s.skipped(&j, 100-n)
		}
		const at = "/console/jobs/shop/tick"
		s.never(s.says(at), "panel=kill")
		check.Contains(t, textOf(t, s.page, "#first"), "30")
		if sought == 0 {
			t.Error("none was sought")
		}
		sought = 0
		s.ended(&j, 50, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} }) // the maximum number of runs
		if s.says(at, "panel=kill"); sought > 0 {
			t.Error("one more than may was sought")
		}
	})
}
