package dispatch_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestGivenASecondAfterWaiting: a queued run that gets a permit starts in the second it is assigned.
func TestGivenASecondAfterWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {}})
		l.app(func(a *core.App) { a.Limits = core.Limits{InFlight: 1, PerSecond: 1} })
		l.fires(7, 30)
		for range 30 { // they have waited for a while
			time.Sleep(time.Second)
			l.comes()
		}
		began := time.Now()
		for len(l.sent) < 6 && time.Since(began) < 3*time.Minute {
			n, t0 := len(l.sent), time.Now()
			l.ends(l.sent[n-1], core.Succeeded) // each ends within its second
			l.comes()
			for len(l.sent) == n && time.Since(t0) < time.Minute {
				time.Sleep(200 * time.Millisecond)
				l.comes()
			}
			t.Logf("run %d began %s after the end before", len(l.sent), time.Since(t0))
			time.Sleep(300 * time.Millisecond)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d runs took %s, with one a second", len(l.sent), took)
		}
	})
}

// TestRetimedGivesItsPermitBack: a trigger is released because its executor is busy and then moved to a later time. It
// does not hold its permit until then.
func TestRetimedGivesItsPermitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		log := slog.New(slog.DiscardHandler)
		full := &atomic.Bool{}
		full.Store(true)
		l.d = dispatch.New(l.s, l.s, fullOnce{l, full}, l.f, dispatch.Options{Log: log})
		id := core.NumberedRun(7, 1)
		must(t, l.s.Create(t.Context(), []core.Run{{ID: id, App: "a", State: core.Planned, Cause: core.CauseAPI, Rev: 1, At: l.at, Slot: l.at,
			Attempt: 1, First: id}})[0])
		l.ring(id, core.CauseAPI)
		r := l.run(id)
		if r.State != core.Planned || r.Owner != "" {
			t.Fatalf("%+v", r)
		}
		full.Store(false)
		next := r
		next.Slot = core.InstantOf(time.Now().Add(30 * 24 * time.Hour))
		next.At = next.Slot
		must(t, l.s.ChangeTriggered(t.Context(), operate.Triggered{Put: r.Retime(next, time.Now()),
			Entry:  core.DueItem{PlanAt: next.Slot.Add(-10 * time.Minute), Job: 7, Run: id},
			Change: core.Change{ID: 9, At: time.Now(), By: "p", Verb: core.VerbChanged, App: "a", Job: 7}}))
		ids := l.fires(7, 1)
		for range 4 {
			time.Sleep(15 * time.Second)
			l.comes()
		}
		if s := l.run(ids[0]).State; s != core.Running {
			p, _ := l.s.Permits(t.Context(), []string{"job/7"})
			t.Errorf("after a minute it is %s, for run %d, due in 30 days, holds the permit: %+v", s, id, p["job/7"])
		}
	})
}

type fullOnce struct {
	*limited
	full *atomic.Bool
}

func (f fullOnce) Send(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
	if f.full.Load() {
		return dispatch.Answer{Kind: dispatch.AnswerBusy}
	}
	return f.limited.Send(ctx, s)
}

// TestAskedAndFoundClosed: a dispatcher that asked for a permit and then finds the trigger closed releases the permit.
func TestAskedAndFoundClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		s := &closes{Store: l.s}
		log := slog.New(slog.DiscardHandler)
		l.f = finish.New(s, l.s, finish.Options{Plan: plan.AWS(), Log: log})
		l.d = dispatch.New(s, l.s, l, l.f, dispatch.Options{Log: log})
		id := core.NumberedRun(7, 1)
		must(t, l.s.Create(t.Context(), []core.Run{{ID: id, App: "a", State: core.Planned, Cause: core.CauseAPI, Rev: 1, At: l.at, Slot: l.at,
			Attempt: 1, First: id}})[0])
		s.before = func() { // a user cancels it
			must(t, l.f.End(t.Context(), []finish.Result{{Run: id, State: core.Skipped, Reason: core.ReasonCancelled, Unowned: true}})[0])
		}
		l.ring(id, core.CauseAPI)
		p, err := l.s.Permits(t.Context(), []string{"job/7"})
		must(t, err)
		if len(l.sent) != 0 || l.run(id).State != core.Skipped || len(p["job/7"].Holders) > 0 {
			t.Errorf("sent %v, %s, %+v", l.sent, l.run(id).State, p["job/7"])
		}
	})
}

