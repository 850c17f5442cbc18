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

// Event is what a notice tells people of.
type Event string

const (
	EventFailed     Event = "failed"      // or timed out, and no attempt follows
	EventLost       Event = "lost"        // and no attempt follows
	EventNoExecutor Event = "no-executor" // failed for that, and no attempt follows
	EventRecovered  Event = "recovered"   // a success after one of these three
	EventSkipped    Event = "skipped"     // not by what a person did
	EventLate       Event = "late"
	EventSlow       Event = "slow"      // at work for longer than Notify.Slow
	EventPaused     Event = "paused"    // by its pauseAfter
	EventUnplanned  Event = "unplanned" // it could not be planned
	EventDeadLetter Event = "dead-letter"
	EventOverdue    Event = "overdue"
	EventMute       Event = "mute" // a channel took nothing: told by the others, and nobody asks for it
)

// Events are those that a job may be told of, in the order in which messages name them.
// EventsNotYet are words of the file that nothing acts upon yet.
var (
	Events = []Event{EventFailed, EventLost, EventNoExecutor, EventRecovered, EventSkipped, EventLate, EventSlow, EventPaused,
		EventUnplanned, EventDeadLetter, EventOverdue}
	EventsNotYet = []Event{"calendar-end"}
)

// eventsIfUnsaid are told of where nobody says which: what somebody is to look at. Late and
// slow are told of besides where their bound is said.
var eventsIfUnsaid = []Event{EventFailed, EventLost, EventNoExecutor, EventRecovered, EventPaused, EventUnplanned, EventDeadLetter,
	EventOverdue}

// Notify says who is told what of a job. Its word comes before its app's: each field by itself.
type Notify struct {
	To      []string      `json:"to,omitempty"` // channels; none: nobody is told
	On      []Event       `json:"on,omitempty"`
	Late    time.Duration `json:"late,omitempty"`  // sent so long after its slot; 0: its grace
	Slow    time.Duration `json:"slow,omitempty"`  // at work for so long after it was sent
	Quiet   time.Duration `json:"quiet,omitempty"` // one notice an event in that time; 0: QuietIfUnsaid
	Overdue Overdue       `json:"overdue,omitzero"`
}

// Overdue says when a job is to have succeeded: each day by a time of its zone, or within a
// time since it did last. One of the two.
type Overdue struct {
	By     string        `json:"by,omitempty"` // 15:04
	Within time.Duration `json:"within,omitempty"`
}

// QuietIfUnsaid is the quiet period where nobody says one.
const QuietIfUnsaid = time.Hour

// Over is n, and where it says nothing o.
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

// Tells reports whether somebody is told of an event; of a nil n nobody is. Nothing is slow or
// overdue where it is not said when.
func (n *Notify) Tells(e Event) bool {
	switch {
	case n == nil, len(n.To) == 0, e == EventSlow && n.Slow == 0, e == EventOverdue && n.Overdue == Overdue{}:
		return false
	case len(n.On) == 0:
		return slices.Contains(eventsIfUnsaid, e) || e == EventLate && n.Late > 0 || e == EventSlow
	}
	return slices.Contains(n.On, e)
}

// Tell is who is told what of a job: its word before its app's. Of what is of no job, or of one
// that cannot be understood (nil), it is the word for that.
func Tell(job *Job, app *App, g *Global) (n Notify) {
	if n = g.Notify; job != nil {
		n = job.Def.Notify
	}
	if app != nil {
		n = n.Over(app.Notify)
	}
	n.Quiet = cmp.Or(n.Quiet, QuietIfUnsaid)
	return n
}

// EndEvent is what the end of a run is to those who are told of it; empty: nothing. What a
// person did is nothing to tell.
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

// SkipEvent is what the skip of an attempt is to those who are told of it: with a retry the
// chain comes to nothing, of which nobody was told as yet.
func SkipEvent(attempt int) Event {
	if attempt > 1 {
		return EventFailed
	}
	return EventSkipped
}

// SkipTold reports whether people may be told of what was skipped so: it is not what one of
// them did.
func SkipTold(reason Reason) bool {
	switch reason {
	case ReasonMisfire, ReasonDeadline, ReasonOverlap, ReasonQueueFull, ReasonJoin:
		return true
	}
	return false
}

// TellsEnd reports whether somebody may be told of how a run ends.
func (n *Notify) TellsEnd() bool {
	return n.Tells(EventFailed) || n.Tells(EventLost) || n.Tells(EventNoExecutor) || n.Tells(EventSkipped) || n.Tells(EventRecovered) ||
		n.Tells(EventPaused)
}

func (n Notify) Equal(o Notify) bool {
	return slices.Equal(n.To, o.To) && slices.Equal(n.On, o.On) && n.Late == o.Late && n.Slow == o.Slow && n.Quiet == o.Quiet &&
		n.Overdue == o.Overdue
}

func (n Notify) IsZero() bool { return n.Equal(Notify{}) }

// Clock is the hour and minute of By; ok is false where it is none.
func (o Overdue) Clock() (hour, minute int, ok bool) {
	t, err := time.Parse("15:04", o.By)
	return t.Hour(), t.Minute(), err == nil && len(o.By) == len("15:04")
}

// Retry says how often and when a failed run is tried again.
type Retry struct {
	Max      int           `json:"max"` // attempts after the first
	Delay    time.Duration `json:"delay"`
	Backoff  Backoff       `json:"backoff"`
	MaxDelay time.Duration `json:"maxDelay,omitempty"` // 0: no bound but a day
	On       []State       `json:"on"`                 // of failed, timed-out, lost
}

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
