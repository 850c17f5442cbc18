package core

import (
	"cmp"
	"slices"
	"time"
)

// Misfire is the policy for a late scheduled run.
type Misfire string

const (
	MisfireLatest Misfire = "latest" // sent if the job's next scheduled time is in the future
	MisfireAll    Misfire = "all"    // sent
	MisfireSkip   Misfire = "skip"   // skipped
)

// Route is the rule that chooses the executor of a run.
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

// BroadcastFail decides when a broadcast fails: if any shard did not succeed, or only if all
// shards failed.
type BroadcastFail string

const (
	BroadcastFailAny BroadcastFail = "any"
	BroadcastFailAll BroadcastFail = "all"
)

// Block is how an xxl-job executor handles a second run of a job.
type Block string

const (
	BlockSerial       Block = "serial"
	BlockDiscardLater Block = "discard-later"
	BlockCoverEarly   Block = "cover-early"
)

// Full is the action for a run when the limit has no free slot.
type Full string

const (
	FullQueue   Full = "queue"
	FullSkip    Full = "skip"
	FullReplace Full = "replace" // replaces the run that has been running longest
)

// Overlap limits how many runs of a job, or of all jobs in Group, run at once on all executors together. The zero value
// means no limit.
type Overlap struct {
	Limit int    `json:"limit,omitempty"`
	Group string `json:"group,omitempty"`
	Full  Full   `json:"full,omitempty"`
	Max   int    `json:"max,omitempty"` // longest queue of waiting runs
	// Key is a JSON pointer into a run's params: each value there has its own limit.
	Key string `json:"key,omitempty"`
}

// Limits bound all runs of an app together: how many run at once, and how many start in a second.
type Limits struct {
	InFlight  int `json:"inFlight,omitempty"` // 0: MaxLimit
	PerSecond int `json:"perSecond,omitempty"`
}

// Overlap returns the limits in the form of a job's limit.
func (l Limits) Overlap() Overlap {
	if l == (Limits{}) {
		return Overlap{}
	}
	return Overlap{Limit: cmp.Or(l.InFlight, MaxLimit), Full: FullQueue, Max: MaxQueue}
}

// Backoff is the rule by which the delay between attempts grows.
type Backoff string

const (
	BackoffConstant    Backoff = "constant"
	BackoffExponential Backoff = "exponential" // doubled after each attempt
)

// The allowed values, in the order in which messages list them.
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

// Event is the kind of a notification.
type Event string

const (
	EventFailed     Event = "failed"      // or timed out; no attempt follows
	EventLost       Event = "lost"        // no attempt follows
	EventNoExecutor Event = "no-executor" // no executor was available; no attempt follows
	EventRecovered  Event = "recovered"   // a success after one of these three
	EventSkipped    Event = "skipped"     // not by a user's action
	EventLate       Event = "late"
	EventSlow       Event = "slow"      // running for longer than Notify.Slow
	EventPaused     Event = "paused"    // through its pauseAfter
	EventUnplanned  Event = "unplanned" // the job could not be planned
	EventDeadLetter Event = "dead-letter"
	EventOverdue    Event = "overdue"
	EventMute       Event = "mute" // a channel rejected a notification: reported by the other channels, and not configurable
)

// Events are the configurable events of a job, in the order in which messages list them.
// EventsNotYet are values of the manifest that have no effect.
var (
	Events = []Event{EventFailed, EventLost, EventNoExecutor, EventRecovered, EventSkipped, EventLate, EventSlow, EventPaused,
		EventUnplanned, EventDeadLetter, EventOverdue}
	EventsNotYet = []Event{"calendar-end"}
)

// eventsIfUnsaid is the default of Notify.On: the events that need a user's attention.
// Notify.Includes adds late and slow if their limits are set.
var eventsIfUnsaid = []Event{EventFailed, EventLost, EventNoExecutor, EventRecovered, EventPaused, EventUnplanned, EventDeadLetter,
	EventOverdue}

// Notify configures a job's notifications. The app's value fills each field that the job leaves
// empty.
type Notify struct {
	To      []string      `json:"to,omitempty"` // channels; empty: no notifications
	On      []Event       `json:"on,omitempty"`
	Late    time.Duration `json:"late,omitempty"`  // delay after the due time; 0: the job's grace
	Slow    time.Duration `json:"slow,omitempty"`  // running time since the send
	Quiet   time.Duration `json:"quiet,omitempty"` // minimum time between two notifications for an event; 0: QuietIfUnsaid
	Overdue Overdue       `json:"overdue,omitzero"`
}

// Overdue sets when a job must have succeeded: each day by a time in its zone, or within a
// duration after its last success. Only one field is set.
type Overdue struct {
	By     string        `json:"by,omitempty"` // 15:04
	Within time.Duration `json:"within,omitempty"`
}

// QuietIfUnsaid is the default of Notify.Quiet.
const QuietIfUnsaid = time.Hour

// Over returns n with its empty fields filled from o.
func (n Notify) Over(o Notify) Notify {
	if len(n.To) == 0 {
		n.To = o.To
	}
	if len(n.On) == 0 {
		n.On = o.On
	}
	n.Late, n.Slow, n.Quiet = cmp.Or(n.Late, o.Late), cmp.Or(n.Slow, o.Slow), cmp.Or(n.Quiet, o.Quiet)
	n.Overdue = cmp.Or(n.Overdue, o.Overdue)
	return n
}

