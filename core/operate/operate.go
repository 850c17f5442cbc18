// Package operate acts on runs: it triggers, changes, cancels, kills and cleans them up. It also
// sends lost and dead-letter messages again.
package operate

import (
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
)

// Operate acts on runs. It has no loop and no state, so any number of them can share a store.
type Operate struct {
	store  Store
	ring   Ring
	finish Finisher
	killer Killer
	ask    *query.Queries
	counts Reports
	plans  plan.Options
}

// New returns an Operate; counts may be nil if Clean is never called.
func New(store Store, ring Ring, f Finisher, killer Killer, q *query.Queries, counts Reports, plans plan.Options) *Operate {
	return &Operate{store: store, ring: ring, finish: f, killer: killer, ask: q, counts: counts, plans: plans}
}

// A TriggerRequest asks for one run by hand or by API.
type TriggerRequest struct {
	Job       string     // app/name or number
	Cause     core.Cause // manual (if empty) or api
	Params    *string    // instead of the job's params
	Addresses []string   // instead of the app's executors
	At        *time.Time // due time; nil is now
	// Key identifies the run: a repeated request with the key returns the same run, until a day after the run has ended. A
	// request with other params, addresses or retries is rejected.
	Key     string
	Retries *int // instead of the job's retry.max
}

type TriggerResult struct {
	Run      core.Run
	Existing bool // Run is the run that an earlier request with the key created
	Waiting  bool // not sent yet: it is due later
}

// A TriggerChange is the change of a waiting trigger; nil fields stay.
type TriggerChange struct {
	At        *time.Time
	Params    *string
	Addresses *[]string // empty: the app's executors
	// Direct is as in RerunRequest. It is checked before new params go to a given address.
	Direct func(app string) error
}

type StopResult struct {
	Changed   bool
	Job       core.JobID
	Cancelled []core.RunID // not sent, now skipped with reason cancelled
	Killed    []core.RunID // marked as killed; they end when their executor reports it
	Sent      []KillAnswer
	// Partial means that more runs are open than the oldest 10,000, which one kill covers. Repeat
	// the kill when these have ended.
	Partial bool
	Next    string // After of the next page of a kill; empty: all addresses got the kill
}

// A KillAnswer is the answer of an address to a kill. A nil error does not prove that the run
// ended.
type KillAnswer struct {
	Address string
	Err     error
}
