package core

import (
	"slices"
	"time"
)

// RunFields are some of a run's.
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
	RunPermit // of RunGiven alone, whose others are in To as they were read; a put has one of the two
	RunUnder  // SentRev, Notice
	RunAside  // Aside, KeepLog
)

// RunPut is one conditional write of a stored run: where the fields of If are as in
// Was, it is open if Open says so, and if Had says so as Run.Had says, those of
// Set become as in To. Who made it names
// in If what he saw and decided by, and no more: what another may write meanwhile, as
// a person a kill beside the owner, does not refuse it.
type RunPut struct {
	ID   RunID
	Open bool
	Had  bool
	If   RunFields
	Was  Run
	Set  RunFields
	To   Run
	// Seen is the run as it was read before. Where it is nil and the put ends the run,
	// the store sets it to the run as it was before its end or is after it, at the price
	// of no read where the write itself can tell; nil stays of one that could not be told.
	Seen *Run
}

// runFields says of each field how it is compared and how it is set, in their order.
// One that nothing is decided by is not compared.
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
	{func(r, was *Run) bool { return r.Aside == was.Aside && r.KeepLog == was.KeepLog },
		func(r, to *Run) { r.Aside, r.KeepLog = to.Aside, to.KeepLog }},
}

// Holds reports whether a run, as stored, meets the condition.
func (p *RunPut) Holds(r *Run) bool {
	for n := range runFields {
		if p.If&(1<<n) != 0 && !runFields[n].same(r, &p.Was) {
			return false
		}
	}
	return (!p.Open || r.State.Open()) && (!p.Had || r.Had())
}

// Apply makes of a run what the put makes of the stored one.
func (p *RunPut) Apply(r *Run) {
	for n := range runFields {
		if p.Set&(1<<n) != 0 {
			runFields[n].set(r, &p.To)
		}
	}
}

// Ends reports whether the put ends a run.
func (p *RunPut) Ends() bool { return p.Set&RunState != 0 && !p.To.State.Open() }

// Made reports whether a run that was read afterwards was ended by the put: of one whose
// answer was lost.
func (p *RunPut) Made(r *Run) bool {
	return p.ID == r.ID && p.Ends() && r.State == p.To.State && r.Reason == p.To.Reason && r.Code == p.To.Code && r.Then == p.To.Then &&
		Millis(r.EndedAt) == Millis(p.To.EndedAt)
}

// GoesOn reports whether another attempt follows the run that the put ends.
func (p *RunPut) GoesOn() bool { return p.To.Then != 0 }

// Uncounted takes from a run as read, that nobody has and nobody sent, the name of its permits
// (section 9 of the protocol, given and nobody is there): it asks anew. Its until is a later
// one, so that whoever has read it before claims nothing by that.
func (r *Run) Uncounted(now time.Time) RunPut {
	to := *r
	to.Permit, to.Until = "", now
	if !to.Until.After(r.Until) {
		to.Until = r.Until.Add(time.Millisecond)
	}
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunUntil|RunPermit, to)
}

// Counted has a put that takes a run, or has it wait, note which limits count it.
func (p RunPut) Counted(permit string) RunPut {
	if p.Was.Permit != permit {
		p.To.Permit, p.Set = permit, p.Set|RunPermit
	}
	return p
}

// Under has a put that takes a run note what it goes by of its job as read: the revision,
// where that is not the run's own, and whether people may have to be told of the end.
func (p RunPut) Under(rev int64, tells bool) RunPut {
	if rev == p.Was.Rev {
		rev = 0
	}
	if p.Was.SentRev != rev || p.Was.Notice != tells {
		p.To.SentRev, p.To.Notice, p.Set = rev, tells, p.Set|RunUnder
	}
	return p
}

// put is one of an open run as read.
func (r *Run) put(if_, set RunFields, to Run) RunPut {
	return RunPut{ID: r.ID, Open: true, If: if_, Was: *r, Set: set, To: to, Seen: r}
}

// Claim is what an invocation says of itself in the runs that are its own.
type Claim struct {
	Owner   string
	Until   time.Time
	Journal JournalKey
}

