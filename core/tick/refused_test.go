package tick_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
)

// unreadable makes passes for 150 s. Some runs are sent, a text is logged once per PlanBackoff, and nothing lags. It returns
// the log.
func (w *world) unreadable(least int, says string) string {
	w.t.Helper()
	var told bytes.Buffer
	tk := tick.New(w.s, tick.Options{ID: "a", Plan: plan.Local(), Log: slog.New(slog.NewTextHandler(&told, nil))})
	fires := 0
	for range 150 {
		time.Sleep(time.Second) // fake time
		res, err := tk.Pass(w.t.Context())
		if err != nil || res.Lag > 5*time.Second {
			w.t.Fatalf("lag %s, %v", res.Lag, err)
		}
		fires += res.Fires
	}
	if fires < least {
		w.t.Errorf("%d fires of the others", fires)
	}
	if n := strings.Count(told.String(), says); n < 2 || n > 3 {
		w.t.Errorf("logged %d times in 150 s:\n%s", n, told.String())
	}
	return told.String()
}

// TestUnreadableJobHoldsUpNoOther: the others are planned in each pass. The damaged job is reported once per
// PlanBackoff, and does not count as lag.
func TestUnreadableJobHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(3, core.When{Kind: core.KindEvery, Every: 10 * time.Second, Aligned: true})
		w.s = hook.UnreadableJobs(w.s, func(id core.JobID) bool { return id == 2 })
		if told := w.unreadable(2*14, "job=2 "); strings.Contains(told, "job=1 ") {
			t.Errorf("logged:\n%s", told)
		}
	})
}

// TestUnreadableRunHoldsUpNoOther: the other entries and jobs of its page are handled. The entry of the damaged run stays, and
// the run is reported once per PlanBackoff. It does not count as lag.
func TestUnreadableRunHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(1, core.When{Kind: core.KindEvery, Every: 10 * time.Second, Aligned: true})
		now := core.InstantOf(time.Now())
		var runs []core.Run
		var entries []core.DueItem
		for n := range uint32(3) {
			r := fixture.Trigger("app", core.NumberedRun(1, n+1), now)
			runs, entries = append(runs, r), append(entries, core.DueItem{PlanAt: now, Job: 1, Run: r.ID})
		}
		must(t, append(w.eng.CreateRuns(t.Context(), runs), w.eng.Enter(t.Context(), entries)...)...)
		bad := runs[1].ID
		w.s = hook.Unreadable(w.s, bad)
		w.unreadable(2+14, "run="+bad.String()+" ")
		if left, err := w.eng.Jobs.Entries(t.Context(), 1); err != nil || len(left) != 1 || left[0].Run != bad {
			t.Errorf("entries %+v, %v", left, err)
		}
	})
}

// lane is a post-run queue that may fail, or take a while.
type lane struct {
	down  bool
	takes time.Duration
	calls int
	notes []ring.Note // accepted notifications
}

