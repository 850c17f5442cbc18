package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// State is the status of a run. When a run is closed, its state is final.
type State string

const (
	Planned   State = "planned" // stored, but neither queued nor claimed
	Queued    State = "queued"  // waiting for a concurrency slot, or for an available executor
	Running   State = "running" // claimed: accepted, being sent, or unconfirmed
	Succeeded State = "succeeded"
	Failed    State = "failed"
	TimedOut  State = "timed-out"
	Killed    State = "killed"
	Lost      State = "lost"
	Skipped   State = "skipped"
)

var States = []State{Planned, Queued, Running, Succeeded, Failed, TimedOut, Killed, Lost, Skipped}

// Open reports whether s is not a final state.
func (s State) Open() bool { return s == Planned || s == Queued || s == Running }

// CheckEnd returns an error unless s is a final state. field is the name of the input field for the error.
func (s State) CheckEnd(field string) error {
	if !slices.Contains(States, s) || s.Open() {
		return Invalid(field, string(s), "expected a final state: succeeded, failed, timed-out, killed, lost, skipped")
	}
	return nil
}

// Failure reports whether a run that ended in state s can be retried.
func (s State) Failure() bool { return s == Failed || s == TimedOut || s == Lost }

// Reason explains the final state of a run. Every final state except Succeeded has a Reason.
type Reason string

const (
	ReasonNotAccepted   Reason = "not-accepted"  // failed: no executor accepted the run
	ReasonNoExecutor    Reason = "no-executor"   // failed: no executor was available
	ReasonHandler       Reason = "handler"       // failed: the handler reported failure
	ReasonCrashed       Reason = "crashed"       // failed: the executor crashed during the run
	ReasonShards        Reason = "shards"        // failed: shards of the broadcast did not succeed
	ReasonSnoozed       Reason = "snoozed"       // failed: the handler requested a later attempt, which follows
	ReasonTimeout       Reason = "timeout"       // timed-out: the run took longer than the job's timeout
	ReasonPerson        Reason = "person"        // killed: a user killed the run
	ReasonReplaced      Reason = "replaced"      // killed: a newer run replaced the run
	ReasonGone          Reason = "gone"          // lost: the executor of the run is not available
	ReasonForgotten     Reason = "forgotten"     // lost: the executor is idle but never reported a result
	ReasonNoReport      Reason = "no-report"     // lost: no report arrived within the job's lostAfter
	ReasonMisfire       Reason = "misfire"       // skipped: the run was late, and the misfire policy skips late runs
	ReasonDeadline      Reason = "deadline"      // skipped: the deadline passed before the run was sent
	ReasonOverlap       Reason = "overlap"       // skipped: another run of the job or group was running
	ReasonQueueFull     Reason = "queue-full"    // skipped: the queue of the concurrency limit was full
	ReasonPaused        Reason = "paused"        // skipped: the job, its app or all jobs were paused
	ReasonChanged       Reason = "changed"       // skipped: the job was changed before the run
	ReasonDeleted       Reason = "deleted"       // skipped: the job was deleted before the run
	ReasonCancelled     Reason = "cancelled"     // skipped: a user cancelled the run; failed: the handler rejected further attempts
	ReasonUndeliverable Reason = "undeliverable" // skipped: the message with the run could not be processed
	ReasonJoin          Reason = "join"          // skipped: a parent did not end in time
)

// Reasons lists the allowed reasons for each final state.
var Reasons = map[State][]Reason{
	Failed:   {ReasonNotAccepted, ReasonNoExecutor, ReasonHandler, ReasonCrashed, ReasonSnoozed, ReasonCancelled, ReasonShards},
	TimedOut: {ReasonTimeout},
	Killed:   {ReasonPerson, ReasonReplaced},
	Lost:     {ReasonGone, ReasonForgotten, ReasonNoReport},
	Skipped: {ReasonMisfire, ReasonDeadline, ReasonOverlap, ReasonQueueFull, ReasonPaused, ReasonChanged,
		ReasonDeleted, ReasonCancelled, ReasonUndeliverable, ReasonJoin},
}