// Take is table C of the protocol: an invocation becomes the owner of a run as read.
// Its until is later than the one read, so that none is written twice: what was read
// before names a state that is gone. Address counts where the run has none, at where it
// was never sent, tries where there are any.
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

// Readdress is table E: its owner moves a run to another address, for this one was
// proven not to have it. With the same address it only replaces the tries.
func (r *Run) Readdress(address string, tries []Try) RunPut {
	to := *r
	to.Address, to.Tries = address, tries
	return r.put(RunOwner|RunAddress, RunAddress|RunTries, to)
}

// GiveBack is table G: its owner ends that; one that may have been sent keeps its
// address for ever. Until stays: what was read before names another, and claims nothing.
func (r *Run) GiveBack() RunPut {
	to := *r
	to.State, to.Owner = Planned, ""
	if r.MaybeSent {
		return r.put(RunOwner, RunState|RunOwner, to)
	}
	to.Address = ""
	return r.put(RunOwner, RunState|RunOwner|RunAddress, to)
}

// Wait notes that a run as read, that nobody has and nobody sent, waits for an executor.
func (r *Run) Wait() RunPut {
	to := *r
	to.State = Queued
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunState, to)
}

// SkipUnsent ends a run as read that nobody has, and nobody sent.
func (r *Run) SkipUnsent(reason Reason, at time.Time) RunPut {
	to := Run{State: Skipped, Reason: reason, EndedAt: at}
	return r.put(RunOwner|RunUntil|RunMaybeSent, RunState|RunEnd, to)
}

// In has a put name the journal that lists its run.
func (p RunPut) In(k JournalKey) RunPut {
	p.To.Journal, p.Set = k, p.Set|RunJournal
	return p
}

// Told has a put that skips a run as read owe that people are told, where they may have to be.
func (p RunPut) Told(tells bool) RunPut {
	if tells && SkipTold(p.To.Reason) {
		p.To.Aside, p.To.KeepLog, p.Set = Aside{Notice: true}, p.Was.KeepLog, p.Set|RunAside
	}
	return p
}

// ClearOwed notes that what a closed run as read owes has been made.
func (r *Run) ClearOwed() RunPut {
	return RunPut{ID: r.ID, If: RunState | RunOwes, Was: *r, Set: RunOwes}
}

// NoteLate keeps what was reported of a run that had been closed as lost or timed out,
// the first time.
func (r *Run) NoteLate(l LateResult) RunPut {
	l.At = FromMillis(Millis(l.At))
	return RunPut{ID: r.ID, If: RunState | RunLate, Was: Run{State: r.State}, Set: RunLate, To: Run{Late: &l}}
}

// Kill notes who kills an open run; its owner may do with it what he likes meanwhile.
func (r *Run) Kill(by string, at time.Time) RunPut {
	return r.put(0, RunKill, Run{KillBy: by, KillAt: at})
}

// Replace notes that an open run is killed for a newer one, where nothing killed it yet.
func (r *Run) Replace(newer RunID, at time.Time) RunPut {
	p := r.GiveUp(at)
	p.To.KillBy = replacedBy + newer.String()
	return p
}

// GiveUp notes that the time of an open run is over, where nobody has killed it.
func (r *Run) GiveUp(at time.Time) RunPut {
	return RunPut{ID: r.ID, Open: true, If: RunKill, Set: RunKill, To: Run{KillAt: FromMillis(Millis(at))}}
}

// Retime gives a trigger that waits, as read, the instant, params and addresses of to.
// Its until becomes now, or later than the one read, and it has not been sent. The limits
// that count it are taken anew.
func (r *Run) Retime(to Run, now time.Time) RunPut {
	to.SentAt, to.Until, to.Permit = time.Time{}, now, ""
	if !now.After(r.Until) {
		to.Until = r.Until.Add(time.Millisecond)
	}
	return r.put(RunState|RunOwner|RunMaybeSent|RunUntil, RunTime|RunGiven|RunUntil|RunSentAt, to)
}

// End ends an open run as to says; what it depends on besides is the caller's to add.
func End(id RunID, to Run) RunPut {
	return RunPut{ID: id, Open: true, Set: RunState | RunEnd | RunOwes, To: to}
}
