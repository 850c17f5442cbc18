package dispatch

import (
	"errors"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
)

// These are the tables of docs/internals/claim-protocol.md section 2, in its order: pure
// functions of what is known. What is read and written for them is in read.go,
// claim.go, send.go, journal.go and end.go. tables_test.go reads the page beside them.

// phase is where a fire stands in this invocation: one of the types below, each
// with what only such a fire has. The tables answer the next one.
type phase interface{ isPhase() }

type (
	undecided struct{} // to be written or looked at
	inLine    struct{} // to be taken in hand once its app has room
	ours      struct{} // claimed, and without an answer
	moves     struct{} // ours, and proven not to be where it was sent: to the next address
	// ended: its end is to be stored.
	ended struct{ Answer }
	// settled: accepted, unconfirmed or left, which my journal is to name.
	settled core.Outcome
	// passing: to be put on the ring again, and given back before if it is claimed.
	passing struct {
		claimed bool
		slowly  bool // nothing of it failed: it only belongs on the slow lane
		unread  bool // its job or app cannot be understood
		// waits is until when it waits for an executor; zero: it does not.
		waits time.Time
		at    core.Instant // when its attempt begins, where that is known
		why   error
	}
	// undeliverable: to go to the dead letters.
	undeliverable struct{ why string }
	// notDone: its messages are not acked, and are to come again at a time (zero:
	// whenever the queue brings them).
	notDone struct {
		why     error
		retryAt time.Time
	}
	// done: closed, in somebody's stored journal, or in a new message.
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

// answer is one of the four that a write has.
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

// falls is whether a fire is sent, or how it falls: what falls silently is left, unread.
type falls uint8

const (
	sends         falls = iota
	fallsRecorded       // as skipped, with its reason
	fallsSilently       // a newer plan or a change record covers it
	fallsLate           // recorded where nobody has claimed it: a claimed run is not judged late again
	fallsPast           // the same, but past its deadline, which no wait for an executor goes beyond
)

// stops are the pauses of everything, or of an app.
type stops struct {
	last *core.Pause
	past *core.Past
}

// judge is step 3. sched is that of the tombstone where the job is gone; next is
// asked for the job's next instant, 0 if it has none.
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
			// The pause is over, and nothing else would end the chain of a fixed
			// delay: it goes on from here.
			paused = fallsRecorded
		case inside:
			paused = fallsSilently
		case paused == fallsSilently:
		case p.last.Covers(now) && at.Before(p.last.From), at.Before(p.past.From):
			// Before past.From nobody knows the pauses any more: what may lie in one is
			// not sent, and as it may have been demanded it is not silent.
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
		return fallsSilently, "" // the new plan covers it; of a fixed delay it keeps the tail
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

// firstWrite is table A: what follows a claim, or a skipped record; the latter also
// where it closes a run that nobody sent.
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
	return undecided{} // look
}

// row is one of table B: what a look finds of a run.
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
	queued // nobody's, and it waits for an executor
	nobodysMaybeSent
	othersSettled
	othersLive
	othersPast
	awaitsJoin // nobody's, and planned for the end of its window
)

// act is what a look leads to.
type act uint8

const (
	isDone act = iota
	toClaim
	toRecord
	toLeave
	toBury
	toMend
	toSpread // the fires of its shards, on the ring
	toKeep
	toTake   // routed afresh
	toRetake // at the same address: a re-send
	toSkip
	toWait
	toJoin // it is looked at whether its join is full, or over
)

// looks is table B: what to do with a fire that is to be sent, and with one that
// falls recorded.
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

// look is table B, also for what falls late: where it is claimed it is to be sent, and
// where it waits for an executor as long as its deadline has not passed.
func look(what row, f falls) act {
	unsent := what == noItem || what == nobodys
	if f == fallsRecorded || f == fallsLate && unsent || f == fallsPast && (unsent || what == queued) {
		return looks[what][1]
	}
	return looks[what][0]
}

// rowOf is the row of a run as read; past is asked whether another's until has passed.
// What its journal says is not known yet: it is read only then.
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

// moved reports that a trigger was given another slot after this fire was sent on
// its way: it has an entry in the due index for that one, written with the change, or
// since then a message that waits for an executor, as long as is counted from that slot.
func moved(r *core.Run, f *core.Fire) bool {
	trigger := r.Cause == core.CauseManual || r.Cause == core.CauseAPI
	return trigger && r.State.Open() && r.Owner == "" && r.Slot != f.Slot
}

// says is the row of another's run, by its journal.
func (what row) says(j core.Journal, run core.RunID) row {
	if e, ok := j.Find(run); ok && (e.Outcome == core.Accepted || e.Outcome == core.Unconfirmed) {
		return othersSettled
	}
	return what
}

// takeOver is table C.
func takeOver(err error) phase {
	if err == nil {
		return ours{}
	}
	return undecided{} // look
}

// sent is table D; resend: an earlier owner may have sent it; more: there is another
// address to try.
func sent(a *Answer, resend, more bool) phase {
	switch {
	case a.Kind == AnswerAccepted, a.Kind == AnswerRepeat: // IDs are given once: it has the run, or had it
		return settled(core.Accepted)
	case a.Kind == AnswerEnded:
		return ended{*a}
	case a.Kind == AnswerUnconfirmed, resend: // nothing proves anything about the first send
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

// failover is table E; stored is the run as read after an unknown answer.
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

// entry is what the journal says of a fire (table F): each that this invocation
// claimed or left is named; 0: none of its.
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

// journalled reports whether a write of the journal counts (table F). Refused: one
// of this V or a higher is stored, and an invocation writes one at a time.
func journalled(err error) bool { return answerOf(err) <= refused }

// closing is step 8: what follows a close; nil: it is tried again.
func closing(err error) phase {
	switch answerOf(err) {
	case okay:
		return done{}
	case refused:
		return notDone{why: err}
	}
	return nil
}

// unclosed is what becomes of a run whose close had no clear answer to the last.
func unclosed(err error, p ended, maybeSent bool, until time.Time) phase {
	if p.Kind == AnswerEnded || maybeSent {
		// It ran: its end is not stored, and nothing may send it again but a
		// taker, to the same address. Unconfirmed until it is reported or lost.
		return settled(core.Unconfirmed)
	}
	return notDone{why: err, retryAt: until}
}

// ackRule is the ack rule for one fire; stored: so is the journal.
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
	errNotBegun  = errors.New("its send was not begun in time")
	errBusy      = errors.New("refused for a passing reason")
	errNobody    = errors.New("no executor is there to take it yet")
)
