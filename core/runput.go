package core

import (
	"slices"
	"time"
)

// RunFields is a set of fields of a Run.
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
	RunApp   // only compared
	RunPlace
	RunPermit  // Permit alone; a put sets this or RunGiven, not both
	RunUnder   // SentRev, Notice
	RunPostRun // PostRun, KeepLog
)

// RunPut is one conditional write of a stored run. It sets the fields of Set to their values in To if the fields of
// If are as in Was. Open also requires an open run, and Had requires Run.MayHaveBeenSent. If names only the fields that the
// decision used. Other writers, such as a user who kills the run, can change other fields in the meantime.
type RunPut struct {
	ID   RunID
	Open bool
	Had  bool
	If   RunFields
	Was  Run
	Set  RunFields
	To   Run
	// Seen is the run as it was read before. If Seen is nil and the put ends the run, the store may set Seen to the run
	// before or after its end. Seen stays nil if the store does not know the run.
	Seen *Run
}

// runFields has the comparison and the assignment for each field, in the order of the flags.
// A field that no decision uses has no comparison.
var runFields = [...]struct {
	same func(r, was *Run) bool
	set  func(r, to *Run)
}{
	{func(r, was *Run) bool { return r.State == was.State }, func(r, to *Run) { r.State = to.State }},
	{func(r, was *Run) bool { return r.Owner == was.Owner }, func(r, to *Run) { r.Owner = to.Owner }},
	{func(r, was *Run) bool { return Millis(r.Until) == Millis(was.Until) }, func(r, to *Run) { r.Until = to.Until }},
	{nil, func(r, to *Run) { r.Journal = to.Journal }},
	{func(r, was *Run) bool { return r.Address == was.Address }, func(r, to *Run) { r.Address = to.Address }},
	{func(r, was *Run) bool { return r.MaybeSent == was.MaybeSent }, func(r, to *Run) { r.MaybeSent = to.MaybeSent }},
	{nil, func(r, to *Run) { r.SentAt = to.SentAt }},
	{nil, func(r, to *Run) { r.Tries = slices.Clone(to.Tries) }},
	{nil, func(r, to *Run) {
		r.EndedAt, r.Reason, r.Code, r.Message, r.Data, r.Then = to.EndedAt, to.Reason, to.Code, to.Message, to.Data, to.Then
	}},
	{func(r, was *Run) bool { return slices.Equal(r.Owes, was.Owes) }, func(r, to *Run) { r.Owes = slices.Clone(to.Owes) }},
	{func(r, was *Run) bool { return r.KillBy == was.KillBy && Millis(r.KillAt) == Millis(was.KillAt) },
		func(r, to *Run) { r.KillBy, r.KillAt = to.KillBy, to.KillAt }},
	{func(r, was *Run) bool { return (r.Late == nil) == (was.Late == nil) }, func(r, to *Run) { r.Late = to.Late }},
	{nil, func(r, to *Run) { r.At, r.Slot = to.At, to.Slot }},
	{nil, func(r, to *Run) {
		r.Params, r.Addresses, r.Key, r.By, r.RerunOf = to.Params, slices.Clone(to.Addresses), to.Key, to.By, to.RerunOf
		r.Shard, r.Permit = to.Shard, to.Permit
	}},
	{func(r, was *Run) bool { return r.App == was.App }, nil},
	{func(r, was *Run) bool { return r.Place == was.Place }, func(r, to *Run) { r.Place = to.Place }},
	{nil, func(r, to *Run) { r.Permit = to.Permit }},
	{nil, func(r, to *Run) { r.SentRev, r.Notice = to.SentRev, to.Notice }},
	{func(r, was *Run) bool { return r.PostRun == was.PostRun && r.KeepLog == was.KeepLog },
		func(r, to *Run) { r.PostRun, r.KeepLog = to.PostRun, to.KeepLog }},
}

// Holds reports whether a stored run meets the condition.
func (p *RunPut) Holds(r *Run) bool {
	for n := range runFields {
		if p.If&(1<<n) != 0 && !runFields[n].same(r, &p.Was) {
			return false
		}
	}
	return (!p.Open || r.State.Open()) && (!p.Had || r.MayHaveBeenSent())
}

// Apply makes the changes of the put in r.
func (p *RunPut) Apply(r *Run) {
	for n := range runFields {
		if p.Set&(1<<n) != 0 {
			runFields[n].set(r, &p.To)
		}
	}
}

// Ends reports whether the put ends a run.
func (p *RunPut) Ends() bool { return p.Set&RunState != 0 && !p.To.State.Open() }

// Made reports whether this put ended the run r, which was read after the put. It is for puts
// whose answer was lost.
func (p *RunPut) Made(r *Run) bool {
	return p.ID == r.ID && p.Ends() && r.State == p.To.State && r.Reason == p.To.Reason && r.Code == p.To.Code && r.Then == p.To.Then &&
		Millis(r.EndedAt) == Millis(p.To.EndedAt)
}

// GoesOn reports whether another attempt follows the run that the put ends.
func (p *RunPut) GoesOn() bool { return p.To.Then != 0 }

