package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// State is the status of a run. The state of a closed run never changes.
type State string

const (
	Planned   State = "planned" // recorded before its due time
	Queued    State = "queued"  // waits for a concurrency slot, or for an executor of its app
	Running   State = "running" // claimed: accepted, being sent, or unconfirmed
	Succeeded State = "succeeded"
	Failed    State = "failed"
	TimedOut  State = "timed-out"
	Killed    State = "killed"
	Lost      State = "lost"
	Skipped   State = "skipped"
)

var States = []State{Planned, Queued, Running, Succeeded, Failed, TimedOut, Killed, Lost, Skipped}

// Open reports whether a run can still change.
func (s State) Open() bool { return s == Planned || s == Queued || s == Running }

// CheckEnd returns an error unless runs can end in the state.
func (s State) CheckEnd(field string) error {
	if !slices.Contains(States, s) || s.Open() {
		return Invalid(field, string(s), "expected a final state: succeeded, failed, timed-out, killed, lost, skipped")
	}
	return nil
}

// Failure reports whether a run that ended in this state can be retried.
func (s State) Failure() bool { return s == Failed || s == TimedOut || s == Lost }

// Reason explains the final state of a run. Every closed state except succeeded has one.
type Reason string

const (
	ReasonNotAccepted   Reason = "not-accepted"  // failed: no executor accepted it
	ReasonNoExecutor    Reason = "no-executor"   // failed: no executor was available
	ReasonHandler       Reason = "handler"       // failed: the handler reported failure
	ReasonCrashed       Reason = "crashed"       // failed: the executor crashed while running it
	ReasonShards        Reason = "shards"        // failed: shards of the broadcast did not succeed
	ReasonSnoozed       Reason = "snoozed"       // failed: the handler asked for a later attempt, which follows
	ReasonTimeout       Reason = "timeout"       // timed-out
	ReasonPerson        Reason = "person"        // killed by a user
	ReasonReplaced      Reason = "replaced"      // killed for a newer run
	ReasonGone          Reason = "gone"          // lost: its executor is not available
	ReasonForgotten     Reason = "forgotten"     // lost: its executor is idle and never reported
	ReasonNoReport      Reason = "no-report"     // lost: no report arrived within lostAfter
	ReasonMisfire       Reason = "misfire"       // skipped
	ReasonDeadline      Reason = "deadline"      // skipped
	ReasonOverlap       Reason = "overlap"       // skipped
	ReasonQueueFull     Reason = "queue-full"    // skipped
	ReasonPaused        Reason = "paused"        // skipped
	ReasonChanged       Reason = "changed"       // skipped
	ReasonDeleted       Reason = "deleted"       // skipped
	ReasonCancelled     Reason = "cancelled"     // skipped by a user; failed: the handler rejected further attempts
	ReasonUndeliverable Reason = "undeliverable" // skipped
	ReasonJoin          Reason = "join"          // skipped: a parent did not end in time
)

// Reasons lists the allowed reasons for each closed state.
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

// DataMax is the maximum length in bytes of the text that a run passes to its followers.
const DataMax = 4 << 10

