package dispatch

import (
	"errors"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
)

// This file holds the tables of docs/internals/claim-protocol.md section 2, in their order, as pure functions. read.go,
// claim.go, send.go, journal.go and end.go read and write the data. tables_test.go compares the tables with the page.

// A phase is the state of an item in this invocation: one of the types below, each with its own data. The tables return
// the next phase.
type phase interface{ isPhase() }

type (
	undecided struct{} // to be written or checked
	inLine    struct{} // waits until its app has room in Options.InHand
	ours      struct{} // claimed, and without an answer
	moves     struct{} // claimed, and proven not to be at its address: goes to the next address
	// ended: its result is to be stored.
	ended struct{ Answer }
	// settled: accepted, unconfirmed or left; the journal of this invocation is to name it.
	settled core.Outcome
	// passing: to be enqueued again; if claimed, the claim is released first.
	passing struct {
		claimed bool
		slowly  bool // nothing failed: it only belongs on the slow queue
		unread  bool // its job or app cannot be decoded
		// waits is when its wait for an executor ends; zero: it does not wait.
		waits time.Time
		most  time.Duration // longest interval between two checks, because nothing wakes it; 0: waitMost
		at    core.Instant  // when its attempt begins, if known
		why   error
	}
	// undeliverable: to go to the dead-letter queue.
	undeliverable struct{ why string }
	// notDone: its messages are not acknowledged and are to be delivered again at retryAt (zero: at the queue's own time).
	notDone struct {
		why     error
		retryAt time.Time
	}
	// done: closed, in a stored journal, or in a new message.
	done struct{}
)

func (undecided) isPhase()     {}
func (inLine) isPhase()        {}
func (ours) isPhase()          {}
func (moves) isPhase()         {}
func (ended) isPhase()         {}
func (settled) isPhase()       {}
func (passing) isPhase()       {}
func (undeliverable) isPhase() {}
func (notDone) isPhase()       {}
func (done) isPhase()          {}

// An answer is one of the four results of a write.
type answer uint8

const (
	okay answer = iota
	refused
	throttled
	unknown
)

func answerOf(err error) answer {
	switch {
	case err == nil:
		return okay
	case errors.Is(err, core.ErrRefused):
		return refused
	case errors.Is(err, core.ErrThrottled):
		return throttled
	}
	return unknown
}

// falls is whether a run is sent, or how it is skipped.
type falls uint8

const (
	sends         falls = iota
	fallsRecorded       // as skipped, with its reason
	fallsSilently       // a newer plan or a change record accounts for it
	fallsLate           // skipped as late, unless it is claimed already
	fallsPast           // skipped as fallsLate is, but past the deadline, which also ends a wait for an executor
)

// stops are the pauses of an app or of everything.
type stops struct {
	last *core.Pause
	past *core.PauseHistory
}

// judge is step 3. If the job is gone, sched comes from its tombstone. next returns the job's next scheduled time, or 0
// if it has none.
func judge(f *core.Fire, sched *core.Sched, gone bool, pauses [2]stops, now time.Time,
	next func(*core.Sched, core.Instant) core.Instant) (falls, core.Reason) {
	at, planned := f.At.Time(), f.Cause.Planned()
	if gone {
		if planned && at.After(sched.RevAt) {
			return fallsSilently, core.ReasonDeleted
		}
		return fallsRecorded, core.ReasonDeleted
	}
	paused := sends
	for _, p := range pauses {
		if f.Cause == core.CauseManual || p.last.From.IsZero() {
			continue
		}
		inside := p.last.Covers(at) || p.past.Covers(at)
		switch {
		case !planned:
			if p.last.Covers(now) {
				paused = fallsRecorded
			}
		case inside && sched.Tail == f.Run && !p.last.Covers(now):
			// The pause is over. The chain of a fixed delay continues from this run, since nothing else would end its latest run.
			paused = fallsRecorded
		case inside:
			paused = fallsSilently
		case paused == fallsSilently:
		case p.last.Covers(now) && at.Before(p.last.From), at.Before(p.past.From):
			// Pauses before past.From are unknown. The run may lie in one, so it is not sent. It may also have been
			// expected, so it is recorded.
			paused = fallsRecorded
		}
	}
	switch {
	case paused != sends:
		return paused, core.ReasonPaused
	case !planned:
		if f.Cause == core.CauseRetry && sched.PausedAt(now) {
			return fallsRecorded, core.ReasonPaused
		}
		return sends, ""
	case f.Rev < sched.Rev && (at.After(sched.RevAt) || sched.Tail == f.Run):
		return fallsSilently, "" // the new plan covers it; a fixed delay keeps its latest run
	case f.Rev < sched.Rev && sched.State == core.Paused:
		return fallsRecorded, core.ReasonPaused
	case f.Rev < sched.Rev:
		return fallsRecorded, core.ReasonChanged
	}
	p, due := plan.PolicyOf(*sched), f.Slot.Time()
	if !now.After(due.Add(p.Grace)) && (p.Deadline == 0 || !now.After(due.Add(p.Deadline))) {
		return sends, ""
	}
	if sent, _, reason := plan.Judge(p, f.At, f.Slot, next(sched, f.At), now); !sent {
		if p.Deadline > 0 && now.After(due.Add(p.Deadline)) {
			return fallsPast, reason
		}
		return fallsLate, reason
	}
	return sends, ""
}

