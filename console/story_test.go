package console_test

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/peopletest"
)

// next returns the recommended next step on the page of a run.
func (s *site) next(run core.RunID) string {
	s.t.Helper()
	_, after, _ := strings.Cut(s.says("/console/runs/"+run.String(), "Next:"), "Next:</b>")
	said, _, _ := strings.Cut(after, "</p>")
	return strings.TrimSpace(said)
}

// TestWhatAQueuedRunWaitsFor: the story of a run, its next step and its row in a list agree on the reason why it
// waits: an executor, another run, or a start limit. A limit that counts the run does not by itself make it wait.
func TestWhatAQueuedRunWaitsFor(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	spec := peopletest.Spec("pay", peopletest.Every(time.Minute))
	spec.Def.Overlap, spec.Def.WaitForExecutor = core.Overlap{Limit: 5}, time.Hour
	job := s.Create(spec)
	free := peopletest.Spec("free", peopletest.Every(time.Minute))
	free.Def.WaitForExecutor = time.Hour
	other := s.Create(free)
	executor, turn := "waits for an executor of app", "waits in the queue"
	start, ends := "The run starts when an executor is available", "The run starts when a running one ends"
	const comes = "No action is needed: the run starts automatically"
	const at = core.RunID(1)
	for n, c := range []struct {
		job        core.Job
		item       core.Permits // at is the run
		waits      string
		next       string
		row, story bool // whether they mention the executor
	}{
		{job: other, waits: executor, next: start, row: true, story: true},
		{job: job, waits: executor, next: start, story: true},
		{job: job, item: core.Permits{Holders: []core.Holder{{First: 9}}}, waits: executor, next: start, story: true},
		{job: job, item: core.Permits{Holders: []core.Holder{{First: 9}}, Queue: []core.RunID{at}}, waits: "now used by run", next: ends},
		{job: job, item: core.Permits{Holders: []core.Holder{}, Queue: []core.RunID{at}}, waits: "now used by another run; position 1 of 1",
			next: ends},
		{job: job, item: core.Permits{Holders: []core.Holder{{First: at, From: core.InstantOf(s.Clock) + 60}}}, waits: turn, next: comes},
		{job: job, item: core.Permits{Holders: []core.Holder{{First: at, From: core.InstantOf(s.Clock) - 1}}}, waits: executor, next: start,
			story: true},
	} {
		r := s.ended(&c.job, 0, func(r *core.Run) {
			r.At -= core.Instant(n)
			r.ID, r.Slot = core.PlannedRun(c.job.Def.ID, r.At), r.At
			r.First, r.State, r.SentAt, r.EndedAt, r.Address = r.ID, core.Queued, time.Time{}, time.Time{}, ""
			r.Permit = c.job.Permit(nil, r)
		})
		if c.item.Holders != nil {
			c.item.Name, c.item.Limit, c.item.V = r.Permit, 5, 1
			if old, err := s.E.Finish.Permits(peopletest.Ctx, []string{r.Permit}); err != nil {
				t.Fatal(err)
			} else if is := old[r.Permit]; is.V > 0 {
				c.item.V = is.V + 1
			}
			for i := range c.item.Queue {
				c.item.Queue[i] = r.ID
			}
			for i := range c.item.Holders {
				if h := &c.item.Holders[i]; h.First == at {
					h.First = r.ID
				}
			}
			if err := s.E.Finish.PutPermits(peopletest.Ctx, []core.Permits{c.item})[0]; err != nil {
				t.Fatal(err)
			}
		}
		body := s.says("/console/runs/"+r.ID.String(), c.waits)
		if strings.Contains(body, executor) != c.story || strings.Contains(body, turn) == c.story {
			t.Errorf("%d: it does not name the one cause of the wait", n)
		}
		if next := s.next(r.ID); !strings.HasPrefix(next, c.next) {
			t.Errorf("%d: next is %q, want %q", n, next, c.next)
		}
		list := s.says("/console/runs?job=shop/" + c.job.Def.Name)
		_, row, _ := strings.Cut(list, `id="run-`+r.ID.String()+`"`)
		row, _, _ = strings.Cut(row, "</tr>")
		if row == "" || strings.Contains(row, executor) != c.row {
			t.Errorf("%d: its row is %s", n, row)
		}
	}
}

// TestJoinThatWaitsSaysForWhom: the run of a job with several parents starts when they have ended, and is skipped
// otherwise. It does not start by itself.
func TestJoinThatWaitsSaysForWhom(t *testing.T) {
	s := newConsole(t)
	parent := s.Create(peopletest.Spec("a", peopletest.Every(time.Hour)))
	s.Create(peopletest.Spec("b", peopletest.Every(time.Hour)))
	spec := peopletest.Spec("sums", core.Schedule{})
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
	if err := s.E.Finish.PutPermits(peopletest.Ctx, []core.Permits{item})[0]; err != nil {
		t.Fatal(err)
	}
	s.in("en")
	s.says("/console/runs/"+id.String(), "waits for shop/b")
	if next := s.next(id); !strings.HasPrefix(next, "The run starts when its parent jobs finish") ||
		!strings.Contains(next, "by "+j.End.Time().Format(time.DateTime)+" UTC, the run is skipped") {
		t.Errorf("next is %q", next)
	}
}

