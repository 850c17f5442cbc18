package core

import (
	"slices"
	"time"
)

// RunFields is a set of fields of a Run. One bit can stand for several fields, which a comment lists.
type RunFields uint32

const (
	RunState RunFields = 1 << iota
	RunOwner
	RunUntil
	RunJournal
	RunAddress
	RunMaybeSent
	RunSentAt
	RunTries
	RunEnd  // EndedAt, Reason, Code, Message, Data, Then
	RunOwes // Owes
	RunKill // KillBy, KillAt
	RunLate
	RunTime  // At, Slot
	RunGiven // Params, Addresses, Key, By, RerunOf, Shard, Permit
	RunApp   // App; can be compared, but not set
	RunPlace
	RunPermit  // Permit; a put sets either RunPermit or RunGiven
	RunUnder   // SentRev, Notice
	RunPostRun // PostRun, KeepLog
)

// RunPut is one conditional write of a stored run. The condition is that the fields in the set If have the values in
// Was. Open also requires that the run is open, and Had requires Run.MayHaveBeenSent. If the condition holds, the
// store copies the fields in Set from To. Other writers, such as a user who kills the run, can change all fields that
// are not in If.
type RunPut struct {
	ID   RunID
	Open bool
	Had  bool
	If   RunFields
	Was  Run
	Set  RunFields
	To   Run
	// Seen is the run as the caller read it; nil: not read. If Seen is nil and the put closes the run, the store can
	// set Seen to the run before or after the put.
	Seen *Run
}

// runFields has the assignment for each field, in the order of the flags.
var runFields = [...]func(r, to *Run){
	func(r, to *Run) { r.State = to.State },
	func(r, to *Run) { r.Owner = to.Owner },
	func(r, to *Run) { r.Until = to.Until },
	func(r, to *Run) { r.Journal = to.Journal },
	func(r, to *Run) { r.Address = to.Address },
	func(r, to *Run) { r.MaybeSent = to.MaybeSent },
	func(r, to *Run) { r.SentAt = to.SentAt },
	func(r, to *Run) { r.Tries = slices.Clone(to.Tries) },
	func(r, to *Run) {
		r.EndedAt, r.Reason, r.Code, r.Message, r.Data, r.Then = to.EndedAt, to.Reason, to.Code, to.Message, to.Data, to.Then
	},
	func(r, to *Run) { r.Owes = slices.Clone(to.Owes) },
	func(r, to *Run) { r.KillBy, r.KillAt = to.KillBy, to.KillAt },
	func(r, to *Run) { r.Late = to.Late },
	func(r, to *Run) { r.At, r.Slot = to.At, to.Slot },
	func(r, to *Run) {
		r.Params, r.Addresses, r.Key, r.By, r.RerunOf = to.Params, slices.Clone(to.Addresses), to.Key, to.By, to.RerunOf
		r.Shard, r.Permit = to.Shard, to.Permit
	},
	func(*Run, *Run) {}, // RunApp
	func(r, to *Run) { r.Place = to.Place },
	func(r, to *Run) { r.Permit = to.Permit },
	func(r, to *Run) { r.SentRev, r.Notice = to.SentRev, to.Notice },
	func(r, to *Run) { r.PostRun, r.KeepLog = to.PostRun, to.KeepLog },
}

// Apply copies the fields in Set from To into r.
func (p *RunPut) Apply(r *Run) {
	for n := range runFields {
		if p.Set&(1<<n) != 0 {
			runFields[n](r, &p.To)
		}
	}
}

// Ends reports whether the put closes the run.
func (p *RunPut) Ends() bool { return p.Set&RunState != 0 && !p.To.State.Open() }

// Made reports whether this put closed the run, according to r, which was read after the put. Callers use Made if the
// store's answer to the put was lost.
func (p *RunPut) Made(r *Run) bool {
	return p.ID == r.ID && p.Ends() && r.State == p.To.State && r.Reason == p.To.Reason && r.Code == p.To.Code && r.Then == p.To.Then &&
		Millis(r.EndedAt) == Millis(p.To.EndedAt)
}

// GoesOn reports whether another attempt follows the run that the put closes.
func (p *RunPut) GoesOn() bool { return p.To.Then != 0 }

// Uncounted returns a RunPut that clears Permit of a run that was never sent and has no owner, because no executor is
// available. The run must request its slots again. The put increases Until, so that a claim fails if it is based on
// an earlier read. See docs/internals/limits.md.
func (r *Run) Uncounted(now time.Time) RunPut {
	to := *r
	to.Permit, to.Until = "", now
	if !to.Until.After(r.Until) {
		to.Until = r.Until.Add(time.Millisecond)
	}
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunUntil|RunPermit, to)
}

// Counted returns the RunPut p, which claims or queues a run, with the names of the run's limits added.
func (p RunPut) Counted(permit string) RunPut {
	if p.Was.Permit != permit {
		p.To.Permit, p.Set = permit, p.Set|RunPermit
	}
	return p
}

// Under returns the RunPut p, which claims a run, with SentRev and Notice added. SentRev is the job revision at the
// claim. Notice is true if the end of the run may need a notification.
func (p RunPut) Under(rev int64, tells bool) RunPut {
	if rev == p.Was.Rev {
		rev = 0
	}
	if p.Was.SentRev != rev || p.Was.Notice != tells {
		p.To.SentRev, p.To.Notice, p.Set = rev, tells, p.Set|RunUnder
	}
	return p
}

// put returns a write that needs the open run to be as read.
func (r *Run) put(if_, set RunFields, to Run) RunPut {
	return RunPut{ID: r.ID, Open: true, If: if_, Was: *r, Set: set, To: to, Seen: r}
}

