package tick_test

import (
	"context"
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
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// partly is a store that rejects messages and records.
type partly struct {
	refuse       func(message int) bool
	records      error
	put, refused map[core.RunID]int // runs of a pass
}

// on returns a ticker that uses p.
func (p *partly) on(w *world) *tick.Ticker {
	w.s.Queue = hook.Queue{Queue: w.s.Queue, DoEnqueue: func(ctx context.Context, out []ring.Out) []error {
		errs := make([]error, len(out))
		for i := range out {
			if p.refuse(i) {
				errs[i] = core.ErrThrottled
			} else {
				errs[i] = w.eng.Queue.Enqueue(ctx, out[i:i+1])[0]
			}
			for _, f := range out[i].Message.Fires {
				if p.put[f.Run]++; errs[i] != nil {
					p.refused[f.Run]++
				}
			}
		}
		return errs
	}}
	w.s.Records = hook.Records{Records: w.s.Records, DoWrite: func(ctx context.Context, groups ...store.Group) []error {
		if p.records != nil && strings.HasPrefix(groups[0].Writes[0].Kind, "skip#") {
			return slices.Repeat([]error{p.records}, len(groups))
		}
		return w.eng.Records.Write(ctx, groups...)
	}}
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
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