// Includes reports whether an event causes a notification; false for a nil n. EventSlow and EventOverdue need their limits
// to be set.
func (n *Notify) Includes(e Event) bool {
	switch {
	case n == nil, len(n.To) == 0, e == EventSlow && n.Slow == 0, e == EventOverdue && n.Overdue == Overdue{}:
		return false
	case len(n.On) == 0:
		return slices.Contains(eventsIfUnsaid, e) || e == EventLate && n.Late > 0 || e == EventSlow
	}
	return slices.Contains(n.On, e)
}

// EventRule returns the notification settings of a job, with its app's settings as defaults. If job is nil, because the
// event has no readable job, the global settings replace the job's.
func EventRule(job *Job, app *App, g *Global) (n Notify) {
	if n = g.Notify; job != nil {
		n = job.Def.Notify
	}
	if app != nil {
		n = n.Over(app.Notify)
	}
	n.Quiet = cmp.Or(n.Quiet, QuietIfUnsaid)
	return n
}

// EndEvent returns the event for the end of a run. It is empty if the end needs no
// notification, such as a user's action.
func EndEvent(r *Run) Event {
	switch {
	case r.Then != 0 || r.Shard.Of != 0:
		return ""
	case r.State == Lost:
		return EventLost
	case r.State == Failed && r.Reason == ReasonNoExecutor:
		return EventNoExecutor
	case r.State.Failure():
		return EventFailed
	case r.State == Skipped && SkipTold(r.Reason):
		return SkipEvent(r.Attempt)
	}
	return ""
}

// SkipEvent returns the event for a skipped attempt. A skipped retry ends a failed chain, so its event is EventFailed.
func SkipEvent(attempt int) Event {
	if attempt > 1 {
		return EventFailed
	}
	return EventSkipped
}

// SkipTold reports whether a skip for this reason can cause a notification. A skip by a user's action causes none.
func SkipTold(reason Reason) bool {
	switch reason {
	case ReasonMisfire, ReasonDeadline, ReasonOverlap, ReasonQueueFull, ReasonJoin:
		return true
	}
	return false
}

// TellsEnd reports whether the end of a run can cause a notification.
func (n *Notify) TellsEnd() bool {
	return n.Includes(EventFailed) || n.Includes(EventLost) || n.Includes(EventNoExecutor) || n.Includes(EventSkipped) ||
		n.Includes(EventRecovered) ||
		n.Includes(EventPaused)
}

func (n Notify) Equal(o Notify) bool {
	return slices.Equal(n.To, o.To) && slices.Equal(n.On, o.On) && n.Late == o.Late && n.Slow == o.Slow && n.Quiet == o.Quiet &&
		n.Overdue == o.Overdue
}

func (n Notify) IsZero() bool { return n.Equal(Notify{}) }

// Clock returns the hour and minute of By; ok is false if By is not a time of day.
func (o Overdue) Clock() (hour, minute int, ok bool) {
	t, err := time.Parse("15:04", o.By)
	return t.Hour(), t.Minute(), err == nil && len(o.By) == len("15:04")
}

// Retry is the rule for repeating a failed run.
type Retry struct {
	Max      int           `json:"max"` // attempts after the first
	Delay    time.Duration `json:"delay"`
	Backoff  Backoff       `json:"backoff"`
	MaxDelay time.Duration `json:"maxDelay,omitempty"` // upper bound of the delay; 0: one day
	On       []State       `json:"on"`                 // subset of RetryOns
}

func (r Retry) Equal(o Retry) bool {
	return r.Max == o.Max && r.Delay == o.Delay && r.Backoff == o.Backoff && r.MaxDelay == o.MaxDelay && slices.Equal(r.On, o.On)
}

// After returns the delay before the attempt that follows attempt n, counted from 1.
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

// KeepDays is the default number of days to keep the runs of a job, and the traces of a deleted
// job. KeepForever in Keep.Days means no limit: manifests and the API write 0 for it, but 0 in a
// stored job means the default.
const (
	KeepDays    = 30
	KeepForever = -1
)

// KeepLog selects the ends of runs after which the log is kept.
type KeepLog string

const (
	KeepLogNever   KeepLog = "never"
	KeepLogFailure KeepLog = "on-failure" // failed, timed out or lost
	KeepLogAlways  KeepLog = "always"     // failed, timed out, lost, killed or succeeded
)

var KeepLogs = []KeepLog{KeepLogNever, KeepLogFailure, KeepLogAlways}

// Keep sets how long runs are kept, and for which runs the log.
type Keep struct {
	Days int     `json:"days"`
	Log  KeepLog `json:"log,omitempty"` // empty: KeepLogFailure
}

// Kept returns Log as jobs and runs store it: empty for the default.
func (k Keep) Kept() KeepLog {
	if k.Log == KeepLogFailure {
		return ""
	}
	return k.Log
}

// For returns how long runs are kept. KeepForever gives 200 years.
func (k Keep) For() time.Duration {
	switch {
	case k.Days < 0:
		return 200 * 365 * 24 * time.Hour
	case k.Days == 0:
		return KeepDays * 24 * time.Hour
	}
	return time.Duration(k.Days) * 24 * time.Hour
}