// TestNoAttemptIsLeftWhereNoneIs: a result without a retry shows "no attempts left" only if that is the reason.
func TestNoAttemptIsLeftWhereNoneIs(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	job := s.Create(peopletest.Spec("ledger", peopletest.Every(time.Minute)))
	for n, left := range []int{0, 2} {
		r := s.ended(&job, n, func(r *core.Run) {
			r.State, r.Reason, r.Attempt, r.Retries = core.Failed, core.ReasonCancelled, 2, left
		})
		if said := strings.Contains(s.says("/console/runs/"+r.ID.String()), "no attempts left"); said != (left == 0) {
			t.Errorf("%d are left: %v", left, said)
		}
	}
}

// TestKillThatCannotBeTold: the story of a kill claims nothing unknown. If a function or an endpoint cannot be asked
// to end a run, the page shows that before and after the kill. For a kill of a job's runs, the message names the
// executors without the kill.
func TestKillThatCannotBeTold(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	const told, deaf = "An xxl-job executor kills all its runs", "A function or an endpoint cannot be asked to end the run"
	for n, c := range []struct{ address, says, never string }{
		{"http://10.0.0.7:9999", told, deaf}, {"lambda:pay", deaf, told}, {"call:https://pay.test", deaf, told},
	} {
		job := s.Create(peopletest.Spec("pay"+strings.Repeat("x", n), peopletest.Every(time.Minute)))
		r := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt, r.Address = core.Running, time.Time{}, c.address })
		at := "/console/runs/" + r.ID.String()
		s.never(s.says(at+"?panel=kill", c.says), c.never)
		s.post(at+"/kill", nil)
		s.never(s.says(at, "kill requested by <b>"), "executor was asked")
		if said := strings.Contains(s.says(at), deaf); said != (c.says == deaf) {
			t.Errorf("%s: the story is shown as unavailable: %v", c.address, said)
		}
		over := s.ended(&job, 2, func(r *core.Run) {
			r.State, r.Address, r.KillBy, r.KillAt = core.Killed, c.address, "ann", r.SentAt.Add(time.Second)
		})
		s.never(s.says("/console/runs/"+over.ID.String(), "kill requested by <b>"), deaf)
	}
	job := s.Create(peopletest.Spec("silent", peopletest.Every(time.Minute)))
	s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt, r.Address = core.Running, time.Time{}, "http://deaf:9999/" })
	const at, says = "/console/jobs/shop/silent", "kill recorded for 1 runs, but an executor reported: http://deaf:9999/: "
	s.done(at+"/kill", nil, says)
	s.done(at+"/pause", url.Values{"reason": {"bank"}, "running": {"kill"}}, "shop/silent is paused; "+says)
}

// TestKillInParts: the message after a kill of a job's runs covers all its parts: an executor that did not get the
// kill, the cancelled runs, and whether more remain.
func TestKillInParts(t *testing.T) {
	s := newConsole(t)
	s.in("en")
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
	const more = "more runs of the job remain, kill again; "
	const gone = "kill recorded for 1 runs, but an executor reported: http://b/: no answer"
	for _, c := range []struct {
		parts []string
		says  string
		more  bool
	}{
		{[]string{next, told}, "kill requested for 2 runs; 1 runs cancelled before they were sent", false},
		{[]string{next, untold}, "1 runs cancelled before they were sent; " + gone, false},
		{[]string{next}, "kill requested for 0 runs; 20 runs cancelled before they were sent", true},
		{[]string{strings.Replace(untold, "}]", `}], "next": "+b"`, 1)}, "19 runs cancelled before they were sent; " + gone, true},
	} {
		parts = c.parts
		if body := s.done("/console/jobs/shop/job/kill", nil, c.says); strings.Contains(body, more+c.says) != c.more {
			t.Errorf("%v: it shows that more are left: %v", c.parts, !c.more)
		}
	}
}

// TestRunOfADeletedJobSaysWhose: the page of a run still names its job after the job is deleted.
func TestRunOfADeletedJobSaysWhose(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	job := s.Create(peopletest.Spec("pay", peopletest.Every(time.Minute)))
	r := s.ended(&job, 1, func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} })
	s.ask("DELETE", "/v1/jobs/shop/pay", "")
	const of = "shop/pay (deleted job)"
	s.says("/console/runs/"+r.ID.String()+"?panel=kill", "<h1>"+of, "Kill run "+r.ID.String()+" of "+of+"?")
}

// TestRunAgainIsOfTheLastAttempt: a retried attempt links to the last one, which can be rerun.
func TestRunAgainIsOfTheLastAttempt(t *testing.T) {
	s := newConsole(t)
	s.in("en")
	job := s.Create(peopletest.Spec("ledger", peopletest.Every(time.Minute)))
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
		s.never(s.says("/console/runs/"+id.String(), `<a class="btn" href="`+last+`">Last attempt</a>`), again)
	}
	s.never(s.says(last, again), "Last attempt")
}
