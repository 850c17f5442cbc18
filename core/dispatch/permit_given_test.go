package dispatch_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
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
		full := &atomic.Bool{}
		full.Store(true)
		l.d = l.s.dispatcher(fullOnce{l, full}, dispatch.Options{})
		id := core.NumberedRun(7, 1)
		l.s.create(core.Run{ID: id, App: "a", State: core.Planned, Cause: core.CauseAPI, Rev: 1, At: l.at, Slot: l.at,
			Attempt: 1, First: id})
		l.ring(id, core.CauseAPI)
		r := l.s.run(id)
		if r.State != core.Planned || r.Owner != "" {
			t.Fatalf("%+v", r)
		}
		full.Store(false)
		next := r
		next.Slot = core.InstantOf(time.Now().Add(30 * 24 * time.Hour))
		next.At = next.Slot
		must(t, l.s.retime(r.Retime(next, time.Now()), next.Slot.Add(-10*time.Minute)))
		ids := l.fires(7, 1)
		for range 4 {
			time.Sleep(15 * time.Second)
			l.comes()
		}
		if s := l.s.run(ids[0]).State; s != core.Running {
			t.Errorf("after a minute it is %s, for run %d, due in 30 days, holds the permit: %+v", s, id, l.s.permits("job/7"))
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
		id := core.NumberedRun(7, 1)
		l.s.create(core.Run{ID: id, App: "a", State: core.Planned, Cause: core.CauseAPI, Rev: 1, At: l.at, Slot: l.at,
			Attempt: 1, First: id})
		l.beforePermits(func() { // a user cancels it
			must(t, l.s.f.End(t.Context(), []finish.Result{{Run: id, State: core.Skipped, Reason: core.ReasonCancelled, Unowned: true}})[0])
		})
		l.ring(id, core.CauseAPI)
		if p := l.s.permits("job/7"); len(l.sent) != 0 || l.s.run(id).State != core.Skipped || len(p.Holders) > 0 {
			t.Errorf("sent %v, %s, %+v", l.sent, l.s.run(id).State, p)
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
		var reads, writes atomic.Int32 // of app/a, with the latencies of DynamoDB
		slowly := func(k store.Key, of *atomic.Int32, takes time.Duration) error {
			if strings.HasPrefix(k.Kind, "permit#") {
				time.Sleep(takes)
			}
			if k.Kind == "permit#app/a" {
				of.Add(1)
			}
			return nil
		}
		l.s.read = func(_ context.Context, k store.Key) error { return slowly(k, &reads, 5*time.Millisecond) }
		l.s.write = func(_ context.Context, groups []store.Group) error {
			return slowly(groups[0].Writes[0].Key, &writes, 7*time.Millisecond)
		}
		var msgs []ring.Message
		at := core.InstantOf(time.Now())
		for part := range slices.Chunk(slices.Sorted(maps.Keys(jobs)), 25) {
			m := ring.Message{Kind: ring.KindFires, Slot: at}
			for _, id := range part {
				m.Fires = append(m.Fires, planned(id, at))
			}
			msgs = append(msgs, m)
		}
		t0 := time.Now()
		l.d.Handle(t.Context(), msgs)
		t.Logf("%d of 200 sent in %s, %d writes of app/a, %d reads", len(l.sent), time.Since(t0), writes.Load(), reads.Load())
		if len(l.sent) < 200 || writes.Load() > 20 {
			t.Errorf("%d of 200 sent, with %d writes of app/a", len(l.sent), writes.Load())
		}
	})
}

// TestChangedTriggerLeavesItsApp: a trigger asked before a user changed its limits. While it waits for its job's
// permit, it releases its app's permit.
func TestChangedTriggerLeavesItsApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		l.app(func(a *core.App) { a.Limits.InFlight = 1 })
		id := core.NumberedRun(7, 1)
		l.s.create(core.Run{ID: id, App: "a", State: core.Planned, Cause: core.CauseAPI, Rev: 1,
			At: l.at + 1, Slot: l.at + 1, Attempt: 1, First: id})
		l.s.putPermits(core.Permits{Name: "app/a", V: 1, Limit: 1, Holders: []core.Holder{{First: id}}})
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
			t.Errorf("sent %v, %d at once: they are %s and %s", l.sent, l.most, l.s.run(next).State, l.s.run(id).State)
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
		l.s.putPermits(core.Permits{Name: "app/a", V: 1, Limit: 1, Holders: holds})
		for i, job := range []core.Permits{{Holders: holds}, {Queue: []core.RunID{id}}} {
			job.Name, job.V, job.Limit = "job/7", int64(i+1), 1
			l.s.putPermits(job)
			must(t, l.s.f.LeaveQueue(t.Context(), id, "job/7", "app/a"))
			if app := l.s.permits("app/a"); app.Holds(id) != (i == 0) {
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
		l.s.create(core.Run{ID: id, App: "a", State: core.Planned, Cause: core.CauseManual, Rev: 1, At: at, Slot: at,
			Attempt: 1, First: id})
		l.define(7, func(j *core.Job) { j.Sched.Deadline = 10 * time.Second })
		l.at = at
		l.ring(id, core.CauseManual)
		looks := 0
		for range 120 {
			time.Sleep(time.Second)
			if due, _ := l.s.depth(ring.KindFires); due > 0 {
				looks++
			}
			l.comes()
		}
		if r := l.s.run(id); r.State != core.Queued || looks > 16 {
			t.Errorf("checked %d times in two minutes: %s", looks, r.State)
		}
	})
}
