package tick_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/hook"
)

// lane is a post-run queue that may fail, or take a while.
type lane struct {
	down  bool
	takes time.Duration
	calls int
	notes []ring.Note // accepted notifications
}

// on makes the tickers use l.
func (l *lane) on(w *world) {
	w.s.Queue = hook.Queue{Queue: w.s.Queue, DoEnqueue: func(ctx context.Context, out []ring.Out) []error {
		if len(out) == 0 || out[0].Message.Kind != ring.KindPostRun {
			return w.eng.Queue.Enqueue(ctx, out)
		}
		return l.enqueue(ctx, out)
	}}
}

func (l *lane) enqueue(ctx context.Context, out []ring.Out) []error {
	l.calls++
	errs := make([]error, len(out))
	err := error(nil)
	select {
	case <-time.After(l.takes): // fake time
	case <-ctx.Done():
		err = ctx.Err()
	}
	if l.down {
		err = errors.New("the postrun queue is throttled")
	}
	for i := range out {
		if errs[i] = err; err == nil {
			l.notes = append(l.notes, out[i].Message.PostRun.Notes...)
		}
	}
	return errs
}

// events returns the jobs of the accepted notifications of an event.
func (l *lane) events(e core.Event) (jobs []core.JobID) {
	for _, n := range l.notes {
		if n.Event == e {
			jobs = append(jobs, n.Job)
		}
	}
	slices.Sort(jobs)
	return jobs
}

// TestDeadPostRunLaneHoldsUpNoFire: after an outage of an hour, the runs and skips do not depend on whether the post-run
// queue works. A pass waits a second for it. Pending notifications are enqueued once it works.
func TestDeadPostRunLaneHoldsUpNoFire(t *testing.T) {
	after := func(l *lane) (fires, skipped, failed int) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.seed(6, core.When{Kind: core.KindEvery, Every: 10 * time.Second, Aligned: true})
			l.on(w)
			tk := tick.New(w.s, tick.Options{ID: "a", Plan: plan.Local(), Careful: 1, Log: slog.New(slog.DiscardHandler)})
			pass := func() {
				time.Sleep(time.Second) // fake time
				began := time.Now()
				res, err := tk.Pass(t.Context())
				if took := time.Since(began); took > time.Second {
					t.Errorf("a pass took %s", took)
				}
				if err != nil {
					failed++
				}
				fires, skipped = fires+res.Fires, skipped+int(res.Skipped)
			}
			time.Sleep(time.Hour) // no ticker runs
			end := time.Now().Add(time.Minute)
			for time.Now().Before(end) {
				pass()
			}
			l.down, l.takes = false, 0
			pass()
			if got := l.events(core.EventSkipped); !slices.Equal(slices.Compact(got), []core.JobID{1, 2, 3, 4, 5, 6}) {
				t.Errorf("skips of %v are reported", got)
			}
		})
		return fires, skipped, failed
	}
	fires, skipped, failed := after(&lane{})
	if fires == 0 || skipped == 0 || failed > 0 {
		t.Fatalf("%d fires, %d skipped, %d passes failed", fires, skipped, failed)
	}
	for what, l := range map[string]*lane{"refuses": {down: true}, "is silent": {takes: time.Hour},
		"is slow": {takes: 400 * time.Millisecond}} {
		f, s, failed := after(l)
		if f != fires || s != skipped {
			t.Errorf("lane %s: %d fires and %d skipped, not %d and %d", what, f, s, fires, skipped)
		}
		if failed == 0 && what != "is slow" {
			t.Errorf("lane %s: no pass reports that notifications were not enqueued", what)
		}
	}
}

// TestManyUnreadableJobsAreToldOfAtOnce: one message reports all of them, after the run of the good job is enqueued. If
// that fails, passes skip these jobs anyway, and report them later.
func TestManyUnreadableJobsAreToldOfAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(300, core.When{Kind: core.KindEvery, Every: 10 * time.Second, Aligned: true})
		l := &lane{takes: 20 * time.Millisecond, down: true}
		l.on(w)
		w.damage(func(id core.JobID) bool { return id > 1 })
		tk := tick.New(w.s, tick.Options{ID: "a", Plan: plan.Local(), Log: slog.New(slog.DiscardHandler)})
		time.Sleep(9 * time.Second) // fake time
		began := time.Now()
		first, err := tk.Pass(t.Context())
		if took := time.Since(began); took > 50*time.Millisecond || err == nil || first.Due != 300 || first.Fires == 0 || l.calls != 1 {
			t.Errorf("the first pass took %s and %d messages, read %d, fired %d: %v", took, l.calls, first.Due, first.Fires, err)
		}
		l.down = false
		second, err := tk.Pass(t.Context())
		if err != nil || second.Due > 1 || l.calls != 2 {
			t.Errorf("the second pass took %d messages, read %d: %v", l.calls-1, second.Due, err)
		}
		if got := l.events(core.EventUnplanned); len(slices.Compact(got)) != 299 || len(got) != 299 {
			t.Errorf("%d jobs are reported", len(got))
		}
	})
}
