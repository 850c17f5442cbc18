package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// State is where a run stands. A closed run never changes again, but a skipped
// scheduled fire may be given its run once by backfill.
type State string

const (
	Planned   State = "planned" // recorded before its slot
	Queued    State = "queued"  // waits for a permit, or for an executor of its app
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

// CheckEnd refuses what is no state in which runs end.
func (s State) CheckEnd(field string) error {
	if !slices.Contains(States, s) || s.Open() {
		return Invalid(field, string(s), "expected a final state: succeeded, failed, timed-out, killed, lost, skipped")
	}
	return nil
}

// Failure reports whether what ended so may be tried again.
func (s State) Failure() bool { return s == Failed || s == TimedOut || s == Lost }

// Reason is why a run ended as it did: every closed state but succeeded has one.
type Reason string

const (
	ReasonNotAccepted   Reason = "not-accepted"  // failed: no executor took it
	ReasonNoExecutor    Reason = "no-executor"   // failed: none was there
	ReasonHandler       Reason = "handler"       // failed: the handler said so
	ReasonCrashed       Reason = "crashed"       // failed: the executor ended under it
	ReasonShards        Reason = "shards"        // failed: of a broadcast, its shards did not succeed
	ReasonSnoozed       Reason = "snoozed"       // failed: the handler asked for another time, and has it
	ReasonTimeout       Reason = "timeout"       // timed-out
	ReasonPerson        Reason = "person"        // killed by somebody
	ReasonReplaced      Reason = "replaced"      // killed for a newer run
	ReasonGone          Reason = "gone"          // lost: its executor is no longer there
	ReasonForgotten     Reason = "forgotten"     // lost: its executor is idle and never reported
	ReasonNoReport      Reason = "no-report"     // lost: nothing was heard within lostAfter
	ReasonMisfire       Reason = "misfire"       // skipped
	ReasonDeadline      Reason = "deadline"      // skipped
	ReasonOverlap       Reason = "overlap"       // skipped
	ReasonQueueFull     Reason = "queue-full"    // skipped
	ReasonPaused        Reason = "paused"        // skipped
	ReasonChanged       Reason = "changed"       // skipped
	ReasonDeleted       Reason = "deleted"       // skipped
	ReasonCancelled     Reason = "cancelled"     // skipped by somebody; failed: the handler wants no other attempt
	ReasonUndeliverable Reason = "undeliverable" // skipped
	ReasonJoin          Reason = "join"          // skipped: a parent did not end within its time
)

// Reasons lists, for each closed state, the reasons that it may have.
var Reasons = map[State][]Reason{
	Failed:   {ReasonNotAccepted, ReasonNoExecutor, ReasonHandler, ReasonCrashed, ReasonSnoozed, ReasonCancelled, ReasonShards},
	TimedOut: {ReasonTimeout},
	Killed:   {ReasonPerson, ReasonReplaced},
	Lost:     {ReasonGone, ReasonForgotten, ReasonNoReport},
	Skipped: {ReasonMisfire, ReasonDeadline, ReasonOverlap, ReasonQueueFull, ReasonPaused, ReasonChanged,
		ReasonDeleted, ReasonCancelled, ReasonUndeliverable, ReasonJoin},
}

// MessageMax is how many characters of an executor's message a run keeps.
const MessageMax = 15000

// TruncateMessage keeps the first MessageMax characters of a message, as valid UTF-8.
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

// DataMax is the longest text that a run hands to those that follow, in bytes.
const DataMax = 4 << 10

// Run is the record of one fire sent to one executor.
type Run struct {
	ID    RunID
	App   string
	State State
	// Cause, Rev, At, Slot and Seq are those of its fire.
	Cause Cause
	Rev   int64
	At    Instant
	Slot  Instant
	Seq   int64

	// The claim. Owner is the nonce of the invocation that may send it, empty
	// when none may; Until is when that invocation can no longer send. Without an
	// owner it is that of the last one, or when the trigger was changed last, zero
	// neither: a claim names the Until that it read, so none is made by what was read
	// before another claim or a change.
	Owner     string
	Until     time.Time
	Address   string
	MaybeSent bool // an earlier owner may have sent it to Address; never cleared
	Journal   JournalKey
	SentAt    time.Time // trigger time, the wire's logDateTime: set by the first claim and kept
	// SentRev is the revision of its job that the last claim had read; 0: it is Rev, as of each
	// planned run.
	SentRev int64

	// The chain of attempts.
	Attempt int   // from 1
	First   RunID // of the chain; its own ID on the first attempt
	Retries int   // attempts that may follow, frozen on the first and counted down

	// FixedDelay says that the end of its chain makes the next fire of the job.
	FixedDelay bool

	// PauseAfter says that its job is to be paused after failures in a row: where the chain
	// fails, that it does is owed.
	PauseAfter bool

	// KeepLog says of which ends its log is kept; empty: KeepLogFailure. It is taken away
	// once what the end of the run owes by it is made.
	KeepLog KeepLog

	// Notice says that people may have to be told of how it ends: where a chain came to
	// nothing, or is skipped, that is owed. The last claim says so by the job and app that it
	// had read, and so does dispatch where it has a fire wait; what others store is true.
	Notice bool

	// Permit names the limits that count the run, see Job.Permit; empty: none does. It is
	// taken when the run is first to be sent, and its chain's from then on.
	Permit string

	// Parent is the run after which it comes, 0 none.
	Parent RunID
	// Place says that children come after it: 1, from when it is made, or PlaceAfter the
	// last that was made; 0: there are none, or no more.
	Place int64

	Shard Shard

	// What a trigger gave in place of the job's.
	Params    *string
	Addresses []string
	Key       string // idempotency key of the trigger
	By        string // who triggered it
	RerunOf   RunID  // the run that it runs again; 0: none

	// The kill, recorded before it is sent. Nobody's (no KillBy) is that of the timeout;
	// that of a newer run which goes in its place names it, see ReplacedBy.
	KillBy string
	KillAt time.Time

	// The end.
	EndedAt time.Time
	Reason  Reason
	Code    int // as the executor gave it; 0 when it gave none
	Message string
	Data    string // what its handler hands to the runs that follow
	Owes    []Owed // follow-ups that this close owes and that are not proven made
	Then    RunID  // the retry that followed; stays when nothing is owed any more
	Aside   Aside  // what this close owes besides, see OwesAside
	// Late is what was reported after the run had been closed as lost or timed out.
	Late *LateResult
	// Tries are the addresses that were asked before Address, and their answers.
	Tries []Try
}

// The bounds of a snooze: what ring and walks know of a retry. (Its count: see MaySnooze.)
const (
	MinSnooze = time.Second
	MaxSnooze = 24 * time.Hour
)

// NoRetry is what a handler says in place of a snooze: no attempt is to follow.
const NoRetry = -time.Second

// MaySnooze says why a run cannot snooze for so long; empty if it can.
func (r *Run) MaySnooze(d time.Duration) string {
	switch {
	case d < MinSnooze || d > MaxSnooze:
		return fmt.Sprintf("a snooze is %s to %s, not %s", MinSnooze, MaxSnooze, d)
	case r.Attempt+r.Retries > MaxRetries:
		return fmt.Sprintf("a chain has at most %d attempts, so this one cannot snooze", MaxRetries+1)
	}
	return ""
}

// RetriesAfter is how many retries are left to the attempt that follows: a snooze uses none up.
func (r *Run) RetriesAfter() int {
	if r.Reason == ReasonSnoozed {
		return r.Retries
	}
	return r.Retries - 1
}

// FailedForGood reports whether the chain of attempts came to nothing with this one: it
// failed, or was a retry that fell, and none follows.
func (r *Run) FailedForGood() bool {
	return r.Then == 0 && (r.State.Failure() || r.State == Skipped && r.Attempt > 1)
}

// Expired reports whether the owner of r can no longer send it at now.
func (r *Run) Expired(now time.Time) bool { return r.Owner == "" || !now.Before(r.Until) }

// Had reports whether somebody has a run, or one who had it may have sent it. Of what
// nobody had each send was proven not to have arrived.
func (r *Run) Had() bool { return r.Owner != "" || r.MaybeSent }

// replacedBy begins the KillBy of a run that a newer one replaces. No actor is named so.
const replacedBy = "run "

// Replaced reports whether a run is killed because a newer one goes in its place.
func (r *Run) Replaced() bool { return strings.HasPrefix(r.KillBy, replacedBy) }

// PastTimeout reports whether it is recorded that the time of a run is over; a person's
// kill comes before that.
func (r *Run) PastTimeout() bool { return !r.KillAt.IsZero() && r.KillBy == "" }

// UnderWay reports whether an open run is somebody's, was sent, or waits for an executor.
func (r *Run) UnderWay() bool {
	return r.State.Open() && (r.IsBroadcast() || r.Owner != "" || r.Address != "" || r.State == Queued)
}

// Sent reports whether the run went out to an executor. SentAt alone does not
// tell: the claim sets it, before it is known that anybody is there.
func (r *Run) Sent() bool {
	switch {
	case r.SentAt.IsZero() || r.Reason == ReasonNoExecutor:
		return false
	case r.State == Planned || r.State == Queued:
		return r.MaybeSent // else it was given back unsent
	case r.State == Skipped:
		return r.Reason == ReasonOverlap // that is the executor's word; others fall before they are sent
	}
	return true
}

// HasLateness reports whether Lateness says anything: the run was sent, and its
// slot is as exact as that. The instant of a trigger for now, and of a child, is
// truncated to its second, so what is left over is no delay of ours.
func (r *Run) HasLateness() bool {
	return r.Sent() && r.Slot != 0 && r.Cause != CauseManual && r.Cause != CauseAPI && r.Cause != CauseParent
}

func (r *Run) Lateness() time.Duration {
	if r.SentAt.IsZero() || r.Slot == 0 {
		return 0
	}
	return r.SentAt.Sub(r.Slot.Time())
}

// Owed is one follow-up that the end of a run owes: the run with this ID, or a pause.
type Owed struct {
	Run  RunID   `json:"run,omitempty"`
	Kind Cause   `json:"kind,omitempty"` // retry, parent
	Slot Instant `json:"slot,omitempty"`
	// Pause stands alone: the job is to be paused if its last chains have failed.
	Pause bool `json:"pause,omitempty"`
}

// LateResult is what came after the run was closed.
type LateResult struct {
	At      time.Time `json:"at"`
	Code    int       `json:"code"`
	Message string    `json:"message,omitempty"`
}

// Try is one address that was asked, and what it answered; or, of Address
// itself, what is needed to find the run there, or what it was chosen from (ChosenFrom).
type Try struct {
	Address string `json:"address"`
	Code    int    `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	// Request is what a function's platform calls the invocation, Log the group
	// of logs that it writes to.
	Request string `json:"request,omitempty"`
	Log     string `json:"log,omitempty"`
	// By is the route that chose Address, Of from how many, From the first of them.
	By   Route    `json:"by,omitempty"`
	Of   int      `json:"of,omitempty"`
	From []string `json:"from,omitempty"`
}

// fromMax bounds the bytes of a choice that is kept: a run stays one unit of a store.
const fromMax = 200

// ChosenFrom is what is kept of a choice: nothing where the list alone tells it (its first, or
// there is but one), or the route's answers do; else the count and the first of the list.
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
		if room -= len(a) + len(`"",`); room < 0 || strings.ContainsAny(a, `&<>"\`) { // longer as JSON
			break
		}
		t.From = append(t.From, a)
	}
	return []Try{t}
}

