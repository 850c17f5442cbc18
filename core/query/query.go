// Package query has the read-only queries: jobs, runs, coming runs, why a scheduled time has no run, and the audit.
// Package operate sends lost runs again.
package query

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
)

// Queries read from a store. They have no loop. Their only state is caches of last runs and next scheduled times,
// so any number of Queries can run.
type Queries struct {
	store  Store
	o      Options
	lately lately
	nexts  nexts
}

type Options struct {
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// Reachable returns an error if this deployment cannot send to an address of an app or a trigger, even if the address is
	// well-formed. Nil allows all.
	Reachable func(address string) error
	// Expiry is how long an executor stays live after a heartbeat; core.BeatExpiry if 0.
	Expiry time.Duration
	// Patience is how late a run can be before it counts as overdue; default: 15 minutes.
	Patience time.Duration
	// PageFor is how long a query over many jobs works on one page. The default of 10 s keeps answers below the 29 s
	// limit of an HTTP API even if the last store calls are slow.
	PageFor time.Duration
	// Together is how many jobs such a query reads in parallel; default: 16.
	Together int
	// Failed lists the jobs that may be failing, for pages; nil: the last runs of all jobs are read.
	Failed FailedJobs
	// KeepRuns is the store's retention if it replaces each job's retention.days; else 0.
	KeepRuns time.Duration
	// ByJournal reports whether the store lists the runs of several jobs by the journals that name them (engine.Engine).
	ByJournal bool
}

func New(store Store, o Options) *Queries {
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
	return &Queries{store: store, o: o, lately: lately{turn: make(chan struct{}, 1)}}
}

// Now returns the time of the clock.
func (q *Queries) Now() time.Time { return q.o.Now() }

// Stamp returns the time of the clock as it is stored: in UTC and whole milliseconds.
func (q *Queries) Stamp() time.Time { return q.o.Now().UTC().Truncate(time.Millisecond) }

// PageFor returns Options.PageFor.
func (q *Queries) PageFor() time.Duration { return q.o.PageFor }

// Page begins a page.
func (q *Queries) Page() *budget.Page { return budget.NewPage(q.o.PageFor, q.o.Together) }

// Reachable returns an error for an address that this deployment cannot send to.
func (q *Queries) Reachable(field, address string) error {
	if err := q.o.Reachable(address); err != nil {
		return &core.Error{Code: core.CodeRefused, Field: field, Value: address, Reason: core.Say("%v", err), Err: err}
	}
	return nil
}

// EachJob calls do for jobs with numbers after the given one, until do returns false or the page is over. An empty
// app means all apps. It returns the number to continue after; 0 is the end. After an error it ends the page, and
// returns the error only if it made no progress. Unreadable jobs are skipped and added to p.Bad, except jobs that
// only lack their secrets. do can keep its job but must not change it.
func (q *Queries) EachJob(
	ctx context.Context, app string, after core.JobID, p *budget.Page, do func(j *core.Job) bool,
) (next core.JobID, err error) {
	for begun := after; ; {
		jobs, next, err := q.store.ListJobs(ctx, app, after, budget.AtOnce)
		bad, err := core.SplitUnreadable(err)
		switch {
		case err != nil && after != begun:
			return after, nil
		case err != nil:
			return 0, core.Retryable(err)
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
		if after = next; next == 0 || p.Over() || len(p.Bad) >= budget.Missing {
			return next, nil
		}
	}
}

// KeptLog returns the kept log of a run; false if there is none.
func (q *Queries) KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error) {
	return q.store.KeptLog(ctx, run)
}
