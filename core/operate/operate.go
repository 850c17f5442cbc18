// Package operate implements operations on runs: trigger, change, cancel, kill, rerun and clean up. The package also sends
// lost runs and dead-letter messages again.
package operate

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/store"
)

// Operate performs operations on runs. Operate has no goroutines and no state, so any number of Operates can share a store.
type Operate struct {
	store  *store.Store
	finish *finish.Finish
	killer Killer
	ask    *query.Queries
	counts Reports
	plans  plan.Options
}

// New returns an Operate. The parameter counts may be nil if Clean is never called.
func New(s *store.Store, f *finish.Finish, killer Killer, q *query.Queries, counts Reports, plans plan.Options) *Operate {
	return &Operate{store: s, finish: f, killer: killer, ask: q, counts: counts, plans: plans}
}

// A TriggerRequest asks for one run of a job, on behalf of a user or an API client.
type TriggerRequest struct {
	Job       string     // app/name or number
	Cause     core.Cause // core.CauseManual (default) or core.CauseAPI
	Params    *string    // params that replace the job's params; nil: the job's params
	Addresses []string   // addresses that replace the app's executors; empty: the app's executors
	At        *time.Time // due time; nil: the current time
	// Key makes the request idempotent. A repeated request with the key returns the first run, until a day after the end of the
	// run. A request with the key and different params, addresses or retries is rejected. Empty: each request creates a run.
	Key     string
	Retries *int // maximum number of retries after the first attempt; nil: the job's retry.max
}

type TriggerResult struct {
	Run      core.Run
	Existing bool // whether an earlier request with the key created Run
	Waiting  bool // whether Run is due later and not sent
}

// A TriggerChange is a change of a waiting trigger. Fields that are nil do not change.
type TriggerChange struct {
	At        *time.Time
	Params    *string
	Addresses *[]string // addresses; an empty list means the app's executors
	// Direct reports why the caller may not send runs of an app to an address of the caller's choice; nil: the caller may.
	// Direct is called if new params are set and the trigger has its own addresses. A nil Direct allows everything.
	Direct func(app string) error
}

type StopResult struct {
	Changed   bool
	Job       core.JobID
	Cancelled []core.RunID // runs that were not sent; they are skipped with the reason cancelled
	Killed    []core.RunID // runs that were sent; they end when their executor reports the end
	Sent      []KillAnswer
	// Partial reports whether the job has more open runs than one kill covers: the oldest 10,000. Repeat the kill after these
	// runs have ended.
	Partial bool
	Next    string // value of the parameter after for the next page; empty: every address received the kill request
}

// A KillAnswer is the response of an executor's address to a kill request. A nil error does not prove that the run has ended.
type KillAnswer struct {
	Address string
	Err     error
}

// Reports returns the progress of the reports.
type Reports interface {
	// Counted returns a time. Runs that ended earlier are finally counted in the reports.
	Counted(ctx context.Context) (core.Instant, error)
}

// A Killer asks executors to end runs.
type Killer interface {
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
}