// on makes the tickers use l.
func (l *lane) on(w *world) {
	w.s = hook.Over(w.s, func(ctx context.Context, c *hook.Call, next func() []error) []error {
		if len(c.Out) == 0 || c.Out[0].Message.Kind != ring.KindPostRun {
			return next()
		}
		return l.enqueue(ctx, c.Out)
	})
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
		w.s = hook.UnreadableJobs(w.s, func(id core.JobID) bool { return id > 1 })
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

// partly is a store that rejects messages and records.
type partly struct {
	refuse       func(message int) bool
	records      error
	put, refused map[core.RunID]int // runs of a pass
}

// on returns a ticker that uses p.
func (p *partly) on(w *world) *tick.Ticker {
	w.s = hook.Over(w.s, func(_ context.Context, c *hook.Call, next func() []error) (errs []error) {
		switch {
		case p.records != nil && c.Write != nil && strings.HasPrefix(c.Write[0].Writes[0].Kind, "skip#"):
			return hook.Fail(p.records, len(c.Write))
		case c.Out == nil:
			return next()
		}
		for i, out := 0, c.Out; i < len(out); i++ {
			if c.Out = out[i : i+1]; p.refuse(i) {
				errs = append(errs, core.ErrThrottled)
			} else {
				errs = append(errs, next()...)
			}
			for _, f := range out[i].Message.Fires {
				if p.put[f.Run]++; errs[i] != nil {
					p.refused[f.Run]++
				}
			}
		}
		return errs
	})
	return tick.New(w.s, tick.Options{ID: "t", Plan: plan.AWS(), Overdue: time.Hour})
}

func (p *partly) pass(t *testing.T, tk *tick.Ticker) (tick.Result, error) {
	p.put, p.refused = map[core.RunID]int{}, map[core.RunID]int{}
	time.Sleep(time.Second) // fake time
	return tk.Pass(t.Context())
}

// A rejected message delays only the jobs of its runs, and only rejected messages are enqueued again.
func TestRefusedMessagesArePutAgainAlone(t *testing.T) {
	for name, refuse := range map[string]func(pass, message int) bool{
		"one, once":         func(pass, i int) bool { return pass == 0 && i == 7 },
		"one, four times":   func(pass, i int) bool { return pass < 4 && i == 0 },
		"a batch of ten":    func(pass, i int) bool { return pass == 0 && i < 10 },
		"each third, twice": func(pass, i int) bool { return pass < 2 && i%3 == 1 },
	} {
		fixture.Bubble(t, name, func(t *testing.T) {
			const jobs = 204
			w := newWorld(t, 1)
			w.seedAs(jobs, core.When{Kind: core.KindEvery, Every: time.Minute, Aligned: true}, plan.AWS())
			p, pass, moved, taken := &partly{}, 0, 0, 0
			tk := p.on(w)
			p.refuse = func(i int) bool { return refuse(pass, i) }
			var left map[core.RunID]int
			for ; pass < 6; pass++ {
				res, err := p.pass(t, tk)
				if (err != nil) != (len(p.refused) > 0) {
					t.Errorf("pass %d: %v", pass, err)
				}
				if pass > 0 && !maps.Equal(p.put, left) {
					t.Errorf("pass %d put %d fires on the ring; %d were refused to the one before", pass, len(p.put), len(left))
				}
				if pass == 0 && name == "one, once" && res.Moved != jobs-ring.MaxFires {
					t.Errorf("%d of %d jobs were moved on by the first pass: one message of %d fires was refused", res.Moved, jobs, ring.MaxFires)
				}
				left, moved, taken = p.refused, moved+res.Moved, taken+len(p.put)-len(p.refused)
			}
			if len(left) > 0 || moved != jobs || taken != len(w.seen(15*time.Minute)) {
				t.Errorf("%d of %d jobs were moved on, %d fires taken, %d refused in the end", moved, jobs, taken, len(left))
			}
		})
	}
}

// seen returns the runs in the delay queue after a while, each once.
func (w *world) seen(after time.Duration) map[core.RunID]bool {
	w.t.Helper()
	time.Sleep(after) // fake time
	seen := map[core.RunID]bool{}
	for _, id := range w.ringIDs() {
		if seen[id] {
			w.t.Errorf("fire %d is on the ring twice", id)
		}
		seen[id] = true
	}
	return seen
}

// A rejected record delays its job, and none of the job's runs is enqueued again because of it.
func TestRefusedRecordIsPutAgainAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seedAs(1, core.When{Kind: core.KindEvery, Every: time.Minute, Aligned: true}, plan.AWS())
		time.Sleep(10 * time.Minute) // fake time: earlier runs are late
		p := &partly{refuse: func(int) bool { return false }, records: core.ErrThrottled}
		tk := p.on(w)
		if res, err := p.pass(t, tk); err == nil || len(p.put) == 0 || res.Moved != 0 {
			t.Errorf("%d fires on the ring, %d jobs moved on without a record of late runs, %v", len(p.put), res.Moved, err)
		}
		p.records = nil
		if res, err := p.pass(t, tk); err != nil || len(p.put) != 0 || res.Moved != 1 || res.Skipped == 0 {
			t.Errorf("then %d fires, %d jobs, %d recorded, %v", len(p.put), res.Moved, res.Skipped, err)
		}
		skips, err := w.eng.Skips(t.Context(), 1, 0, core.InstantOf(time.Now()))
		if err != nil || len(skips) != 1 {
			t.Errorf("records %+v, %v", skips, err)
		}
	})
}
