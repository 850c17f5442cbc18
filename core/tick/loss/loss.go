// Package loss finds what the ring has lost: instants that the schedule of a job
// demanded and that have neither a run nor a record. It compares what a store says
// with what was demanded, when a job is planned (Find) and between (Sample), and
// notes a loss in the global item, from which operate.Heal takes its walk. It puts
// nothing on the ring.
package loss

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

// Store is what is compared, and where a loss is noted.
type Store interface {
	Index
	Records
	Notes
	Ring
}

// Ring says what is on its way.
type Ring interface {
	// OldestMessage says how far the ring is behind, or more.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}

// Index is where a sample is taken from; tick.Jobs says what its methods promise.
type Index interface {
	Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error)
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
}

// Records say what became of an instant.
type Records interface {
	// RunSpan reads the stored runs with first <= ID <= last in that order, or
	// with last < first downwards from first to last.
	RunSpan(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// Skips reads the skipped records of a job that reach into the span.
	Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error)
	// Cleaned reads the instant up to which planned runs of a job may have been removed by a clean-up; 0: none was.
	Cleaned(ctx context.Context, job core.JobID) (core.Instant, error)
	// Apps reads apps, which keep their pauses.
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
}

// Notes is the item that concerns everything.
type Notes interface {
	// Global reads it strongly.
	Global(ctx context.Context) (core.Global, error)
	// PutGlobal replaces it; condition: its Rev is seen. The new Rev must be higher.
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
}

// Options of a Finder. The zero value of a field means its default.
type Options struct {
	// After is how long after its slot an instant must have a run. 0: nothing is ever
	// compared, which is right where a message cannot be lost without the runs.
	After time.Duration
	// Together is how many jobs are compared at a time.
	Together int // 16
	// HealEvery is how long after one walk over all jobs, begun because the ring lost
	// something, the next may begin.
	HealEvery time.Duration // 15 min
	// Now, Plan and Log are those of the ticker.
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

// Note stores that the ring lost what was due at an instant; 0 is none. It is to be
// stored before any of it is sent again: what was sent has a run soon, and nobody
// finds it a second time.
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

// Begun is l with the walk begun that had to wait for the one before.
func (f *Finder) Begun(l core.Loss) core.Loss { return f.noted(l, 0) }

// noted adds to what is stored of losses one that was found; 0 is none. A walk may
// have passed what was lost since it was asked for, so another is to follow it.
func (f *Finder) noted(l core.Loss, lost core.Instant) core.Loss {
	if lost != 0 {
		// What was lost with it may be as old as what a fire waits on the ring.
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

// Earlier is the first of two instants; 0 is none.
func Earlier(a, b core.Instant) core.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
