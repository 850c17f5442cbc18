package tick

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tickring/tickring/store"
)

// Invoked returns o with the defaults of a ticker that lives for one function invocation. Such a ticker shares the partitions
// with the tickers of other invocations.
func Invoked(o Options) Options {
	o.PassFor = cmp.Or(o.PassFor, time.Second)
	o.Loss.After = cmp.Or(o.Loss.After, 2*time.Minute)
	return o
}

// A Wake is the data that one tick, an invocation of the planner, passes to another tick that it invokes. A Wake is zero if
// the clock started the tick.
type Wake struct {
	Round time.Time // when the clock started the first tick of the round
	Skip  int       // number of free partitions that the woken tick leaves to other ticks
}

// An Invocation configures one invocation of a tick. A field with its zero value gets the default in its comment.
type Invocation struct {
	Wake Wake
	// Another invokes a tick for partitions that no ticker has checked. Only a tick that the clock started calls it. nil: no
	// tick can be invoked.
	Another   func(ctx context.Context, w Wake) error
	WakeEvery time.Duration // minimum interval between wake-ups of other ticks; default: 5 s
	MaxWoken  int           // maximum number of ticks to wake at a time; default: 32
	// Minutely are tasks that only a tick started by the clock runs.
	Minutely []Task
	Every    time.Duration // interval between passes; default: 1 s
	Reserve  time.Duration // how long before the context's deadline the passes end; default: 10 s
	// Tell is called after each pass with its lag and its number of recovered runs; 0 means no problem. The function must not block.
	// nil: no call.
	Tell func(lag time.Duration, recovered int)
}

// A Task runs once in an invocation, in parallel with the passes.
type Task struct {
	Name string
	Do   func(context.Context) error
}

// A Beats runs one invocation of a tick. It makes a planner pass every Invocation.Every, until a pass finds nothing to plan
// and no partition is unchecked, or the deadline of the context is near. In a tick that the clock started, the tasks of
// Invocation.Minutely run in parallel with the passes. If there is one partition and nothing is due, such a tick makes no
// pass.
type Beats struct {
	idle    func(ctx context.Context, within time.Duration) bool
	pass    func(context.Context) (Result, error)
	release func(context.Context) error
	sample  Task // once a minute too
	o       Invocation
	clock   bool // the clock started it, not another tick
	now     func() time.Time
	woken   time.Time // when others were last woken
	// phase is where in a second a pass begins; 0: anywhere. A queue delays by whole seconds: messages enqueued late in
	// a second arrive just before their due time and are held only briefly.
	phase time.Duration
	log   *slog.Logger
}

// Beats returns a Beats that runs one invocation of t.
func (t *Ticker) Beats(o Invocation) *Beats {
	o.Every = cmp.Or(o.Every, time.Second)
	o.Reserve = cmp.Or(o.Reserve, 10*time.Second)
	o.WakeEvery = cmp.Or(o.WakeEvery, 5*time.Second)
	o.MaxWoken = cmp.Or(o.MaxWoken, 32)
	b := &Beats{idle: t.idle, pass: t.Pass, release: t.Release, sample: Task{"sample", t.loss.Sample}, o: o, now: t.o.Now,
		phase: t.o.Plan.LeadTime.Phase(), log: t.o.Log}
	b.clock = o.Wake == Wake{}
	if b.clock {
		b.o.Wake.Round = t.o.Now().UTC().Truncate(time.Millisecond)
	}
	t.join(b.o.Wake.Round, b.o.Wake.Skip)
	return b
}

// Run makes passes until there is nothing to plan or the deadline is near. Then it releases the leases, so that the next round
// can start before the tasks end. Run returns an error if a task or the last pass failed.
func (b *Beats) Run(ctx context.Context) error {
	work, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		work, cancel = context.WithDeadline(ctx, end.Add(-b.o.Reserve))
	}
	defer cancel()
	var beside sync.WaitGroup
	var tasks []Task
	if b.clock {
		tasks = b.o.Minutely
		if b.sample.Do != nil {
			tasks = append(tasks[:len(tasks):len(tasks)], b.sample)
		}
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
	if err := b.release(ctx); err != nil {
		b.log.Warn("leases were not given back: they run out", "err", err)
	}
	beside.Wait()
	return errors.Join(append(errs, last)...)
}

