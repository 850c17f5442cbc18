// Package lossdetect finds runs that the delay queue lost. For a lost run, the job's schedule has a scheduled time without a
// run or a record. Find compares schedules and runs when a job is planned. Sample compares them for some jobs in the meantime.
// The package records a loss in the global item, which operate.Heal reads. The package enqueues nothing.
package lossdetect

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/store"
)

// Options of a Finder. A field with its zero value gets the default in its comment.
type Options struct {
	// After is how long after its due time a run must be stored. 0: nothing is compared. Use 0 for stores that cannot lose a
	// message but keep its runs.
	After time.Duration
	// HealEvery is the minimum interval between two scans of all jobs for lost runs.
	HealEvery time.Duration // default: 15 min
	// Now, Plan and Log have the values of the ticker's options.
	Now  func() time.Time
	Plan plan.Options
	Log  *slog.Logger
}

type Finder struct {
	s *store.Store
	o Options
}

func New(s *store.Store, o Options) *Finder {
	o.HealEvery = cmp.Or(o.HealEvery, 15*time.Minute)
	return &Finder{s, o}
}

// Note records in the global item that the delay queue lost the run of a scheduled time. If lost is 0, it does nothing. Call
// it before you send lost runs again, because no comparison can find the loss after the runs are stored.
func (f *Finder) Note(ctx context.Context, lost core.Instant) error {
	if lost == 0 {
		return nil
	}
	g, err := f.s.Global(ctx)
	if err != nil {
		return fmt.Errorf("note a loss: read global item: %w", err)
	}
	next := g
	if next.Loss = f.noted(g.Loss, lost); next.Loss == g.Loss {
		return nil
	}
	next.Rev = max(g.Rev+1, f.o.Now().UnixMilli())
	if err := f.s.PutGlobal(ctx, g.Rev, next); err != nil {
		return fmt.Errorf("note a loss: %w", err)
	}
	return nil
}

// Begun returns l with the pending scan started, if no scan is running and the last one is HealEvery ago.
func (f *Finder) Begun(l core.Loss) core.Loss { return f.noted(l, 0) }

// noted adds a loss to the stored ones; 0: none. A running scan may have passed the lost run already, so another scan
// follows it.
func (f *Finder) noted(l core.Loss, lost core.Instant) core.Loss {
	if lost != 0 {
		// Runs lost with it may be older, by as much as a message waits in the delay queue.
		from := core.InstantOf(lost.Time().Add(-f.o.Plan.MaxAhead))
		if asked := l.From != 0 && l.Next == "" && !lost.Time().After(l.At); !asked || from < l.From {
			l.Again = Earlier(l.Again, from)
		}
	}
	if now := f.o.Now(); l.From == 0 && l.Again != 0 && now.Sub(l.At) > f.o.HealEvery {
		l = core.Loss{From: l.Again, At: now.UTC().Truncate(time.Millisecond)}
	}
	return l
}

// Earlier returns the earlier of two times, where 0 means no time.
func Earlier(a, b core.Instant) core.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
