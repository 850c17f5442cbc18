package dispatch_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// mute is a store whose post-run queue and checks accept nothing: they fail at once, or hang.
type mute struct {
	*memory.Store
	never bool
}

func (m mute) answer(ctx context.Context) error {
	if m.never {
		<-ctx.Done()
		return ctx.Err()
	}
	return core.ErrThrottled
}

func (m mute) PutLooks(ctx context.Context, _ []ring.CheckRequest) error { return m.answer(ctx) }

func (m mute) Enqueue(ctx context.Context, out []ring.Out) []error {
	if out[0].Message.Kind != ring.KindPostRun {
		return m.Store.Enqueue(ctx, out)
	}
	errs := make([]error, len(out))
	err := m.answer(ctx)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// newMute is newLimited with a mute store in between.
func newMute(t *testing.T, m mute) *limited {
	l := newLimited(t, nil)
	m.Store = l.s
	log := slog.New(slog.DiscardHandler)
	l.f = finish.New(m, m, finish.Options{Plan: plan.AWS(), Log: log})
	l.d = dispatch.New(m, m, l, l.f, dispatch.Options{Log: log})
	return l
}

func (l *limited) job(id core.JobID, change func(*core.Job)) {
	l.t.Helper()
	j := core.Job{Def: core.Def{ID: id, App: "a", Name: "j" + id.String(), Handler: "h"}}
	j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-24*time.Hour)
	change(&j)
	j.Normalize()
	must(l.t, l.s.CreateJobs(l.t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "a", Job: id}})[0])
}

// TestLooksKeepPlainJobsWaitingBriefly: if PutLooks hangs, plain jobs of the batch wait at most a second. Jobs with
// notifications are retried.
func TestLooksKeepPlainJobsWaitingBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMute(t, mute{never: true})
		l.job(7, func(*core.Job) {})
		l.job(8, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"x"}, On: []core.Event{core.EventSlow}, Slow: time.Minute}
		})
		now := core.InstantOf(time.Now())
		var fires []core.Fire
		for _, job := range []core.JobID{7, 8} {
			fires = append(fires, core.Fire{Run: core.PlannedRun(job, now), Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule})
		}
		began := time.Now()
		l.d.Handle(t.Context(), []ring.Message{{Kind: ring.KindFires, Slot: now, Fires: fires}})
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("the batch took %s", took)
		}
		if len(l.sent) != 1 || l.sent[0] != fires[0].Run {
			t.Errorf("sent %v, want the plain job's run %d", l.sent, fires[0].Run)
		}
		if due, waiting, _, err := l.s.Depth(t.Context(), ring.KindFires); err != nil || due+waiting != 1 {
			t.Errorf("%d messages come again, %v", due+waiting, err)
		}
	})
}

// TestSkippedFixedDelayGoesOnUntold: the next run of a fixed delay does not wait for the notification of the skip,
// which stays pending.
func TestSkippedFixedDelayGoesOnUntold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * 24 * time.Hour) // fake time: a bubble starts before valid run IDs
		l := newMute(t, mute{})
		at := core.InstantOf(time.Now().Add(-2 * time.Hour))
		id := core.PlannedRun(7, at)
		l.job(7, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"x"}, On: []core.Event{core.EventSkipped}}
			j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Minute}}}
			j.Sched.Misfire = core.MisfireSkip
			j.Sched.Next, j.Sched.Tail, j.Sched.PlanAt = at, id, core.InstantOf(time.Now().Add(time.Hour))
		})
		l.d.Handle(t.Context(), []ring.Message{{Kind: ring.KindFires, Slot: at,
			Fires: []core.Fire{{Run: id, Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}}}})
		if r := l.run(id); r.State != core.Skipped || !r.OwesPostRun().Notice {
			t.Fatalf("%+v", r)
		}
		found, _, err := l.s.Scheds(t.Context(), []core.JobID{7})
		if s := found[7]; err != nil || s.Tail != 0 && s.Tail == id {
			t.Errorf("its chain still waits for the run that was skipped: %+v, %v", s, err)
		}
	})
}