func (b *Beats) passes(ctx context.Context) error {
	var before error
	if b.clock && b.idle != nil && b.idle(ctx, b.o.Every) {
		return nil
	}
	if b.phase > 0 && !lasts(ctx, b.untilPhase(time.Now())) {
		return ctx.Err()
	}
	for n := 1; ; n++ {
		began := time.Now()
		res, err := b.pass(ctx)
		if err != nil && ctx.Err() != nil && n > 1 && before == nil {
			return nil // something is always due, and the deadline interrupted this pass
		}
		before = err
		if err == nil || res.Lag > 0 {
			b.report(res) // unreadable items count as lag too
		}
		if err != nil {
			b.log.Error("pass failed", "pass", n, "err", err)
		} else {
			b.log.Debug("pass", "pass", n, "due", res.Due, "fires", res.Fires, "moved", res.Moved, "skipped", res.Skipped, "took", time.Since(began))
		}
		b.wake(ctx, res)
		if err == nil && res.Due == 0 && !res.Behind {
			if res.Unseen == 0 {
				return nil
			}
			if len(res.Held) > 0 {
				continue // nothing was enqueued, so the phase does not matter
			}
		}
		rest := b.o.Every - min(time.Since(began), b.o.Every)
		if b.phase > 0 {
			now := time.Now()
			from := now
			if !from.After(began) {
				from = began.Add(1) // not this beat again
			}
			rest = from.Sub(now) + b.untilPhase(from)
		}
		if !lasts(ctx, rest) {
			return err
		}
	}
}

// wake invokes other ticks for the partitions without a ticker, some for each. This tick continues and wakes more
// later, since invocations may fail to start.
func (b *Beats) wake(ctx context.Context, res Result) {
	now := b.now()
	if !b.clock || b.o.Another == nil || res.Unseen == 0 || !b.woken.IsZero() && now.Sub(b.woken) < b.o.WakeEvery {
		return
	}
	b.woken = now
	each := max(len(res.Held), 1)
	var all sync.WaitGroup
	for i := range min((res.Unseen+each-1)/each, b.o.MaxWoken) {
		all.Go(func() {
			if err := b.o.Another(ctx, Wake{Round: b.o.Wake.Round, Skip: (i + 1) * each}); err != nil {
				b.log.Warn("no further tick could be invoked: this one goes on alone", "err", err)
			}
		})
	}
	all.Wait()
}

// lagFrom is the lag that is reported: two wake-ups can be 119 s apart, and items due just after the first are planned
// by the second.
const lagFrom = 2 * time.Minute

// uncomparedFrom is the wait for a comparison that counts as lag: a message that failed once causes a wait of some
// minutes.
const uncomparedFrom = 30 * time.Minute

func (b *Beats) report(res Result) {
	if b.o.Tell == nil {
		return
	}
	lag := res.Lag
	if lag <= lagFrom {
		lag = 0
	}
	if res.Uncompared > uncomparedFrom {
		lag = max(lag, res.Uncompared)
	}
	b.o.Tell(lag, res.Recovered)
}

// untilPhase returns the time until the next pass.
func (b *Beats) untilPhase(now time.Time) time.Duration {
	at := now.Truncate(b.o.Every).Add(b.phase)
	if !at.After(now) { // a pass that took no time is not repeated at once
		at = at.Add(b.o.Every)
	}
	return at.Sub(now)
}

// lasts waits for d and reports whether ctx lasted that long.
func lasts(ctx context.Context, d time.Duration) bool {
	slept := store.Sleep(ctx, d)
	end, ok := ctx.Deadline()
	return slept && ctx.Err() == nil && (!ok || time.Now().Before(end))
}