// TestManyJobsOfAnApp: the runs of a batch that need an app's permit ask for it together.
func TestManyJobsOfAnApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := map[core.JobID]core.Overlap{}
		for id := range core.JobID(200) {
			jobs[id+7] = core.Overlap{}
		}
		l := newLimited(t, jobs)
		l.app(func(a *core.App) { a.Overlap, a.Limits = core.Overlap{Limit: 1}, core.Limits{InFlight: 1000} })
		s := &counts{Store: l.s}
		log := slog.New(slog.DiscardHandler)
		l.f = finish.New(s, l.s, finish.Options{Plan: plan.AWS(), Log: log})
		l.d = dispatch.New(s, l.s, l, l.f, dispatch.Options{Log: log})
		var msgs []ring.Message
		at := core.InstantOf(time.Now())
		for part := range slices.Chunk(slices.Sorted(maps.Keys(jobs)), 25) {
			m := ring.Message{Kind: ring.KindFires, Slot: at}
			for _, id := range part {
				m.Fires = append(m.Fires, core.Fire{Run: core.PlannedRun(id, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule})
			}
			msgs = append(msgs, m)
		}
		t0 := time.Now()
		l.d.Handle(t.Context(), msgs)
		t.Logf("%d of 200 sent in %s, %d writes of app/a, %d reads", len(l.sent), time.Since(t0), s.n, s.reads)
		if len(l.sent) < 200 || s.n > 20 {
			t.Errorf("%d of 200 sent, with %d writes of app/a", len(l.sent), s.n)
		}
	})
}

// counts counts reads and writes of app/a and is as slow as DynamoDB.
type counts struct {
	*memory.Store
	mu       sync.Mutex
	n, reads int
}

func (c *counts) Permits(ctx context.Context, names []string) (map[string]core.Permits, error) {
	time.Sleep(5 * time.Millisecond)
	if slices.Contains(names, "app/a") {
		c.mu.Lock()
		c.reads++
		c.mu.Unlock()
	}
	return c.Store.Permits(ctx, names)
}

func (c *counts) PutPermits(ctx context.Context, list []core.Permits) []error {
	time.Sleep(7 * time.Millisecond)
	for _, p := range list {
		if p.Name == "app/a" {
			c.mu.Lock()
			c.n++
			c.mu.Unlock()
		}
	}
	return c.Store.PutPermits(ctx, list)
}

// TestChangedTriggerLeavesItsApp: a trigger asked before a user changed its limits. While it waits for its job's
// permit, it releases its app's permit.
func TestChangedTriggerLeavesItsApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		l.app(func(a *core.App) { a.Limits.InFlight = 1 })
		id := core.NumberedRun(7, 1)
		must(t, l.s.Create(t.Context(), []core.Run{{ID: id, App: "a", State: core.Planned, Cause: core.CauseAPI, Rev: 1,
			At: l.at + 1, Slot: l.at + 1, Attempt: 1, First: id}})[0])
		must(t, l.s.PutPermits(t.Context(), []core.Permits{{Name: "app/a", V: 1, Limit: 1, Holders: []core.Holder{{First: id}}}})[0])
		next := l.fires(7, 1)[0] // it has its job's permit, and waits for the app's
		l.ring(id, core.CauseAPI)
		for range 3 {
			time.Sleep(20 * time.Second)
			l.comes()
			for id := range l.work {
				l.ends(id, core.Succeeded)
			}
		}
		if len(l.sent) != 2 || l.most != 1 {
			t.Errorf("sent %v, %d at once: they are %s and %s", l.sent, l.most, l.run(next).State, l.run(id).State)
		}
	})
}

// TestLeaveKeepsPermitsOfAHolder: a chain that got its job's permit after it asked keeps the permit of its app. A
// waiting chain releases it.
func TestLeaveKeepsPermitsOfAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, nil)
		id := core.NumberedRun(7, 1)
		holds := []core.Holder{{First: id}}
		must(t, l.s.PutPermits(t.Context(), []core.Permits{{Name: "app/a", V: 1, Limit: 1, Holders: holds}})[0])
		for i, job := range []core.Permits{{Holders: holds}, {Queue: []core.RunID{id}}} {
			job.Name, job.V, job.Limit = "job/7", int64(i+1), 1
			must(t, l.s.PutPermits(t.Context(), []core.Permits{job})[0])
			must(t, l.f.LeaveQueue(t.Context(), id, "job/7", "app/a"))
			found, err := l.s.Permits(t.Context(), []string{"app/a"})
			must(t, err)
			if app := found["app/a"]; app.Holds(id) != (i == 0) {
				t.Errorf("job's permits %+v: app's %+v", job, app)
			}
		}
	})
}

// TestWaitsAfterItsDeadline: a manual trigger waits for its permit past its job's deadline, without more frequent
// checks.
func TestWaitsAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		l.fires(7, 1)
		id := core.NumberedRun(7, 1)
		at := core.InstantOf(time.Now())
		must(t, l.s.Create(t.Context(), []core.Run{{ID: id, App: "a", State: core.Planned, Cause: core.CauseManual, Rev: 1, At: at, Slot: at,
			Attempt: 1, First: id}})[0])
		l.define(7, func(j *core.Job) { j.Sched.Deadline = 10 * time.Second })
		l.at = at
		l.ring(id, core.CauseManual)
		looks := 0
		for range 120 {
			time.Sleep(time.Second)
			if due, _, _, err := l.s.Depth(t.Context(), ring.KindFires); err != nil || due > 0 {
				looks++
			}
			l.comes()
		}
		if r := l.run(id); r.State != core.Queued || looks > 16 {
			t.Errorf("checked %d times in two minutes: %s", looks, r.State)
		}
	})
}
