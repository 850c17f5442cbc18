package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// TestWhatAQueuedRunWaitsFor: the story of a run, its next step and its row in a list agree on the reason why it
// waits: an executor, another run, or a start limit. A limit that counts the run does not by itself make it wait.
func TestWhatAQueuedRunWaitsFor(t *testing.T) {
	s := goldenConsole(t)
	spec := usecasetest.Spec("pay", usecasetest.Every(time.Minute))
	spec.Def.Overlap, spec.Def.WaitForExecutor = core.Overlap{Limit: 5}, time.Hour
	job := s.Create(spec)
	free := usecasetest.Spec("free", usecasetest.Every(time.Minute))
	free.Def.WaitForExecutor = time.Hour
	other := s.Create(free)
	const at = core.RunID(1)
	for n, c := range []struct {
		name string
		job  core.Job
		item core.Permits // at is the run
	}{
		{"no limit", other, core.Permits{}},
		{"nobody starts", job, core.Permits{}},
		{"another run holds", job, core.Permits{Holders: []core.Holder{{First: 9}}}},
		{"queued behind a run", job, core.Permits{Holders: []core.Holder{{First: 9}}, Queue: []core.RunID{at}}},
		{"queued alone", job, core.Permits{Holders: []core.Holder{}, Queue: []core.RunID{at}}},
		{"starts in a minute", job, core.Permits{Holders: []core.Holder{{First: at, From: core.InstantOf(s.Clock) + 60}}}},
		{"may start", job, core.Permits{Holders: []core.Holder{{First: at, From: core.InstantOf(s.Clock) - 1}}}},
	} {
		r := s.ended(&c.job, 0, func(r *core.Run) {
			r.At -= core.Instant(n)
			r.ID, r.Slot = core.PlannedRun(c.job.Def.ID, r.At), r.At
			r.First, r.State, r.SentAt, r.EndedAt, r.Address = r.ID, core.Queued, time.Time{}, time.Time{}, ""
			r.Permit = c.job.Permit(nil, r)
		})
		if c.item.Holders != nil {
			c.item.Name, c.item.Limit, c.item.V = r.Permit, 5, 1
			if old, err := s.E.Permits(usecasetest.Ctx, []string{r.Permit}); err != nil {
				t.Fatal(err)
			} else if is := old[r.Permit]; is.V > 0 {
				c.item.V = is.V + 1
			}
			for i := range c.item.Queue {
				c.item.Queue[i] = r.ID
			}
			for i := range c.item.Holders {
				if h := &c.item.Holders[i]; h.First == at {
					h.First, h.Attempt, c.item.Second = r.ID, 1, h.From
				}
			}
			check.OK(t, s.E.PutPermits(usecasetest.Ctx, []core.Permits{c.item})[0])
		}
		s.says("/console/runs/" + r.ID.String())
		s.compare(c.name, ".story,p")
		s.says("/console/runs?job=shop/" + c.job.Def.Name)
		s.compare("row, "+c.name, "#run-"+r.ID.String())
	}
}

// TestJoinThatWaitsSaysForWhom: the run of a job with several parents starts when they have ended, and is skipped
// otherwise. It does not start by itself.
func TestJoinThatWaitsSaysForWhom(t *testing.T) {
	s := goldenConsole(t)
	parent := s.Create(usecasetest.Spec("a", usecasetest.Every(time.Hour)))
	s.Create(usecasetest.Spec("b", usecasetest.Every(time.Hour)))
	spec := usecasetest.Spec("sums", core.Schedule{})
	spec.Def.Within = time.Hour
	spec.Def.After = []core.Parent{{Job: "shop/a", When: core.UponClose}, {Job: "shop/b", When: core.UponClose}}
	job := s.Create(spec)
	now, id := core.InstantOf(s.Clock), core.NumberedRun(job.Def.ID, 1)
	j := core.Join{}
	j.Note(&job.Def, &core.Run{ID: core.PlannedRun(parent.Def.ID, now)}, id, now)
	s.ended(&job, 0, func(r *core.Run) {
		*r = core.Run{ID: id, App: "shop", State: core.Planned, Cause: core.CauseParent, At: j.Begun, Slot: j.End, Attempt: 1, First: id,
			Parent: j.Parent}
	})
	item := core.Permits{Name: job.Def.JoinName(), V: 1, Join: &j}
	check.OK(t, s.E.PutPermits(usecasetest.Ctx, []core.Permits{item})[0])
	s.in("en")
	s.shows(".story,p", "/console/runs/"+id.String(), j.End.Time().Format(time.DateTime))
}

