package core

import (
	"cmp"
	"slices"
	"time"
)

// Misfire says what becomes of a late fire.
type Misfire string

const (
	MisfireLatest Misfire = "latest" // sent if the job's next instant after it is still to come
	MisfireAll    Misfire = "all"    // sent
	MisfireSkip   Misfire = "skip"   // skipped
)

// Route says which of an app's executors a run goes to.
type Route string

const (
	RouteFirst     Route = "first"
	RouteLast      Route = "last"
	RouteRound     Route = "round"
	RouteRandom    Route = "random"
	RouteHash      Route = "hash"
	RouteLFU       Route = "lfu"
	RouteLRU       Route = "lru"
	RouteFailover  Route = "failover"
	RouteBusyover  Route = "busyover"
	RouteBroadcast Route = "broadcast"
)

// BroadcastFail says when a broadcast has failed: where any of its shards did not succeed, or
// where all failed.
type BroadcastFail string

const (
	BroadcastFailAny BroadcastFail = "any"
	BroadcastFailAll BroadcastFail = "all"
)

// Block says what an xxl-job executor does with a second run of a job.
type Block string

const (
	BlockSerial       Block = "serial"
	BlockDiscardLater Block = "discard-later"
	BlockCoverEarly   Block = "cover-early"
)

// Full says what becomes of a run that finds no permit.
type Full string

const (
	FullQueue   Full = "queue"
	FullSkip    Full = "skip"
	FullReplace Full = "replace" // it goes in the place of the one that has been at work longest
)

// Overlap bounds how many runs are at work at once, wherever: of a job, or of all jobs
// that name the group. The zero value is no bound.
type Overlap struct {
	Limit int    `json:"limit,omitempty"`
	Group string `json:"group,omitempty"`
	Full  Full   `json:"full,omitempty"`
	Max   int    `json:"max,omitempty"` // of those that wait
	// Key points into a run's params: the limit holds for each value that is there.
	Key string `json:"key,omitempty"`
}

// Limits bound what of all runs of an app is at work at once, and is begun in a second.
type Limits struct {
	InFlight  int `json:"inFlight,omitempty"` // 0: MaxLimit
	PerSecond int `json:"perSecond,omitempty"`
}

// Overlap is a limit as if it were that of a job.
func (l Limits) Overlap() Overlap {
	if l == (Limits{}) {
		return Overlap{}
	}
	return Overlap{Limit: cmp.Or(l.InFlight, MaxLimit), Full: FullQueue, Max: MaxQueue}
}

// Backoff says how the delay between attempts grows.
type Backoff string

const (
	BackoffConstant    Backoff = "constant"
	BackoffExponential Backoff = "exponential" // doubled after each attempt
)

// The lists of what is allowed, in the order in which messages name them.
var (
	Misfires = []Misfire{MisfireLatest, MisfireAll, MisfireSkip}
	Routes   = []Route{RouteFirst, RouteLast, RouteRound, RouteRandom, RouteHash, RouteLFU, RouteLRU, RouteFailover, RouteBusyover,
		RouteBroadcast}
	BroadcastFails = []BroadcastFail{BroadcastFailAny, BroadcastFailAll}
	Fulls          = []Full{FullQueue, FullSkip, FullReplace}
	Blocks         = []Block{BlockSerial, BlockDiscardLater, BlockCoverEarly}
	Backoffs       = []Backoff{BackoffConstant, BackoffExponential}
	RetryOns       = []State{Failed, TimedOut, Lost}
)

// Retry says how often and when a failed run is tried again.
type Retry struct {
	Max      int           `json:"max"` // attempts after the first
	Delay    time.Duration `json:"delay"`
	Backoff  Backoff       `json:"backoff"`
	MaxDelay time.Duration `json:"maxDelay,omitempty"` // 0: no bound but a day
	On       []State       `json:"on"`                 // of failed, timed-out, lost
}

// Equal reports whether two say the same.
func (r Retry) Equal(o Retry) bool {
	return r.Max == o.Max && r.Delay == o.Delay && r.Backoff == o.Backoff && r.MaxDelay == o.MaxDelay && slices.Equal(r.On, o.On)
}

// After is the delay before the attempt that follows attempt n (from 1).
func (r Retry) After(n int) time.Duration {
	limit := 24 * time.Hour
	if r.MaxDelay > 0 {
		limit = min(limit, r.MaxDelay)
	}
	d := r.Delay
	if r.Backoff == BackoffExponential {
		for range n - 1 {
			if d >= limit {
				break
			}
			d *= 2
		}
	}
	return min(d, limit)
}

// KeepDays is how many days what a job left is kept when nobody says so, and what is
// left of a job that is gone. KeepForever, as the days of a Keep, is for ever: files and
// the API write 0, which in a stored job is one that does not say.
const (
	KeepDays    = 30
	KeepForever = -1
)

// KeepLog says of which ends the log of a run is kept.
type KeepLog string

const (
	KeepLogNever   KeepLog = "never"
	KeepLogFailure KeepLog = "on-failure" // failed, timed out or lost
	KeepLogAlways  KeepLog = "always"     // those that were killed and that succeeded too
)

// KeepLogs lists them all.
var KeepLogs = []KeepLog{KeepLogNever, KeepLogFailure, KeepLogAlways}

// Keep says how long runs are kept, and of which the log.
type Keep struct {
	Days int     `json:"days"`
	Log  KeepLog `json:"log,omitempty"` // empty: KeepLogFailure
}

// Kept is what jobs and runs say of their logs: nothing where that is the default.
func (k Keep) Kept() KeepLog {
	if k.Log == KeepLogFailure {
		return ""
	}
	return k.Log
}

// For is how long that is; for ever is longer than there are instants.
func (k Keep) For() time.Duration {
	switch {
	case k.Days < 0:
		return 200 * 365 * 24 * time.Hour
	case k.Days == 0:
		return KeepDays * 24 * time.Hour
	}
	return time.Duration(k.Days) * 24 * time.Hour
}
