package core

import (
	"cmp"
	"slices"
	"time"
)

// Misfire is the policy for scheduled runs that are later than the job's grace.
type Misfire string

const (
	MisfireLatest Misfire = "latest" // a late run is sent only until the job's next scheduled time
	MisfireAll    Misfire = "all"    // late runs are sent
	MisfireSkip   Misfire = "skip"   // late runs are skipped
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

// Block is how an xxl-job executor handles a run while another run of the same job is running.
type Block string

const (
	BlockSerial       Block = "serial"
	BlockDiscardLater Block = "discard-later"
	BlockCoverEarly   Block = "cover-early"
)

// Full is the action for a run when its concurrency limit has no free slot.
type Full string

const (
	FullQueue   Full = "queue"
	FullSkip    Full = "skip"
	FullReplace Full = "replace" // the new run replaces the run that has been running longest
)

// Overlap limits how many runs of a job, or of all jobs in Group, run at once on all executors together. The zero value
// means no limit.
type Overlap struct {
	Limit int    `json:"limit,omitempty"`
	Group string `json:"group,omitempty"`
	Full  Full   `json:"full,omitempty"`
	Max   int    `json:"max,omitempty"` // maximum number of waiting runs
	// Key is a JSON pointer into the params of a run. Runs with different values at the pointer are limited
	// separately.
	Key string `json:"key,omitempty"`
}

// Limits are the limits over all runs of an app. The zero value means no limits.
type Limits struct {
	InFlight  int `json:"inFlight,omitempty"`  // maximum number of runs at once; 0: MaxLimit, if PerSecond is set
	PerSecond int `json:"perSecond,omitempty"` // maximum number of attempts that start in one second; 0: no limit
}

// Overlap returns the limit InFlight in the form of a job's concurrency limit.
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
	BackoffExponential Backoff = "exponential" // the delay doubles after each retry
)

// Allowed values of each type, in the order in which error messages list them.
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
	EventFailed     Event = "failed"      // a run failed or timed out, and no attempt follows
	EventLost       Event = "lost"        // a run was lost, and no attempt follows
	EventNoExecutor Event = "no-executor" // a run failed because no executor was available, and no attempt follows
	EventRecovered  Event = "recovered"   // a run succeeded after a failed, lost or no-executor event
	EventSkipped    Event = "skipped"     // a run was skipped, but not because of a user's action
	EventLate       Event = "late"
	EventSlow       Event = "slow"      // a run has been running for longer than Notify.Slow
	EventPaused     Event = "paused"    // the job was paused after consecutive failures (pauseAfter)
	EventUnplanned  Event = "unplanned" // the job could not be planned
	EventDeadLetter Event = "dead-letter"
	EventOverdue    Event = "overdue"
	EventMute       Event = "mute" // a channel rejected a notification; the other channels report this, and users cannot turn the event off
)

// Events lists the events that a job can select, in the order in which error messages list them. EventsNotYet lists
// events that are planned for a later version. Settings that select one of these events are rejected.
var (
	Events = []Event{EventFailed, EventLost, EventNoExecutor, EventRecovered, EventSkipped, EventLate, EventSlow, EventPaused,
		EventUnplanned, EventDeadLetter, EventOverdue}
	EventsNotYet = []Event{"calendar-end"}
)

// eventsIfUnsaid is the default of Notify.On: the events that need a user's attention.
// Notify.Includes adds late and slow if their limits are set.
var eventsIfUnsaid = []Event{EventFailed, EventLost, EventNoExecutor, EventRecovered, EventPaused, EventUnplanned, EventDeadLetter,
	EventOverdue}

// Notify configures the notifications of a job. For each field that the job leaves empty, the app's value applies.
type Notify struct {
	To      []string      `json:"to,omitempty"`    // names of channels; empty: no notifications
	On      []Event       `json:"on,omitempty"`    // events that cause a notification; empty: the default events
	Late    time.Duration `json:"late,omitempty"`  // delay after the due time that causes EventLate; 0: the job's grace
	Slow    time.Duration `json:"slow,omitempty"`  // running time since the send that causes EventSlow; 0: never
	Quiet   time.Duration `json:"quiet,omitempty"` // minimum time between two notifications about an event; 0: QuietIfUnsaid
	Overdue Overdue       `json:"overdue,omitzero"`
}

