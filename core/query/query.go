// Package query has the read-only queries about jobs, runs, future runs, changes and apps, and the audit.
package query

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

const (
	MaxPage     = 1000
	DefaultPage = 100
	MaxUpcoming = 366 * 24 * time.Hour
	// firstInstant is the earliest scheduled time that a run ID can hold.
	firstInstant = core.Instant(1577836800)
)

// Queries answers questions about jobs, runs, apps and changes from a store. Several Queries can share one store. The
// only state of a Queries is a cache of last runs and next scheduled times.
type Queries struct {
	store  *store.Store
	o      Options
	lately lately
	nexts  nexts
}

type Options struct {
	// Now returns the current time; nil: time.Now.
	Now func() time.Time
	// Reachable returns an error if this deployment cannot send to a valid executor address. A nil function allows
	// all valid addresses.
	Reachable func(address string) error
	// Expiry is how long an executor stays live after a heartbeat; 0: core.BeatExpiry.
	Expiry time.Duration
	// PageFor is how long a query over many jobs works on one page; 0: 10 s. The default keeps answers below the 29 s
	// limit of an AWS HTTP API, even if the last store calls are slow.
	PageFor time.Duration
	// Together is the number of jobs that a query over many jobs reads in parallel; 0: 16.
	Together int
	// KeepRuns is the retention of runs if the store ignores the retention.days of jobs; else 0.
	KeepRuns time.Duration
}

// patience is the time after which a run that is due but not sent counts as overdue.
const patience = 15 * time.Minute

func New(s *store.Store, o Options) *Queries {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Reachable == nil {
		o.Reachable = func(string) error { return nil }
	}
	o.Expiry = cmp.Or(o.Expiry, core.BeatExpiry)
	o.PageFor = cmp.Or(o.PageFor, 10*time.Second)
	o.Together = cmp.Or(o.Together, 16)
	return &Queries{store: s, o: o, lately: lately{turn: make(chan struct{}, 1)}}
}

// Now returns the current time of Options.Now.
func (q *Queries) Now() time.Time { return q.o.Now() }

// Stamp returns the current time of Options.Now in the form that is stored: in UTC and whole milliseconds.
func (q *Queries) Stamp() time.Time { return q.o.Now().UTC().Truncate(time.Millisecond) }

// PageFor returns Options.PageFor.
func (q *Queries) PageFor() time.Duration { return q.o.PageFor }

// Page begins a page, which ends after Options.PageFor.
func (q *Queries) Page() *budget.Page { return budget.NewPage(q.o.PageFor, q.o.Together) }

// Reachable returns an error if this deployment cannot send to the address. field is the name of the input field for
// the error.
func (q *Queries) Reachable(field, address string) error {
	if err := q.o.Reachable(address); err != nil {
		return &core.Error{Code: core.CodeRefused, Field: field, Value: address, Reason: core.Say("%v", err), Err: err}
	}
	return nil
}

// EachJob calls the function `do` for each job with an ID above the parameter after, until `do` returns false or the page
// p is over. If app is empty, EachJob includes the jobs of all apps. The result next is the ID after which the caller
// continues; 0 means the end. After an error, EachJob ends the page. It returns the error only if it has read no jobs
// before. Unreadable jobs are skipped and added to p.Bad. A job is not skipped if only its secrets cannot be decrypted.
// The function `do` must not change a job.
func (q *Queries) EachJob(
	ctx context.Context, app string, after core.JobID, p *budget.Page, do func(j *core.Job) bool,
) (next core.JobID, err error) {
	for begun := after; ; {
		list, next, err := q.store.Jobs.List(ctx, app, after, budget.AtOnce)
		switch {
		case err != nil && after != begun:
			return after, nil
		case err != nil:
			return 0, core.Retryable(err)
		}
		for _, g := range list {
			if why := g.Usable(); why != nil {
				p.Bad[g.Is.Def.ID] = why
				continue
			}
			if !do(g.Is) {
				return after, nil
			}
			if after = g.Is.Def.ID; p.Over() {
				return after, nil
			}
		}
		if after = next; next == 0 || p.Over() || len(p.Bad) >= budget.Missing {
			return next, nil
		}
	}
}

// KeptLog returns the kept log of a run; false if no log is kept.
func (q *Queries) KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error) {
	return q.store.KeptLog(ctx, run)
}

func limitOf(limit int) (int, error) {
	if limit < 0 || limit > MaxPage {
		return 0, core.Invalid("limit", strconv.Itoa(limit), "allowed values: 1 to %d", MaxPage)
	}
	return cmp.Or(limit, DefaultPage), nil
}

// checkPeriod checks the optional bounds of a period.
func checkPeriod(from, to time.Time) error {
	if !from.IsZero() && !to.IsZero() && from.After(to) {
		return core.Invalid("from", from.Format(time.RFC3339), "must be earlier than the end of the period (`to`), %s",
			to.Format(time.RFC3339))
	}
	return nil
}
