// Package operate acts on runs: it triggers, changes, cancels and kills them, and
// puts on the ring again what is dead or was lost.
package operate

import (
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/plan"
)

// Operate acts on runs. It has no loop and no state of its own: any number of
// them may work on one store.
type Operate struct {
	store  Store
	ring   Ring
	finish Finisher
	killer Killer
	ask    *ask.Ask
	counts Reports
	plans  plan.Options
}

// New makes an Operate on a store; counts may be nil for who cleans nothing.
func New(store Store, ring Ring, f Finisher, killer Killer, q *ask.Ask, counts Reports, plans plan.Options) *Operate {
	return &Operate{store: store, ring: ring, finish: f, killer: killer, ask: q, counts: counts, plans: plans}
}

// TriggerRequest asks for one run by hand or by API.
type TriggerRequest struct {
	Job       string     // app/name or number
	Cause     core.Cause // manual (if empty) or api
	Params    *string    // in place of the job's
	Addresses []string   // in place of the app's executors
	At        *time.Time // later than now; nil is now
	// Key: the same key of a job answers the same run, until a day after it has
	// ended; with other params, addresses or retries it is refused.
	Key     string
	Retries *int // in place of the job's retry.max
}

type TriggerResult struct {
	Run      core.Run
	Existing bool // the key was used before: this is the run it made then
	Waiting  bool // it is not yet on its way: its time is to come
}

// TriggerChange is what a waiting trigger becomes; what is nil stays.
type TriggerChange struct {
	At        *time.Time
	Params    *string
	Addresses *[]string // of no address: the app's executors
	// Direct is that of a RerunRequest: it is asked before other params go to such an address.
	Direct func(app string) error
}

type StopResult struct {
	Changed   bool
	Job       core.JobID
	Cancelled []core.RunID // not sent yet, now skipped: cancelled
	Killed    []core.RunID // marked as killed; they end when their executor says so
	Sent      []KillAnswer
	// Partial says that more runs are open than one kill looks at, the oldest 10,000:
	// it is to be made again once these have ended.
	Partial bool
	Next    string // After of the next page of a kill; empty: all were told
}

// KillAnswer is what an address said to the kill. No error is no proof that
// the run ended.
type KillAnswer struct {
	Address string
	Err     error
}
