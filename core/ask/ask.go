// Package ask is the questions: what there is, what ran, what comes, why an instant
// has no run, and whether all of it adds up. It changes nothing: what it finds
// lost, package operate sends again.
package ask

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
)

// Ask answers questions on a store. It has no loop, and no state of its own but for what it
// knows lately of last runs and next instants, which any number of them may know.
type Ask struct {
	store  Store
	o      Options
	lately lately
	nexts  nexts
}

type Options struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Reachable says why nothing here can send to an address of an app or a
	// trigger, whatever its form; nil sends to all.
	Reachable func(address string) error
	// Expiry is how long a heartbeat counts; core.BeatExpiry if 0.
	Expiry time.Duration
	// Patience is how late a fire may be on its way before that is worth a
	// question: 15 min.
	Patience time.Duration
	// PageFor is after how long a question that walks over jobs ends its page: 10 s,
	// so that an answer comes within the 29 s that an HTTP API waits, however slow
	// the last calls of the store were.
	PageFor time.Duration
	// Together is how many jobs such a question looks at side by side: 16.
	Together int
	// Failed lists the jobs that may be failing, for pages; nil: the last runs of all jobs are read.
	Failed FailedJobs
	// KeepRuns is what the store's sweep is told in place of each job's
	// keep.days; 0 where it is told nothing.
	KeepRuns time.Duration
	// ByJournal says that the store lists the runs of several jobs by the journals that name them (engine.Engine).
	ByJournal bool
}

func New(store Store, o Options) *Ask {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reachable == nil {
		o.Reachable = func(string) error { return nil }
	}
	o.Expiry = cmp.Or(o.Expiry, core.BeatExpiry)
	o.Patience = cmp.Or(o.Patience, 15*time.Minute)
	o.PageFor = cmp.Or(o.PageFor, 10*time.Second)
	o.Together = cmp.Or(o.Together, 16)
	return &Ask{store: store, o: o, lately: lately{turn: make(chan struct{}, 1)}}
}

// Now is the clock.
func (q *Ask) Now() time.Time { return q.o.Now() }

// Stamp is the clock in what is stored: UTC, whole milliseconds.
func (q *Ask) Stamp() time.Time { return q.o.Now().UTC().Truncate(time.Millisecond) }

// PageFor is Options.PageFor.
func (q *Ask) PageFor() time.Duration { return q.o.PageFor }

// Page begins a page.
func (q *Ask) Page() *bound.Page { return bound.NewPage(q.o.PageFor, q.o.Together) }

// Reachable refuses an address that nothing here can send to.
func (q *Ask) Reachable(field, address string) error {
	if err := q.o.Reachable(address); err != nil {
		return &core.Error{Code: core.CodeRefused, Field: field, Value: address, Reason: core.Say("%v", err), Err: err}
	}
	return nil
}

// EachJob walks over the jobs of an app, or of all if it is empty, behind a number,
// until one is no longer to be in the page or that is over. It answers the number
// to go on behind; 0 is the end. What an error left undone is left to the next page, unless
// this one came to nothing. A job that cannot be read is passed over, and in p.Bad; one that only lacks its secrets is not. What do is
// given may be kept, and is not to be changed.
func (q *Ask) EachJob(
	ctx context.Context, app string, after core.JobID, p *bound.Page, do func(j *core.Job) bool,
) (next core.JobID, err error) {
	for begun := after; ; {
		jobs, next, err := q.store.ListJobs(ctx, app, after, bound.AtOnce)
		bad, err := core.Besides(err)
		switch {
		case err != nil && after != begun:
			return after, nil
		case err != nil:
			return 0, core.Passing(err)
		}
		if len(bad) > 0 {
			bad.Unlock(func(j *core.Job) { jobs = append(jobs, *j) })
			slices.SortFunc(jobs, func(a, b core.Job) int { return cmp.Compare(a.Def.ID, b.Def.ID) })
		}
		for id, why := range bad {
			p.Bad.Add(id, why)
		}
		for i := range jobs {
			if !do(&jobs[i]) {
				return after, nil
			}
			if after = jobs[i].Def.ID; p.Over() {
				return after, nil
			}
		}
		if after = next; next == 0 || p.Over() || len(p.Bad) >= bound.Missing {
			return next, nil
		}
	}
}

// KeptLog is what is kept of a run's log; false: nothing is.
func (q *Ask) KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error) {
	return q.store.KeptLog(ctx, run)
}