// Skip is one record for instants of one job that were skipped in a row. It
// occupies no run ID; a run beats a record that covers its instant. A repeat
// (same Job, First and Reason) may only lengthen it, and makes it young again.
type Skip struct {
	Job    JobID
	First  Instant
	Last   Instant
	Count  int64
	Reason Reason
	Rev    int64
	Made   time.Time // not before Last: it is kept from then on
}

// Covers reports whether the record reaches over an instant.
func (s Skip) Covers(at Instant) bool { return s.First <= at && at <= s.Last }

// RepeatedRetry reports whether a run is a retry after the second: what failed so often
// keeps nothing else waiting.
func (r *Run) RepeatedRetry() bool { return r.Cause == CauseRetry && r.Attempt > 3 }

// Follow takes from its job, when a run is made, what is to come of its end: whether a
// failure may pause the job, whether it has children, and whether its log is kept. Whether
// people are told of it its app may say too, and may say otherwise by the time that it is
// due: so that is for its claim to say.
func (r *Run) Follow(d *Def) {
	r.Notice = true
	r.PauseAfter, r.Place, r.KeepLog = d.PauseAfter > 0, d.FirstPlace(), d.Keep.Kept()
}

// RevSent is the revision of its job that a run was sent under; before that, and where an
// older version claimed it, the one that it was made under.
func (r *Run) RevSent() int64 { return cmp.Or(r.SentRev, r.Rev) }

func (r *Run) Fire() Fire {
	return Fire{Run: r.ID, Rev: r.Rev, At: r.At, Slot: r.Slot, Cause: r.Cause, Seq: r.Seq}
}