// Uncounted removes the permits of a run that has no owner and was never sent, because no executor is available (section 9
// of the protocol). The run then asks again. Until becomes later, so that a claim from an earlier read fails.
func (r *Run) Uncounted(now time.Time) RunPut {
	to := *r
	to.Permit, to.Until = "", now
	if !to.Until.After(r.Until) {
		to.Until = r.Until.Add(time.Millisecond)
	}
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunUntil|RunPermit, to)
}

// Counted adds the limits that count the run to a put that claims or queues it.
func (p RunPut) Counted(permit string) RunPut {
	if p.Was.Permit != permit {
		p.To.Permit, p.Set = permit, p.Set|RunPermit
	}
	return p
}

// Under adds two values to a put that claims a run: the job revision, if it is not the run's own, and whether the end can
// need a notification.
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

// Claim is the entry that an invocation makes in the runs that it owns.
type Claim struct {
	Owner   string
	Until   time.Time
	Journal JournalKey
}

// Take is table C of the protocol: an invocation becomes the owner of the run. Its Until is later
// than the one read, so each claim has another Until and a claim from an earlier read fails. It
// sets address only if the run has none, at only if it was never sent, and tries only if there are
// any.
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

// Readdress is table E: the owner moves the run to another address because the first one
// provably does not have it. With an unchanged address it only replaces the tries.
func (r *Run) Readdress(address string, tries []Try) RunPut {
	to := *r
	to.Address, to.Tries = address, tries
	return r.put(RunOwner|RunAddress, RunAddress|RunTries, to)
}

// GiveBack is table G: the owner releases the run. A run that may have been sent keeps its
// address. Until stays, so a claim from an earlier read, with an earlier Until, fails.
func (r *Run) GiveBack() RunPut {
	to := *r
	to.State, to.Owner = Planned, ""
	if r.MaybeSent {
		return r.put(RunOwner, RunState|RunOwner, to)
	}
	to.Address = ""
	return r.put(RunOwner, RunState|RunOwner|RunAddress, to)
}

// Wait queues a run that has no owner and was never sent, until an executor is available.
func (r *Run) Wait() RunPut {
	to := *r
	to.State = Queued
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunState, to)
}

// SkipUnsent skips a run that has no owner and was never sent.
func (r *Run) SkipUnsent(reason Reason, at time.Time) RunPut {
	to := Run{State: Skipped, Reason: reason, EndedAt: at}
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunState|RunEnd, to)
}

// In adds the journal that lists the run to the put.
func (p RunPut) In(k JournalKey) RunPut {
	p.To.Journal, p.Set = k, p.Set|RunJournal
	return p
}

// Told adds a pending notification to a put that skips a run, if the reason can cause one.
func (p RunPut) Told(tells bool) RunPut {
	if tells && SkipTold(p.To.Reason) {
		p.To.PostRun, p.To.KeepLog, p.Set = PostRun{Notice: true}, p.Was.KeepLog, p.Set|RunPostRun
	}
	return p
}

// ClearOwed records that all pending follow-ups of a closed run exist.
func (r *Run) ClearOwed() RunPut {
	return RunPut{ID: r.ID, If: RunState | RunOwes, Was: *r, Set: RunOwes}
}

// NoteLate stores the first result that was reported after a run was closed as lost or timed out.
func (r *Run) NoteLate(l LateResult) RunPut {
	l.At = FromMillis(Millis(l.At))
	return RunPut{ID: r.ID, If: RunState | RunLate, Was: Run{State: r.State}, Set: RunLate, To: Run{Late: &l}}
}

// Kill records who kills an open run. Changes by the run's owner do not conflict with this put.
func (r *Run) Kill(by string, at time.Time) RunPut {
	return r.put(0, RunKill, Run{KillBy: by, KillAt: at})
}

// Replace records that an open run is killed for a newer one, unless it is already killed.
func (r *Run) Replace(newer RunID, at time.Time) RunPut {
	p := r.GiveUp(at)
	p.To.KillBy = replacedBy + newer.String()
	return p
}

// GiveUp records that the time limit of an open run has passed, unless the run is already killed.
func (r *Run) GiveUp(at time.Time) RunPut {
	return RunPut{ID: r.ID, Open: true, If: RunKill, Set: RunKill, To: Run{KillAt: FromMillis(Millis(at))}}
}

// Retime sets the scheduled time, params and addresses of a waiting trigger to the values in to. The run asks for its
// permits again. Until becomes now; if now is not after r.Until, it becomes r.Until plus 1 ms. SentAt
// becomes zero.
func (r *Run) Retime(to Run, now time.Time) RunPut {
	to.SentAt, to.Until, to.Permit = time.Time{}, now, ""
	if !now.After(r.Until) {
		to.Until = r.Until.Add(time.Millisecond)
	}
	return r.put(RunState|RunOwner|RunMaybeSent|RunUntil, RunTime|RunGiven|RunUntil|RunSentAt, to)
}

// End ends an open run with the result in to. The caller adds further conditions.
func End(id RunID, to Run) RunPut {
	return RunPut{ID: id, Open: true, Set: RunState | RunEnd | RunOwes, To: to}
}
