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
	"github.com/tickring/tickring/core/ring"
)

// A Store has the data to compare, and the recorded losses.
type Store interface {
	Index
	Records
	Notes
	Ring
}

// Ring reports the state of the delay queue.
type Ring interface {
	// OldestMessage returns the backlog of the delay queue, or an upper limit of it.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}

// Index has the due index and the jobs that Sample reads. tick.Jobs documents its methods.
type Index interface {
	Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error)
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
}

// Records has the runs and skips of scheduled times.
type Records interface {
	// RunsByID reads at most limit stored runs with IDs from first to last, in ascending order. If first is greater than last,
	// the IDs are from last to first, in descending order.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// Skips reads the skips of a job whose time range overlaps the given range.
	Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error)
	// Cleaned returns the scheduled time up to which a clean-up may have deleted planned runs of a job; 0: no runs were
	// deleted.
	Cleaned(ctx context.Context, job core.JobID) (core.Instant, error)
	// Apps reads apps by name, with their pauses.
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
}

// Notes stores the global item, which has the recorded losses.
type Notes interface {
	// Global reads the global item with a strongly consistent read.
	Global(ctx context.Context) (core.Global, error)
	// PutGlobal replaces the global item, on the condition that the stored Rev equals seen. The new Rev must be higher.
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
}

// Options of a Finder. A field with its zero value gets the default in its comment.
type Options struct {
	// After is how long after its due time a run must be stored. 0: nothing is compared. Use 0 for stores that cannot lose a
	// message but keep its runs.
	After time.Duration
	// Together is the number of jobs compared in parallel.
	Together int // default: 16
	// HealEvery is the minimum interval between two scans of all jobs for lost runs.
	HealEvery time.Duration // default: 15 min
	// Now, Plan and Log have the values of the ticker's options.
	Now  func() time.Time
	Plan plan.Options
	Log  *slog.Logger
}

type Finder struct {
	store Store
	o     Options
}

func New(store Store, o Options) *Finder {
	o.Together = cmp.Or(o.Together, 16)
	o.HealEvery = cmp.Or(o.HealEvery, 15*time.Minute)
	return &Finder{store, o}
}

// Note records in the global item that the delay queue lost the run of a scheduled time. If lost is 0, it does nothing. Call
// it before you send lost runs again, because no comparison can find the loss after the runs are stored.
func (f *Finder) Note(ctx context.Context, lost core.Instant) error {
	if lost == 0 {
		return nil
	}
	g, err := f.store.Global(ctx)
	if err != nil {
		return fmt.Errorf("note a loss: read global item: %w", err)
	}
	next := g
	if next.Loss = f.noted(g.Loss, lost); next.Loss == g.Loss {
		return nil
	}
	next.Rev = max(g.Rev+1, f.o.Now().UnixMilli())
	if err := f.store.PutGlobal(ctx, g.Rev, next); err != nil {
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
