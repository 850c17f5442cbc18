package finish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// A waiting run is woken by a hint: an additional message of the run. A lost hint costs the run the time until its next check.

// wakeAtOnce is how many jobs a check wakes, and how many runs it reads in one request.
const wakeAtOnce = 500

// wakeEvery is the minimum interval between two wakes of an app by one process: an executor that comes and goes many times
// a minute makes few hints.
const wakeEvery = 10 * time.Second

// wakes has when each app was last woken, or will be. It forgets apps beyond maxWakes.
type wakes struct {
	mu   sync.Mutex
	last map[string]time.Time
}

const maxWakes = 10_000

// next returns when to wake an app; false: a wake is already requested for a later time.
func (w *wakes) next(app string, now time.Time) (at time.Time, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.last[app]
	if last.After(now) && last.Before(now.Add(2*wakeEvery)) { // else a clock was set
		return last, false
	}
	if at = now; now.Sub(last) < wakeEvery {
		at = last.Add(wakeEvery)
	}
	if len(w.last) >= maxWakes || w.last == nil {
		w.last = map[string]time.Time{}
	}
	w.last[app] = at
	return at, true
}

// WakeApp asks for hints at the waiting runs of an app, because something changed: an executor has registered, or a user
// changed the settings of the app.
func (f *Finish) WakeApp(ctx context.Context, app string) {
	if at, is := f.wakes.next(app, f.o.Now()); is {
		f.ask(ctx, at, &ring.Check{App: app})
	}
}

// WakeJobs asks for hints at the waiting runs of jobs, which a user changed.
func (f *Finish) WakeJobs(ctx context.Context, jobs ...core.JobID) {
	for len(jobs) > 0 {
		n := min(len(jobs), ring.MaxJobs)
		f.ask(ctx, f.o.Now(), &ring.Check{Jobs: jobs[:n]})
		jobs = jobs[n:]
	}
}

func (f *Finish) ask(ctx context.Context, at time.Time, c *ring.Check) {
	if err := f.request(ctx, at, c); err != nil {
		f.o.Log.Warn("waiting runs not woken: they are sent at their next check", "app", c.App, "jobs", len(c.Jobs), "err", err)
	}
}

func (f *Finish) request(ctx context.Context, at time.Time, c *ring.Check) error {
	return f.s.Queue.Enqueue(ctx, []ring.Out{{NotBefore: at, Message: ring.Message{Kind: ring.KindCheck, Slot: core.InstantOf(at),
		Check: c}}})[0]
}

// wakeAll hints at the waiting runs of the jobs that a check names, or of the next jobs of its app.
func (f *Finish) wakeAll(ctx context.Context, c *ring.Check) error {
	ids, next := c.Jobs, core.JobID(0)
	if c.App != "" {
		jobs, after, err := f.s.Jobs.List(ctx, c.App, c.After, wakeAtOnce)
		if err != nil {
			return fmt.Errorf("list jobs of app %s: %w", c.App, err)
		}
		for i := range jobs {
			ids = append(ids, jobs[i].Is.Def.ID)
		}
		next = after
	}
	errs := make([]error, len(ids))
	store.AtOnce(len(ids), func(i int) { errs[i] = f.wakeJob(ctx, ids[i]) })
	if err := errors.Join(errs...); errors.Is(err, core.ErrThrottled) {
		return fmt.Errorf("wake waiting runs: %w", err)
	} else if err != nil {
		f.o.Log.Warn("waiting runs not woken: they are sent at their next check", "app", c.App, "jobs", len(ids), "err", err)
	}
	if next == 0 {
		return nil
	}
	return f.request(ctx, f.o.Now(), &ring.Check{App: c.App, After: next})
}

func (f *Finish) wakeJob(ctx context.Context, job core.JobID) error {
	for below := core.NumberedRun(job, core.MaxNumber) + 1; ; {
		runs, err := f.s.WaitingRuns(ctx, job, below, wakeAtOnce)
		if err = cmp.Or(err, f.hint(ctx, runs)); err != nil || len(runs) < wakeAtOnce {
			return err
		}
		below = runs[len(runs)-1].ID
	}
}

// wake hints at the runs that hold a permit now.
func (f *Finish) wake(ctx context.Context, next []core.RunID) {
	if len(next) == 0 {
		return
	}
	found, err := f.lastAttempts(ctx, next)
	if err != nil {
		return
	}
	var runs []core.Run
	for _, first := range next {
		if r := found[first]; r.Is != nil && r.Err == nil {
			runs = append(runs, *r.Is)
		}
	}
	_ = f.hint(ctx, runs)
}

// hint enqueues additional messages of the runs that are queued, grouped by due time.
func (f *Finish) hint(ctx context.Context, runs []core.Run) error {
	var fires []core.Fire
	for i := range runs {
		if runs[i].State == core.Queued {
			fires = append(fires, runs[i].Fire())
		}
	}
	out := plan.Pack(fires, ring.MaxFires, nil)
	for i := range out {
		out[i].NotBefore, out[i].Message.Try, out[i].Message.Hint = f.o.Now(), 1, true
	}
	if len(out) == 0 {
		return nil
	}
	return errors.Join(f.s.Queue.Enqueue(ctx, out)...)
}