// firstWrite is table A: the phase after a claim or a skipped record, including one that closes an unsent run.
func firstWrite(err error, skips bool) phase {
	switch a := answerOf(err); {
	case a == okay && skips:
		return done{}
	case a == okay:
		return ours{}
	case a == throttled && skips:
		return notDone{why: err}
	case a == throttled:
		return passing{why: err}
	}
	return undecided{} // check
}

// A row is a row of table B: the state of a run as a check finds it.
type row uint8

const (
	noItem row = iota
	noRecord
	movedAway
	closed
	closedOwing
	spread
	mine
	nobodys
	queued // has no owner, and waits for an executor
	nobodysMaybeSent
	othersSettled
	othersLive
	othersPast
	awaitsJoin // has no owner, and is planned for the end of its join window
)

// An act is the action that follows from a check.
type act uint8

const (
	isDone act = iota
	toClaim
	toRecord
	toLeave
	toBury
	toMend
	toSpread // enqueues the runs of its shards
	toKeep
	toTake   // with a newly chosen address
	toRetake // at the same address: a re-send
	toSkip
	toWait
	toJoin // checks whether all runs of its join have ended or its time is over
)

// looks is table B: the action for a run that is to be sent, and for one that is recorded as skipped.
var looks = [...][2]act{
	noItem:           {toClaim, toRecord},
	noRecord:         {toBury, toBury},
	movedAway:        {isDone, isDone},
	closed:           {isDone, isDone},
	closedOwing:      {toMend, toMend},
	spread:           {toSpread, toSpread},
	mine:             {toKeep, toKeep},
	nobodys:          {toTake, toSkip},
	queued:           {toTake, toSkip},
	nobodysMaybeSent: {toRetake, toLeave},
	othersSettled:    {isDone, isDone},
	othersLive:       {toWait, toWait},
	othersPast:       {toRetake, toLeave},
	awaitsJoin:       {toJoin, toSkip},
}

// look is table B with late runs included. A late run that is claimed is still sent; one that waits for an executor is
// sent unless its deadline has passed.
func look(what row, f falls) act {
	unsent := what == noItem || what == nobodys
	if f == fallsRecorded || f == fallsLate && unsent || f == fallsPast && (unsent || what == queued) {
		return looks[what][1]
	}
	return looks[what][0]
}

// rowOf returns the row of a stored run. past reports whether the claim of another owner has expired. The journal is
// not considered: it is read later, and only if needed.
func rowOf(r *core.Run, f *core.Fire, nonce string, past func(*core.Run) bool) row {
	switch {
	case moved(r, f):
		return movedAway
	case r.Owing():
		return closedOwing
	case !r.State.Open():
		return closed
	case r.IsBroadcast():
		return spread
	case r.Owner == nonce:
		return mine
	case r.Owner == "" && !r.MaybeSent && r.State == core.Queued:
		return queued
	case r.AwaitsJoin():
		return awaitsJoin
	case r.Owner == "" && !r.MaybeSent:
		return nobodys
	case r.Owner == "":
		return nobodysMaybeSent
	case !past(r):
		return othersLive
	}
	return othersPast
}