// Claim has the values that a dispatcher invocation stores in each run that it claims.
type Claim struct {
	Owner   string
	Until   time.Time
	Journal JournalKey
}

// Take returns a RunPut that makes a dispatcher invocation the owner of the run. The new Until is later than r.Until,
// so that a claim fails if it is based on an earlier read. Take sets the address only if the run has none, and SentAt
// only if SentAt is zero. If the list of tries is empty, Tries does not change. Take is table C of
// docs/internals/claim-protocol.md.
func (r *Run) Take(c Claim, address string, at time.Time, tries []Try) RunPut {
	to := *r
	to.State, to.Owner, to.Until, to.Journal = Running, c.Owner, c.Until, c.Journal
	if !to.Until.After(r.Until) {
		to.Until = r.Until.Add(time.Millisecond)
	}
	to.MaybeSent = r.MaybeSent || r.Owner != ""
	if r.Address == "" {
		to.Address = address
	}
	if r.SentAt.IsZero() {
		to.SentAt = at
	}
	set := RunState | RunOwner | RunUntil | RunJournal | RunMaybeSent | RunAddress | RunSentAt
	if len(tries) > 0 {
		to.Tries, set = tries, set|RunTries
	}
	return r.put(RunOwner|RunUntil|RunAddress, set, to)
}

// Readdress returns a RunPut by which the owner changes the run's address, because the executor at the old address
// provably does not have the run. If the address does not change, the put only replaces Tries. Readdress is table E
// of docs/internals/claim-protocol.md.
func (r *Run) Readdress(address string, tries []Try) RunPut {
	to := *r
	to.Address, to.Tries = address, tries
	return r.put(RunOwner|RunAddress, RunAddress|RunTries, to)
}

// GiveBack returns a RunPut by which the owner releases the run. A run that may have been sent keeps its address. Until
// does not change. GiveBack is table G of docs/internals/claim-protocol.md.
func (r *Run) GiveBack() RunPut {
	to := *r
	to.State, to.Owner = Planned, ""
	if r.MaybeSent {
		return r.put(RunOwner, RunState|RunOwner, to)
	}
	to.Address = ""
	return r.put(RunOwner, RunState|RunOwner|RunAddress, to)
}

// Wait returns a RunPut that queues a run until an executor is available. The run must have no owner and must never have
// been sent.
func (r *Run) Wait() RunPut {
	to := *r
	to.State = Queued
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunState, to)
}

// SkipUnsent returns a RunPut that skips a run. The run must have no owner and must never have been sent.
func (r *Run) SkipUnsent(reason Reason, at time.Time) RunPut {
	to := Run{State: Skipped, Reason: reason, EndedAt: at}
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunState|RunEnd, to)
}

// In returns the RunPut p with the key of the journal that lists the run added.
func (p RunPut) In(k JournalKey) RunPut {
	p.To.Journal, p.Set = k, p.Set|RunJournal
	return p
}

// Owing returns the RunPut p, which closes the run Seen, with the pending log and notification of that end added. If
// notify is false, no notification is pending.
func (p RunPut) Owing(notify bool) RunPut {
	r := *p.Seen
	p.Apply(&r)
	if r.Owe(notify); r.PostRun != (PostRun{}) {
		p.To.PostRun, p.To.KeepLog, p.Set = r.PostRun, r.KeepLog, p.Set|RunPostRun
	}
	return p
}

// ClearOwed returns a RunPut that records that all pending follow-ups of a closed run exist.
func (r *Run) ClearOwed() RunPut {
	return RunPut{ID: r.ID, If: RunState | RunOwes, Was: *r, Set: RunOwes}
}

// NoteLate returns a RunPut that stores a result that was reported after the run was closed as lost or timed out. If a
// late result is already stored, the put fails.
func (r *Run) NoteLate(l LateResult) RunPut {
	l.At = FromMillis(Millis(l.At))
	return RunPut{ID: r.ID, If: RunState | RunLate, Was: Run{State: r.State}, Set: RunLate, To: Run{Late: &l}}
}

// Kill returns a RunPut that records the user who kills an open run. Changes by the run's owner do not conflict with
// this put.
func (r *Run) Kill(by string, at time.Time) RunPut {
	return r.put(0, RunKill, Run{KillBy: by, KillAt: at})
}

// Replace returns a RunPut that records the kill of an open run that a newer run replaces. If a kill is already
// recorded, the put fails.
func (r *Run) Replace(newer RunID, at time.Time) RunPut {
	p := r.GiveUp(at)
	p.To.KillBy = replacedBy + newer.String()
	return p
}

// GiveUp returns a RunPut that records that the timeout of an open run has passed. If a kill is already recorded, the
// put fails.
func (r *Run) GiveUp(at time.Time) RunPut {
	return RunPut{ID: r.ID, Open: true, If: RunKill, Set: RunKill, To: Run{KillAt: FromMillis(Millis(at))}}
}

// Retime returns a RunPut that changes the scheduled time, params and addresses of a waiting trigger to the values in the
// parameter to. The run must request its slots again. The put sets SentAt to zero. It sets Until to the parameter now or,
// if that is not later than r.Until, to r.Until plus 1 ms.
func (r *Run) Retime(to Run, now time.Time) RunPut {
	to.SentAt, to.Until, to.Permit = time.Time{}, now, ""
	if !now.After(r.Until) {
		to.Until = r.Until.Add(time.Millisecond)
	}
	return r.put(RunState|RunOwner|RunMaybeSent|RunUntil, RunTime|RunGiven|RunUntil|RunSentAt, to)
}

// End returns a RunPut that closes an open run with the result in the parameter to. The caller can add further
// conditions.
func End(id RunID, to Run) RunPut {
	return RunPut{ID: id, Open: true, Set: RunState | RunEnd | RunOwes, To: to}
}
