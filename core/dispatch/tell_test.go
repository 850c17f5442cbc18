package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// newMute is newLimited with a store whose post-run queue and checks accept nothing: they fail at once or, with never, hang.
func newMute(t *testing.T, never bool) *limited {
	l := newLimited(t, nil)
	fails := func(ctx context.Context) error {
		if never {
			<-ctx.Done()
			return ctx.Err()
		}
		return core.ErrThrottled
	}
	l.s.write = func(ctx context.Context, groups []store.Group) error {
		if groups[0].Writes[0].Kind != "look" {
			return nil
		}
		return fails(ctx)
	}
	l.s.enqueue = func(ctx context.Context, o *ring.Out, do func() error) error {
		if o.Message.Kind != ring.KindPostRun {
			return do()
		}
		return fails(ctx)
	}
	return l
}

func (l *limited) job(id core.JobID, change func(*core.Job)) {
	l.t.Helper()
	j := core.Job{Def: core.Def{ID: id, App: "a", Name: "j" + id.String(), Handler: "h"}}
	j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-24*time.Hour)
	change(&j)
	j.Normalize()
	l.s.Job(j)
}

// TestLooksKeepPlainJobsWaitingBriefly: if PutLooks hangs, plain jobs of the batch wait at most a second. Jobs with
// notifications are retried.
func TestLooksKeepPlainJobsWaitingBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMute(t, true)
		l.job(7, func(*core.Job) {})
		l.job(8, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"x"}, On: []core.Event{core.EventSlow}, Slow: time.Minute}
		})
		plain, began := due(7), time.Now()
		l.d.Handle(t.Context(), []ring.Message{messageOf(plain, due(8))})
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("the batch took %s", took)
		}
		if len(l.sent) != 1 || l.sent[0] != plain.Run {
			t.Errorf("sent %v, want the plain job's run %d", l.sent, plain.Run)
		}
		if due, waiting := l.s.Depth(ring.KindFires); due+waiting != 1 {
			t.Errorf("%d messages come again", due+waiting)
		}
	})
}

// TestSkippedFixedDelayGoesOnUntold: the next run of a fixed delay does not wait for the notification of the skip,
// which stays pending.
func TestSkippedFixedDelayGoesOnUntold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newMute(t, false)
		at := core.InstantOf(time.Now().Add(-2 * time.Hour))
		f := planned(7, at)
		l.job(7, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"x"}, On: []core.Event{core.EventSkipped}}
			j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Minute}}}
			j.Sched.Misfire = core.MisfireSkip
			j.Sched.Next, j.Sched.Tail, j.Sched.PlanAt = at, f.Run, core.InstantOf(time.Now().Add(time.Hour))
		})
		l.d.Handle(t.Context(), []ring.Message{messageOf(f)})
		if r := l.s.Run(f.Run); r.State != core.Skipped || !r.OwesPostRun().Notice {
			t.Fatalf("%+v", r)
		}
		if s := l.s.JobOf(7).Sched; s.Tail == f.Run {
			t.Errorf("its chain still waits for the run that was skipped: %+v", s)
		}
	})
}
