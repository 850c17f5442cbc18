package tick

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// Invoked are the options of a ticker that lives for one invocation and shares
// the partitions with those that it wakes.
func Invoked(o Options) Options {
	o.MaxLeases = cmp.Or(o.MaxLeases, 2)
	o.AuditAfter = cmp.Or(o.AuditAfter, 2*time.Minute)
	return o
}

// Invocation is what one invocation is told. The zero value of a field means its
// default.
type Invocation struct {
	// Chain is how many ticks woke each other before this one; it is 0 for the
	// one that the clock woke, and that one alone does the Minutely tasks.
	Chain int
	// Another invokes the function once more, for partitions that nobody holds;
	// nil: it cannot. A chain has as many as there can be partitions.
	Another  func(ctx context.Context, chain int) error
	Minutely []Task
	Every    time.Duration // between passes: 1 s
	Reserve  time.Duration // how long before its deadline it ends: 10 s
	// Tell is told what a pass found that is not as it should be, and zeros; it
	// may be nil, and must not block.
	Tell func(lag time.Duration, recovered int)
}

// Task is done beside the passes.
type Task struct {
	Name string
	Do   func(context.Context) error
}

// Beats is one invocation: passes once a second until one finds nothing to
// plan, and beside them what is to be done once a minute.
type Beats struct {
	pass    func(context.Context) (Result, error)
	release func(context.Context) error
	another func(context.Context) error // nil where none may be woken
	o       Invocation
	// phase is where in a second the first pass begins, 0 anywhere: a queue delays by
	// whole seconds, so what is put on it late in a second comes just before its slot,
	// and little is paid for holding it. A pass says the phase of the next.
	phase time.Duration
	log   *slog.Logger
}

// Beats makes one invocation of the ticker.
func (t *Ticker) Beats(o Invocation) *Beats {
	o.Every = cmp.Or(o.Every, time.Second)
	o.Reserve = cmp.Or(o.Reserve, 10*time.Second)
	b := &Beats{pass: t.Pass, release: t.Release, o: o, phase: t.o.Plan.Cut.Phase(core.Early{}, t.o.Now()), log: t.o.Log}
	if o.Another != nil && o.Chain < t.o.MaxPartitions {
		b.another = func(ctx context.Context) error { return o.Another(ctx, o.Chain+1) }
	}
	return b
}

// Run works until there is nothing to plan or the deadline is near, then gives
// the leases back. It fails if the last pass failed: the alarm is on that.
func (b *Beats) Run(ctx context.Context) error {
	work, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		work, cancel = context.WithDeadline(ctx, end.Add(-b.o.Reserve))
	}
	defer cancel()
	var beside sync.WaitGroup
	var tasks []Task
	if b.o.Chain == 0 {
		tasks = b.o.Minutely
	}
	errs := make([]error, len(tasks))
	for i, t := range tasks {
		beside.Go(func() {
			if err := t.Do(work); err != nil {
				errs[i] = fmt.Errorf("%s: %w", t.Name, err)
			}
		})
	}
	last := b.passes(work)
	beside.Wait()
	if err := b.release(ctx); err != nil {
		b.log.Warn("leases were not given back: they run out", "err", err)
	}
	return errors.Join(append(errs, last)...)
}

func (b *Beats) passes(ctx context.Context) error {
	invoked := false
	var before error
	if b.phase > 0 && !lasts(ctx, b.untilPhase(time.Now())) {
		return ctx.Err()
	}
	for n := 1; ; n++ {
		began := time.Now()
		res, err := b.pass(ctx)
		if err != nil && ctx.Err() != nil && n > 1 && before == nil {
			return nil // there is always something due, and the end cut this pass off
		}
		before = err
		if b.phase > 0 && res.Phase > 0 {
			b.phase = res.Phase
		}
		if err != nil {
			b.log.Error("pass failed", "pass", n, "err", err)
		} else {
			b.told(res)
			b.log.Debug("pass", "pass", n, "due", res.Due, "fires", res.Fires, "moved", res.Moved, "skipped", res.Skipped, "took", time.Since(began))
		}
		if !invoked && err == nil && res.Free > 0 && b.another != nil {
			invoked = true
			if err := b.another(ctx); err != nil {
				b.log.Warn("no further tick could be invoked: the next minute brings one", "err", err)
			}
		}
		if err == nil && res.Due == 0 && !res.Behind {
			return nil
		}
		rest := b.o.Every - min(time.Since(began), b.o.Every)
		if b.phase > 0 {
			rest = b.untilPhase(time.Now())
		}
		if !lasts(ctx, rest) {
			return err
		}
	}
}

// lagFrom is the lag that is told: two wake-ups can be 119 s apart, and what was
// due just after the first is planned by the second.
const lagFrom = 2 * time.Minute

func (b *Beats) told(res Result) {
	if b.o.Tell == nil {
		return
	}
	lag := res.Lag
	if lag <= lagFrom {
		lag = 0
	}
	b.o.Tell(lag, res.Recovered)
}

// untilPhase is how long it is until a pass is to begin.
func (b *Beats) untilPhase(now time.Time) time.Duration {
	at := now.Truncate(b.o.Every).Add(b.phase)
	if !at.After(now) { // a pass that took no time is not made again at once
		at = at.Add(b.o.Every)
	}
	return at.Sub(now)
}

// lasts waits, and reports whether ctx lasted for d.
func lasts(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		end, ok := ctx.Deadline()
		return ctx.Err() == nil && (!ok || time.Now().Before(end))
	case <-ctx.Done():
		return false
	}
}