// moved reports whether a trigger got another due time after the message of f was enqueued. The change stored an entry in the due
// index for the new time. A later message may wait for an executor, and its wait counts from the new due time.
func moved(r *core.Run, f *core.Fire) bool {
	trigger := r.Cause == core.CauseManual || r.Cause == core.CauseAPI
	return trigger && r.State.Open() && r.Owner == "" && r.Slot != f.Slot
}

// says returns the row of a run with another owner after reading that owner's journal.
func (what row) says(j core.Journal, run core.RunID) row {
	if e, ok := j.Find(run); ok && (e.Outcome == core.Accepted || e.Outcome == core.Unconfirmed) {
		return othersSettled
	}
	return what
}

// takeOver is table C: the phase after a put that claims a run.
func takeOver(err error) phase {
	if err == nil {
		return ours{}
	}
	return undecided{} // check
}

// sent is table D. resend: an earlier owner may have sent the run; more: there is another address to try.
func sent(a *Answer, resend, more bool) phase {
	switch {
	case a.Kind == AnswerAccepted, a.Kind == AnswerRepeat: // each run ID is used once, so the executor has or had this run
		return settled(core.Accepted)
	case a.Kind == AnswerEnded:
		return ended{*a}
	case a.Kind == AnswerUnconfirmed, resend: // this answer proves nothing about the first send
		return settled(core.Unconfirmed)
	case a.Kind == AnswerBusy:
		return passing{claimed: true, why: errBusy}
	case a.Kind == AnswerBlocked:
		return ended{Answer{State: core.Skipped, Reason: core.ReasonOverlap, Code: a.Code, Message: a.Message}}
	case more:
		return moves{}
	}
	return ended{Answer{State: core.Failed, Reason: core.ReasonNotAccepted, Code: a.Code, Message: a.Message}}
}

// failover is table E; stored is the run as read after a write with an unknown answer.
func failover(err error, p *core.RunPut, stored *core.Run) phase {
	switch answerOf(err) {
	case okay:
		return ours{}
	case refused:
		return notDone{why: err}
	case throttled:
		return passing{claimed: true, why: err}
	}
	switch own := stored != nil && stored.State.Open() && stored.Owner == p.Was.Owner; {
	case own && stored.Address == p.To.Address:
		return ours{}
	case own && stored.Address == p.Was.Address:
		return passing{claimed: true, why: err}
	}
	return notDone{why: err}
}

// entry returns the outcome that the journal lists for a phase (table F): each run that this invocation claimed or left
// untouched has one. 0: not listed.
func entry(p phase) core.Outcome {
	switch p := p.(type) {
	case settled:
		return core.Outcome(p)
	case passing:
		if p.claimed {
			return core.Begun
		}
	case ours, ended:
		return core.Begun
	}
	return 0
}

// journalled reports whether a write of the journal succeeded (table F). ErrRefused means that this V or a higher one
// is stored, and an invocation writes one journal at a time.
func journalled(err error) bool { return answerOf(err) <= refused }

// closing is step 8: the phase after a close; nil: retry.
func closing(err error) phase {
	switch answerOf(err) {
	case okay:
		return done{}
	case refused:
		return notDone{why: err}
	}
	return nil
}

// unclosed returns the phase of a run whose close still has an unknown answer after all retries.
func unclosed(err error, p ended, maybeSent bool, until time.Time) phase {
	if p.Kind == AnswerEnded || maybeSent {
		// It ran, but its result is not stored. Only a new owner may send it again, to its address. It stays
		// unconfirmed until it is reported or lost.
		return settled(core.Unconfirmed)
	}
	return notDone{why: err, retryAt: until}
}

// ackRule returns the verdict for one item; stored reports whether the journal is stored.
func ackRule(p phase, stored bool) Verdict {
	switch p := p.(type) {
	case done:
		return Verdict{Ack: true}
	case settled:
		if stored {
			return Verdict{Ack: true}
		}
		return Verdict{Err: errNotStored}
	case notDone:
		return Verdict{Err: p.why, RetryAt: p.retryAt}
	case passing:
		return Verdict{Err: p.why}
	}
	return Verdict{Err: errNotDone}
}

var (
	errNotStored = errors.New("journal not stored")
	errNotDone   = errors.New("not done")
	errNotBegun  = errors.New("the send was not started in time")
	errBusy      = errors.New("rejected for a temporary reason")
	errNobody    = errors.New("no executor is available yet")
)