// Overdue sets when a job must have succeeded. Only one of the two fields is set.
type Overdue struct {
	By     string        `json:"by,omitempty"`     // each day by this time of day in the job's time zone, such as 15:04
	Within time.Duration `json:"within,omitempty"` // within this duration after the last success
}

// QuietIfUnsaid is the default of Notify.Quiet.
const QuietIfUnsaid = time.Hour

// Over returns n with the value from o for each field that is empty in n.
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

// Includes reports whether an event causes a notification. It returns false for a nil n, for EventSlow if Slow is not
// set, and for EventOverdue if Overdue is not set.
func (n *Notify) Includes(e Event) bool {
	switch {
	case n == nil, len(n.To) == 0, e == EventSlow && n.Slow == 0, e == EventOverdue && n.Overdue == Overdue{}:
		return false
	case len(n.On) == 0:
		return slices.Contains(eventsIfUnsaid, e) || e == EventLate && n.Late > 0 || e == EventSlow
	}
	return slices.Contains(n.On, e)
}

// EventRule returns the notification settings of a job, with the settings of the app as defaults. If job is nil
// because the event has no readable job, the global settings replace the job's settings.
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

// EndEvent returns the event for the end of a run. The event is empty if the end never needs a notification, for
// example after a user's action.
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

// TellsEnd reports whether the end of a run can cause a notification with these settings.
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

// Retry sets when a failed run is retried, and how often.
type Retry struct {
	Max      int           `json:"max"` // maximum number of retries after the first attempt; 0: no retry
	Delay    time.Duration `json:"delay"`
	Backoff  Backoff       `json:"backoff"`
	MaxDelay time.Duration `json:"maxDelay,omitempty"` // maximum delay between two attempts; 0: one day
	On       []State       `json:"on"`                 // states that cause a retry: a subset of RetryOns
}

func (r Retry) Equal(o Retry) bool {
	return r.Max == o.Max && r.Delay == o.Delay && r.Backoff == o.Backoff && r.MaxDelay == o.MaxDelay && slices.Equal(r.On, o.On)
}

// After returns the delay between attempt n and the next attempt. The first attempt has n = 1.
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

// KeepDays is the default number of days for which the runs of a job, and the records of a deleted job, are kept.
// KeepForever in Keep.Days means no limit. Manifests and the API write 0 for no limit, but 0 in a stored job means
// KeepDays.
const (
	KeepDays    = 30
	KeepForever = -1
)

// KeepLog selects the final states of runs whose log the server keeps.
type KeepLog string

const (
	KeepLogNever   KeepLog = "never"
	KeepLogFailure KeepLog = "on-failure" // if the run failed, timed out or was lost
	KeepLogAlways  KeepLog = "always"     // if the run succeeded, failed, timed out, was lost or was killed
)

var KeepLogs = []KeepLog{KeepLogNever, KeepLogFailure, KeepLogAlways}

// Keep sets how long the runs of a job are kept, and which runs keep their log.
type Keep struct {
	Days int     `json:"days"`
	Log  KeepLog `json:"log,omitempty"` // empty: KeepLogFailure
}

// Kept returns Log in the form that jobs and runs store: empty for the default KeepLogFailure.
func (k Keep) Kept() KeepLog {
	if k.Log == KeepLogFailure {
		return ""
	}
	return k.Log
}

// For returns how long runs are kept. For KeepForever, it returns 200 years.
func (k Keep) For() time.Duration {
	switch {
	case k.Days < 0:
		return 200 * 365 * 24 * time.Hour
	case k.Days == 0:
		return KeepDays * 24 * time.Hour
	}
	return time.Duration(k.Days) * 24 * time.Hour
}