// MessageMax is the maximum number of characters of an executor's message in a run.
const MessageMax = 15000

// TruncateMessage returns the first MessageMax characters of a message, as valid UTF-8.
func TruncateMessage(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= MessageMax {
		return s
	}
	n := 0
	for i := range s {
		if n == MessageMax {
			return s[:i]
		}
		n++
	}
	return s
}

// DataMax is the maximum length in bytes of the text that a run passes to its child runs.
const DataMax = 4 << 10

// Run is the record of one execution of a job.
type Run struct {
	ID    RunID
	App   string
	State State
	// Cause, Rev, At, Slot and Seq are copied from the Fire that created the run.
	Cause Cause
	Rev   int64
	At    Instant
	Slot  Instant
	Seq   int64

	// Owner is the nonce of the dispatcher invocation that claimed the run and alone can send it; empty: no owner.
	// Until is when the claim expires. Without an owner, Until has the value from the last claim or from the last
	// change of the trigger; zero if neither happened. A claim fails if Until has changed since the claiming
	// dispatcher read the run.
	Owner     string
	Until     time.Time
	Address   string
	MaybeSent bool // an earlier owner may have sent the run to Address; never cleared
	Journal   JournalKey
	SentAt    time.Time // send time, logDateTime in the xxl-job protocol; set by the first claim and kept by later claims
	// SentRev is the job revision that the last claim read; 0: the same revision as Rev.
	SentRev int64

	// Attempt, First and Retries are the position of the run in its retry chain.
	Attempt int   // counted from 1
	First   RunID // ID of the first run of the chain; on the first attempt, equal to ID
	Retries int   // number of retries that can follow this attempt

	// FixedDelay is true if the end of the run's retry chain schedules the job's next run.
	FixedDelay bool

	// PauseAfter is true if consecutive failures pause the job. Then each failed retry chain has a pending follow-up,
	// which pauses the job if enough chains have failed.
	PauseAfter bool

	// KeepLog selects the final states for which the server keeps the run's log; empty: KeepLogFailure. KeepLog is
	// cleared when the log has been kept.
	KeepLog KeepLog

	// Notice is true if the end of the run may need a notification. When dispatch claims or queues the run, dispatch
	// sets Notice from the settings of the job and the app. All other writers set Notice to true.
	Notice bool

	// Permit has the names of the concurrency limits that apply to the run, see Job.Permit; empty: no limit applies.
	// Permit is set before the run is first sent, and applies to the whole retry chain.
	Permit string

	// Parent is the ID of the parent run whose end created this run; 0: none.
	Parent RunID
	// Place is the lowest ID of a child job that may still need a run after this run. Place begins at 1 and grows
	// with each child run that is created. 0 means that no child needs a run.
	Place int64

	Shard Shard

	// Params and Addresses are values from a trigger that replace the job's params and the app's executors.
	Params    *string
	Addresses []string
	Key       string // idempotency key of the trigger
	By        string // user or client that triggered the run
	RerunOf   RunID  // ID of the earlier run that this run repeats; 0: none

	// KillBy and KillAt record a kill before the kill is sent to the executor. KillBy is the user who killed the run.
	// KillBy is empty if the timeout passed, and names the newer run if a newer run replaces this run.
	KillBy string
	KillAt time.Time

	// EndedAt, Reason, Code, Message and Data are the result of a closed run.
	EndedAt time.Time
	Reason  Reason
	Code    int // exit code from the executor; 0: no exit code
	Message string
	Data    string  // text that the handler passes to the child runs
	Owes    []Owed  // follow-ups that must be created, unless they already exist
	Then    RunID   // ID of the next attempt; 0: no attempt follows; never cleared
	PostRun PostRun // further pending follow-ups, see OwesPostRun
	// Late is a result that was reported after the run was closed as lost or timed out; nil: none.
	Late *LateResult
	// Tries lists the executor addresses that were tried before Address, with the answers of the executors.
	Tries []Try
}