// TestNoAttemptIsLeftWhereNoneIs: a result without a retry shows "no attempts left" only if that is the reason.
func TestNoAttemptIsLeftWhereNoneIs(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("ledger", usecasetest.Every(time.Minute)))
	for n, left := range []int{0, 2} {
		r := s.ended(&job, n, func(r *core.Run) {
			r.State, r.Reason, r.Attempt, r.Retries = core.Failed, core.ReasonCancelled, 2, left
		})
		s.says("/console/runs/" + r.ID.String())
		s.compare(fmt.Sprint(left, " are left"), ".story")
	}
}

// TestKillThatCannotBeTold: the story of a kill claims nothing unknown. If a function or an endpoint cannot be asked
// to end a run, the page shows that before and after the kill. For a kill of a job's runs, the message names the
// executors without the kill.
func TestKillThatCannotBeTold(t *testing.T) {
	s := goldenConsole(t)
	for n, address := range []string{"http://10.0.0.7:9999", "lambda:pay", "call:https://pay.test"} {
		job := s.Create(usecasetest.Spec("pay"+strings.Repeat("x", n), usecasetest.Every(time.Minute)))
		r := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt, r.Address = core.Running, time.Time{}, address })
		at := "/console/runs/" + r.ID.String()
		s.shows("dialog", at+"?panel=kill")
		s.done(at+"/kill", nil)
		s.compare("killed, "+address, ".story,p")
		over := s.ended(&job, 2, func(r *core.Run) {
			r.State, r.Address, r.KillBy, r.KillAt = core.Killed, address, "ann", r.SentAt.Add(time.Second)
		})
		s.says("/console/runs/" + over.ID.String())
		s.compare("ended, "+address, ".story,p")
	}
	job := s.Create(usecasetest.Spec("silent", usecasetest.Every(time.Minute)))
	s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt, r.Address = core.Running, time.Time{}, "http://deaf:9999/" })
	const at = "/console/jobs/shop/silent"
	s.done(at+"/kill", nil)
	s.done(at+"/pause", url.Values{"reason": {"bank"}, "running": {"kill"}})
}

// TestKillInParts: the message after a kill of a job's runs covers all its parts: an executor that did not get the
// kill, the cancelled runs, and whether more remain.
func TestKillInParts(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/job", `{"handler": "x"}`)
	var parts []string
	const next, told = `{"killed": [], "cancelled": ["3"], "next": "+a"}`, `{"killed": ["1", "2"], "cancelled": []}`
	const untold = `{"killed": ["1"], "cancelled": [], "sent": [{"address": "http://b/", "problem": "no answer"}]}`
	s.h = console.New(console.Options{Access: s.access, Log: slog.New(slog.DiscardHandler),
		API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/jobs/shop/job/kill" {
				s.api.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(parts[0]))
			if parts = parts[1:]; len(parts) == 0 {
				parts = []string{next}
			}
		})})
	for _, parts = range [][]string{{next, told}, {next, untold}, {next}, {strings.Replace(untold, "}]", `}], "next": "+b"`, 1)}} {
		s.done("/console/jobs/shop/job/kill", nil)
	}
}

// TestRunOfADeletedJobSaysWhose: the page of a run still names its job after the job is deleted.
func TestRunOfADeletedJobSaysWhose(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("pay", usecasetest.Every(time.Minute)))
	r := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
	s.ask("DELETE", "/v1/jobs/shop/pay", "")
	s.shows("h1,h2", "/console/runs/"+r.ID.String()+"?panel=kill")
}

// TestRunAgainIsOfTheLastAttempt: a retried attempt links to the last one, which can be rerun.
func TestRunAgainIsOfTheLastAttempt(t *testing.T) {
	s := goldenConsole(t)
	job := s.Create(usecasetest.Spec("ledger", usecasetest.Every(time.Minute)))
	ids := []core.RunID{core.PlannedRun(job.Def.ID, core.InstantOf(s.Clock)-60), core.NumberedRun(job.Def.ID, 1),
		core.NumberedRun(job.Def.ID, 2)}
	for n, id := range ids {
		s.ended(&job, 1, func(r *core.Run) {
			r.ID, r.First, r.Attempt, r.State, r.Reason = id, ids[0], n+1, core.Failed, core.ReasonHandler
			if n+1 < len(ids) {
				r.Then = ids[n+1]
			}
		})
	}
	const again = "?panel=rerun"
	last := "/console/runs/" + ids[2].String()
	for _, id := range ids[:2] {
		s.never(s.shows(".buttons", "/console/runs/"+id.String(), `<a class="btn" href="`+last+`">`), again)
	}
	s.shows(".buttons", last, again)
}