// Run is the record of one execution of a job on one executor.
type Run struct {
	ID    RunID
	App   string
	State State
	// Cause, Rev, At, Slot and Seq are copied from its Fire.
	Cause Cause
	Rev   int64
	At    Instant
	Slot  Instant
	Seq   int64

	// The claim. Owner is the nonce of the only invocation that can send the run, or empty.
	// Until is when the owner can no longer send it. Without an owner, Until is from the last
	// claim or the last change of the trigger, or zero. A claim is conditional on Until, so it
	// fails if another claim or a change came after its read.
	Owner     string
	Until     time.Time
	Address   string
	MaybeSent bool // an earlier owner may have sent it to Address; never cleared
	Journal   JournalKey
	SentAt    time.Time // trigger time, logDateTime in the xxl-job protocol: set by the first claim and kept
	// SentRev is the job revision that the last claim read; 0: equal to Rev, as in each planned run.
	SentRev int64

	// The retry chain.
	Attempt int   // counted from 1
	First   RunID // first run of the chain; its own ID on the first attempt
	Retries int   // attempts that can follow, set on the first attempt and counted down

	// FixedDelay is true if the end of its chain schedules the job's next run.
	FixedDelay bool

	// PauseAfter is true if failures in a row pause the job. A failed chain then has the pause as a
	// pending follow-up.
	PauseAfter bool

	// KeepLog selects the ends after which the run's log is kept; empty: KeepLogFailure. It is cleared once the log is kept.
	KeepLog KeepLog

	// Notice is true if the end of the run can need a notification. Dispatch sets it from the job and app when it claims or
	// queues the run. Other writers store true.
	Notice bool

	// Permit names the limits that count the run, see Job.Permit; empty: none. It is set before the
	// run is first sent, and applies to its whole chain.
	Permit string

	// Parent is the run that this run follows; 0: none.
	Parent RunID
	// Place shows which child jobs still need a run: 1 from the start, then PlaceAfter the last
	// child. 0: no more children.
	Place int64

	Shard Shard

	// Values from a trigger that replace the job's.
	Params    *string
	Addresses []string
	Key       string // idempotency key of the trigger
	By        string // user or client that triggered it
	RerunOf   RunID  // the run that it repeats; 0: none

	// The kill, recorded before it is sent. KillBy is empty for the timeout, and names the newer
	// run for a replacement, see Replaced.
	KillBy string
	KillAt time.Time

	// The end.
	EndedAt time.Time
	Reason  Reason
	Code    int // exit code from the executor; 0: none
	Message string
	Data    string  // text that its handler passes to the runs that follow
	Owes    []Owed  // pending follow-ups that are not proven to exist
	Then    RunID   // the retry that followed; never cleared
	PostRun PostRun // further pending follow-ups, see OwesPostRun
	// Late is the result that was reported after the run was closed as lost or timed out.
	Late *LateResult
	// Tries are the addresses that were tried before Address, and their answers.
	Tries []Try
}

// The bounds of a snooze, which the delay queue and the scans need. MaySnooze limits the number of snoozes.
const (
	MinSnooze = time.Second
	MaxSnooze = 24 * time.Hour
)

// NoRetry is the snooze value by which a handler rejects further attempts.
const NoRetry = -time.Second

// MaySnooze returns the reason why a run cannot snooze for d; empty if it can.
func (r *Run) MaySnooze(d time.Duration) string {
	switch {
	case d < MinSnooze || d > MaxSnooze:
		return fmt.Sprintf("the snooze duration is %s; allowed: 1s to 24h", FormatDuration(d))
	case r.Attempt+r.Retries > MaxRetries:
		return fmt.Sprintf("a chain has at most %d attempts, so this one cannot snooze", MaxRetries+1)
	}
	return ""
}

// RetriesAfter returns the retries left for the next attempt. A snooze uses none.
func (r *Run) RetriesAfter() int {
	if r.Reason == ReasonSnoozed {
		return r.Retries
	}
	return r.Retries - 1
}

// FailedForGood reports whether the retry chain ends without success at this attempt: it failed,
// or was a skipped retry, and no attempt follows.
func (r *Run) FailedForGood() bool {
	return r.Then == 0 && (r.State.Failure() || r.State == Skipped && r.Attempt > 1)
}

// Expired reports whether the owner of r can no longer send it at now.
func (r *Run) Expired(now time.Time) bool { return r.Owner == "" || !now.Before(r.Until) }

// MayHaveBeenSent reports whether a run has an owner, or an earlier owner may have sent it. If neither applies, provably no
// executor has the run.
func (r *Run) MayHaveBeenSent() bool { return r.Owner != "" || r.MaybeSent }

// replacedBy is the prefix of KillBy in a run that a newer one replaces. No actor has such a name.
const replacedBy = "run "

// Replaced reports whether the run is killed because a newer one replaces it.
func (r *Run) Replaced() bool { return strings.HasPrefix(r.KillBy, replacedBy) }