// MinSnooze and MaxSnooze are the bounds of a snooze, the delay that a handler can request before the next attempt.
const (
	MinSnooze = time.Second
	MaxSnooze = 24 * time.Hour
)

// NoRetry is the snooze value with which a handler rejects further attempts.
const NoRetry = -time.Second

// MaySnooze returns the reason why the next attempt of the run cannot be delayed by d; empty if it can.
func (r *Run) MaySnooze(d time.Duration) string {
	switch {
	case d < MinSnooze || d > MaxSnooze:
		return fmt.Sprintf("the snooze duration is %s; allowed: 1s to 24h", FormatDuration(d))
	case r.Attempt+r.Retries > MaxRetries:
		return fmt.Sprintf("a chain has at most %d attempts, so this one cannot snooze", MaxRetries+1)
	}
	return ""
}

// RetriesAfter returns the value of Retries for the next attempt: one less than in r, or unchanged after a snooze.
func (r *Run) RetriesAfter() int {
	if r.Reason == ReasonSnoozed {
		return r.Retries
	}
	return r.Retries - 1
}

// FailedForGood reports whether r is the last attempt of a failed retry chain. Then r failed, timed out, was lost or
// is a skipped retry, and no attempt follows.
func (r *Run) FailedForGood() bool {
	return r.Then == 0 && (r.State.Failure() || r.State == Skipped && r.Attempt > 1)
}

// FreesSlots reports whether the run is the closed last attempt of its chain and names concurrency limits.
func (r *Run) FreesSlots() bool { return !r.State.Open() && r.Then == 0 && r.Permit != "" }

// Expired reports whether r has no owner, or the owner's claim has expired.
func (r *Run) Expired(now time.Time) bool { return r.Owner == "" || !now.Before(r.Until) }

// MayHaveBeenSent reports whether an executor may have the run: the run has an owner, or an earlier owner may have
// sent it.
func (r *Run) MayHaveBeenSent() bool { return r.Owner != "" || r.MaybeSent }

// replacedBy is the prefix of KillBy in a run that a newer one replaces. No actor has such a name.
const replacedBy = "run "

// Replaced reports whether the run is killed because a newer run replaces it.
func (r *Run) Replaced() bool { return strings.HasPrefix(r.KillBy, replacedBy) }

// PastTimeout reports whether the run is killed because its timeout passed. If a user also killed the run,
// PastTimeout returns false.
func (r *Run) PastTimeout() bool { return !r.KillAt.IsZero() && r.KillBy == "" }

// InProgress reports whether the dispatch of an open run has begun: the run has an owner, was sent, or is queued.
func (r *Run) InProgress() bool {
	return r.State.Open() && (r.IsBroadcast() || r.Owner != "" || r.Address != "" || r.State == Queued)
}

// Sent reports whether the run was sent to an executor. SentAt alone is not a proof, because a claim sets SentAt even
// if no executor is available.
func (r *Run) Sent() bool {
	switch {
	case r.SentAt.IsZero() || r.Reason == ReasonNoExecutor:
		return false
	case r.State == Planned || r.State == Queued:
		return r.MaybeSent // else it was released unsent
	case r.State == Skipped:
		return r.Reason == ReasonOverlap // reported by the executor; other skips happen before a send
	}
	return true
}

// HasLateness reports whether Lateness is meaningful. The run must have been sent, and its cause must not be a
// trigger or a parent. The due time of a trigger or child run is truncated to the second, so the difference is not a
// delay.
func (r *Run) HasLateness() bool {
	return r.Sent() && r.Slot != 0 && r.Cause != CauseManual && r.Cause != CauseAPI && r.Cause != CauseParent
}

func (r *Run) Lateness() time.Duration {
	if r.SentAt.IsZero() || r.Slot == 0 {
		return 0
	}
	return r.SentAt.Sub(r.Slot.Time())
}

