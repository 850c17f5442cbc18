package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/boot"
)

// beats is one invocation: passes once a second until one finds nothing to
// plan, and beside them what is to be done once a minute.
type beats struct {
	pass     func(context.Context) (tick.Result, error)
	release  func(context.Context) error
	minutely []task
	// another invokes this function once more, for partitions that nobody holds.
	another func(context.Context) error
	every   time.Duration // between passes: 1 s
	// phase is where in a second the first pass begins, 0 anywhere: a queue delays by
	// whole seconds, so what is put on it late in a second comes just before its slot,
	// and little is paid for holding it. A pass says the phase of the next.
	phase   time.Duration
	reserve time.Duration // how long before its deadline it ends: 10 s
	log     *slog.Logger
	tell    func(map[string]float64) // metrics; may be nil
}

type task struct {
	name string
	do   func(context.Context) error
}

// run works until there is nothing to plan or the deadline is near, then gives
// the leases back. It fails if the last pass failed: the alarm is on that.
func (b *beats) run(ctx context.Context) error {
	work, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		work, cancel = context.WithDeadline(ctx, end.Add(-b.reserve))
	}
	defer cancel()
	var beside sync.WaitGroup
	errs := make([]error, len(b.minutely))
	for i, t := range b.minutely {
		beside.Go(func() {
			if err := t.do(work); err != nil {
				errs[i] = fmt.Errorf("%s: %w", t.name, err)
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

func (b *beats) passes(ctx context.Context) error {
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
		rest := b.every - min(time.Since(began), b.every)
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

func (b *beats) told(res tick.Result) {
	if b.tell == nil {
		return
	}
	lag := 0.0
	if res.Lag > lagFrom {
		lag = res.Lag.Seconds()
	}
	b.tell(map[string]float64{boot.DueLag: lag, boot.Recovered: float64(res.Recovered)})
}

// untilPhase is how long it is until a pass is to begin.
func (b *beats) untilPhase(now time.Time) time.Duration {
	at := now.Truncate(b.every).Add(b.phase)
	if at.Before(now) {
		at = at.Add(b.every)
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