// PastTimeout reports whether the run is recorded as timed out. A user's kill takes precedence.
func (r *Run) PastTimeout() bool { return !r.KillAt.IsZero() && r.KillBy == "" }

// InProgress reports whether an open run has an owner, was sent, or waits in a queue.
func (r *Run) InProgress() bool {
	return r.State.Open() && (r.IsBroadcast() || r.Owner != "" || r.Address != "" || r.State == Queued)
}

// Sent reports whether the run was sent to an executor. SentAt is not enough: the claim sets it
// before an executor is known to be available.
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

// HasLateness reports whether Lateness is meaningful: the run was sent, and its due time is exact. The due time of a manual
// trigger or a child is truncated to the second, so the difference is not a delay.
func (r *Run) HasLateness() bool {
	return r.Sent() && r.Slot != 0 && r.Cause != CauseManual && r.Cause != CauseAPI && r.Cause != CauseParent
}

func (r *Run) Lateness() time.Duration {
	if r.SentAt.IsZero() || r.Slot == 0 {
		return 0
	}
	return r.SentAt.Sub(r.Slot.Time())
}

// Owed is one pending follow-up of a closed run: the run with this ID, or a pause.
type Owed struct {
	Run  RunID   `json:"run,omitempty"`
	Kind Cause   `json:"kind,omitempty"` // retry, parent
	Slot Instant `json:"slot,omitempty"`
	// Pause is the only field set if the job must be paused when its last chains have failed.
	Pause bool `json:"pause,omitempty"`
}

// LateResult is a result that was reported after the run was closed.
type LateResult struct {
	At      time.Time `json:"at"`
	Code    int       `json:"code"`
	Message string    `json:"message,omitempty"`
}

// Try is an address that was tried, and its answer. A Try of Address itself has the data to find the run there, or the
// choice that the route made (ChosenFrom).
type Try struct {
	Address string `json:"address"`
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Request is the invocation's ID on the function platform. Log is its log group.
	Request string `json:"request,omitempty"`
	Log     string `json:"log,omitempty"`
	// By is the route that chose Address, Of the number of candidates, From the first of them.
	By   Route    `json:"by,omitempty"`
	Of   int      `json:"of,omitempty"`
	From []string `json:"from,omitempty"`
}

// fromMax is the maximum size of a recorded choice in bytes, so that a run costs one unit of a
// store.
const fromMax = 200

// ChosenFrom returns the recorded choice of a route: the number of candidates and the first of
// them. It is nil if the candidate list or the answers already explain the choice.
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

// Skip records consecutive scheduled times of a job that were skipped. It uses no run ID, and a run
// at a covered time takes precedence. Another write with the same Job, First and Reason can only
// extend it, and restarts its retention.
type Skip struct {
	Job    JobID
	First  Instant
	Last   Instant
	Count  int64
	Reason Reason
	Rev    int64
	Made   time.Time // start of its retention, never before Last
}

// Covers reports whether the record includes a scheduled time.
func (s Skip) Covers(at Instant) bool { return s.First <= at && at <= s.Last }

// RepeatedRetry reports whether a run is at least the third retry, which must not delay other runs.
func (r *Run) RepeatedRetry() bool { return r.Cause == CauseRetry && r.Attempt > 3 }

// Follow copies the job's settings for the end of a run into a new run: pause after failures,
// children and log retention. Notice stays true until the claim sets it, because the app's
// notification settings can change before then.
func (r *Run) Follow(d *Def) {
	r.Notice = true
	r.PauseAfter, r.Place, r.KeepLog = d.PauseAfter > 0, d.FirstPlace(), d.Keep.Kept()
}

// RevSent returns the job revision under which a run was sent. Before the send, or after a claim by
// an older version, it is the revision at creation.
func (r *Run) RevSent() int64 { return cmp.Or(r.SentRev, r.Rev) }

func (r *Run) Fire() Fire {
	return Fire{Run: r.ID, Rev: r.Rev, At: r.At, Slot: r.Slot, Cause: r.Cause, Seq: r.Seq}
}