// Owed is one pending follow-up of a closed run: a run that must be created with this ID, or a pause of the job.
type Owed struct {
	Run  RunID   `json:"run,omitempty"`
	Kind Cause   `json:"kind,omitempty"` // CauseRetry for a retry, CauseParent for a child run
	Slot Instant `json:"slot,omitempty"`
	// Pause is true if the follow-up pauses the job, provided that enough consecutive retry chains have failed. The
	// other fields are empty then.
	Pause bool `json:"pause,omitempty"`
}

// LateResult is a result that was reported after the run was closed.
type LateResult struct {
	At      time.Time `json:"at"`
	Code    int       `json:"code"`
	Message string    `json:"message,omitempty"`
}

// Try is an executor address that was tried for a run, with the executor's answer. A Try for Run.Address has the data
// to find the run on its function platform, or the choice of the route (ChosenFrom).
type Try struct {
	Address string `json:"address"`
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Request is the ID of the function invocation. Log is the log group of the function.
	Request string `json:"request,omitempty"`
	Log     string `json:"log,omitempty"`
	// By is the route that chose Address. Of is the number of candidate addresses, and From lists the first
	// candidates.
	By   Route    `json:"by,omitempty"`
	Of   int      `json:"of,omitempty"`
	From []string `json:"from,omitempty"`
}

// fromMax is the maximum size of a recorded choice in bytes, so that a run costs one unit of a
// store.
const fromMax = 200

// ChosenFrom returns a Try that records how a route chose one address from a list of candidates. It returns nil for
// routes that only follow the order of the list or the executors' answers. It also returns nil for a list with fewer
// than two addresses.
func ChosenFrom(route Route, address string, list []string) []Try {
	switch route {
	case RouteFirst, RouteFailover, RouteBusyover, RouteBroadcast:
		return nil
	}
	room := fromMax - len(address)
	if len(list) < 2 || room < 0 {
		return nil
	}
	t := Try{Address: address, By: route, Of: len(list)}
	for _, a := range list {
		if room -= len(a) + len(`"",`); room < 0 || strings.ContainsAny(a, `&<>"\`) { // these characters are longer in JSON
			break
		}
		t.From = append(t.From, a)
	}
	return []Try{t}
}

// Skip records consecutive scheduled times of a job that were skipped. A skip has no run ID. If a run exists at a
// covered time, the run takes precedence. A later write with equal Job, First and Reason can only extend the record,
// and restarts its retention time.
type Skip struct {
	Job    JobID     `json:"job"`
	First  Instant   `json:"first"`
	Last   Instant   `json:"last"`
	Count  int64     `json:"count"`
	Reason Reason    `json:"reason"`
	Rev    int64     `json:"rev"`
	Made   time.Time `json:"made"` // start of the retention time, never before Last
}

// Covers reports whether a scheduled time is from First to Last, both included.
func (s Skip) Covers(at Instant) bool { return s.First <= at && at <= s.Last }

// RepeatedRetry reports whether a run is the third or a later retry of its chain. These retries must not delay other
// runs.
func (r *Run) RepeatedRetry() bool { return r.Cause == CauseRetry && r.Attempt > 3 }

// Follow copies the job's settings for the end of a run into the new run r: PauseAfter, Place and KeepLog. Follow
// also sets Notice to true. A later claim sets Notice from the notification settings at that time.
func (r *Run) Follow(d *Def) {
	r.Notice = true
	r.PauseAfter, r.Place, r.KeepLog = d.PauseAfter > 0, d.FirstPlace(), d.Keep.Kept()
}

// RevSent returns the job revision with which the run was sent. Before the send, it returns the job revision at the
// run's creation.
func (r *Run) RevSent() int64 { return cmp.Or(r.SentRev, r.Rev) }

func (r *Run) Fire() Fire {
	return Fire{Run: r.ID, Rev: r.Rev, At: r.At, Slot: r.Slot, Cause: r.Cause, Seq: r.Seq}
}
