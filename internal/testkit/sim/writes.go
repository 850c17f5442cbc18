package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/store"
)

// The writes of all processes. Each is made under mu, recorded, and judged by the state before and after it. The rules are
// in docs/internals/claim-protocol.md, section 7.

// watched are the kinds of the records that the truth judges.
var watched = []string{"app", "executors", "global", "journal", "permit", "skip"}

// snapshot has records as they were read.
type snapshot struct {
	store.Records // nothing else is read
	found         map[store.Key]store.Record
}

func (s snapshot) Get(context.Context, ...store.Key) (map[store.Key]store.Record, error) {
	return s.found, nil
}

// reads returns a store with the present form of some records.
func (t *truth) reads(keys []store.Key) (*store.Store, map[store.Key]store.Record) {
	found, err := t.store.Records.Get(bg, keys...)
	if err != nil {
		t.fail(0, "read the records %v: %v", keys, err)
	}
	return &store.Store{Records: snapshot{found: found}}, found
}

func (t *truth) putRecords(ctx context.Context, groups []store.Group) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var writes []*store.Write
	var of []int
	var keys []store.Key
	for i := range groups {
		for k := range groups[i].Writes {
			if w := &groups[i].Writes[k]; slices.Contains(watched, kindOf(w.Kind)) {
				writes, of, keys = append(writes, w), append(of, i), append(keys, w.Key)
			}
		}
	}
	if len(keys) == 0 {
		return t.store.Records.Write(ctx, groups...)
	}
	was, before := t.reads(keys)
	errs := t.store.Records.Write(ctx, groups...)
	is, after := t.reads(keys)
	for i, w := range writes {
		b, a := before[w.Key], after[w.Key]
		if t.took(0, "a write of a record of kind "+w.Kind, errs[of[i]], func() bool { return a.V != b.V || !bytes.Equal(a.Body, b.Body) }) {
			if !w.Delete && a.V != w.V {
				t.fail(0, "the record %q of kind %s was written in version %d over version %d, and has version %d", w.Name, w.Kind, w.V, b.V, a.V)
			}
			t.written(ctx, w, was, is)
		}
	}
	return errs
}

// written asserts the rules for a record that was written.
func (t *truth) written(ctx context.Context, w *store.Write, before, after *store.Store) {
	_, of, _ := strings.Cut(w.Kind, "#")
	switch kindOf(w.Kind) {
	case "app":
		found, _ := after.Apps(bg, w.Name)
		a := found[w.Name].Is
		t.pausedBy(w.Name, a.Pause, a.Rev)
	case "executors":
		t.there()
	case "global":
		was, _ := before.Global(bg)
		is, _ := after.Global(bg)
		t.pausedBy("", is.Pause, is.Rev)
		for p := is.Readable; p < was.Readable; p++ { // partitions that are not read from now on
			if left, _ := t.store.Jobs.Due(bg, p, core.Horizon, core.DueItem{}, 1); len(left) > 0 {
				t.fail(left[0].Run, "partition %d is given up, and has %+v", p, left[0])
			}
		}
	case "journal":
		key, err := store.ParseJournalName(w.Name)
		was, _ := before.Journals(bg, []core.JournalKey{key})
		is, err2 := after.Journals(bg, []core.JournalKey{key})
		j := is[key]
		old, ok := was[key]
		same := ok && old.V == j.V && slices.Equal(old.Entries, j.Entries) // written again for a longer life
		if ok && old.V >= j.V && !same || errors.Join(err, err2) != nil {
			t.fail(0, "journal %s was stored in version %d over version %d: %v, %v", key, j.V, old.V, err, err2)
		}
		t.journals[key] = struct{}{}
		for _, e := range j.Entries {
			t.trace(ctx, e.Run, "journal %s v%d: %s", key, j.V, e.Outcome)
			if e.Outcome.Settled() {
				t.settled[e.Run] = true
			}
		}
	case "permit":
		was, _ := before.Permits(bg, []string{of})
		is, _ := after.Permits(bg, []string{of})
		t.permitsWritten(was[of], is[of])
	case "skip":
		var k core.Skip
		if err := json.Unmarshal(w.Body, &k); err != nil {
			t.fail(0, "a skip that cannot be read: %v: %s", err, w.Body)
		}
		t.covers[k.Job] = append(t.covers[k.Job], cover{k.First, k.Last, time.Now()})
		t.trace(ctx, core.RunID(k.Job), "skipped %s to %s: %s", k.First, k.Last, k.Reason)
	}
}

// Runs.

// runVerb returns the name of the operation of writes of runs, which are of one kind.
func runVerb(puts []store.RunPut) string {
	if len(puts) == 0 {
		return ""
	}
	switch p := &puts[0]; {
	case p.Create != nil && p.Enter != nil:
		return "PutTriggered"
	case p.Create != nil:
		return "Create"
	case p.Drop != nil:
		return "DropRuns"
	case p.Enter != nil:
		return "ChangeTriggered"
	default:
		return verb(p.Change)
	}
}

// putRuns fails the simulation if a completed write did not meet its condition, or if a run breaks a rule.
func (t *truth) putRuns(ctx context.Context, puts []store.RunPut) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := make([]core.Run, len(puts))
	done := t.yields(ctx, func() {
		for i := range puts {
			if c := puts[i].Change; c != nil {
				before[i], _ = t.run(c.ID)
			}
		}
	})
	errs := t.store.Runs.Put(ctx, puts)
	done()
	for i, err := range errs {
		switch p := &puts[i]; {
		case p.Create != nil:
			r := p.Create
			t.trace(ctx, r.ID, "create %s %s rev %d owner %s: %v", r.State, r.Reason, r.Rev, r.Owner, err)
			if t.took(r.ID, "a new run", err, func() bool {
				_, ok := t.run(r.ID)
				return ok && !t.known[r.ID]
			}) {
				t.created(ctx, r)
				if p.Enter != nil {
					t.story(r.ID).made = time.Now()
					t.entered(r.ID)
				}
			}
		case p.Change != nil && p.Enter != nil:
			t.rescheduled(ctx, p.Change, &before[i], err)
		case p.Change != nil:
			if t.tookChange(ctx, puts[:i], p.Change, &before[i], err) {
				t.changed(ctx, p.Change, &before[i])
			}
		}
	}
	return errs
}

// rescheduled fails the simulation if a run that has an owner is given another time.
func (t *truth) rescheduled(ctx context.Context, c *core.RunPut, was *core.Run, err error) {
	id := c.ID
	t.trace(ctx, id, "change to slot %s, until %s: %v", c.To.Slot, c.To.Until.Format("15:04:05.000"), err)
	t.recount(id)
	if !t.took(id, "a change", err, func() bool {
		r, _ := t.run(id)
		return r.Until.Equal(c.To.Until) && !was.Until.Equal(r.Until)
	}) {
		return
	}
	t.moved[id] = true
	if r, ok := t.run(id); ok {
		t.joins(&r)
	}
	t.story(id).born = time.Now()
	t.w.count("trigger changed", 1)
	if !fixture.Holds(c, was) {
		t.fail(id, "run %d was changed as one that waits, and was %s, of %q until %s", id, was.State, was.Owner, was.Until)
	}
}

// tookChange reports whether a change of a run was made. Earlier are the writes of the same call before it.
func (t *truth) tookChange(ctx context.Context, earlier []store.RunPut, p *core.RunPut, was *core.Run, err error) bool {
	t.trace(ctx, p.ID, "%s from %q to %q %s %s %s owes %v: %v", verb(p), p.Was.Owner, p.To.Owner, p.To.State, p.To.Reason, p.To.Address,
		p.To.Owes, err)
	return t.took(p.ID, verb(p), err, func() bool {
		if slices.ContainsFunc(earlier, func(o store.RunPut) bool { return o.Change != nil && o.Change.ID == p.ID }) {
			return false // the effect may be the other one's
		}
		is, there := t.run(p.ID)
		to := is
		p.Apply(&to)
		for _, at := range []*time.Time{&to.Until, &to.SentAt, &to.KillAt, &to.EndedAt} {
			*at = core.FromMillis(core.Millis(*at))
		}
		return there && reflect.DeepEqual(to, is) && !reflect.DeepEqual(is, *was)
	})
}

// changed asserts the rules for a change of a run that was made.
func (t *truth) changed(ctx context.Context, p *core.RunPut, was *core.Run) {
	does := verb(p)
	// Fields that the decision relies on are compared here, whether or not the put compares them.
	owned := does == "TakeOver" || does == "GiveBack" || does == "Readdress" || does == "Wait" || does == "Spread"
	if !fixture.Holds(p, was) || owned && (!was.State.Open() || was.Owner != p.Was.Owner) {
		t.fail(p.ID, "%s of run %d was done on a condition that it did not meet: %+v of %+v", does, p.ID, *p, *was)
	}
	switch does {
	case "MarkKilled":
		t.story(p.ID).marked = time.Now()
		t.replaced(p, was)
	case "SkipUnsent", "CloseRuns":
		t.tooEarly(p.ID, was.Rev, p.To.Reason)
		t.endsFor(p, was)
		t.ended(ctx, p, does == "CloseRuns")
	case "Spread":
		if is, _ := t.run(p.ID); was.MayHaveBeenSent() {
			t.fail(p.ID, "run %d has become a broadcast, but was claimed before: %+v", p.ID, *was)
		} else {
			t.spreads(&is)
		}
	case "TakeOver":
		t.w.claimed(&core.Run{ID: p.ID, Owner: p.To.Owner, Until: p.To.Until})
		t.taken(ctx, p, was)
	case "Wait":
		is, _ := t.run(p.ID)
		t.queued(ctx, &is)
	case "GiveBack":
		if r, _ := t.run(p.ID); was.MaybeSent && r.Address != was.Address {
			t.fail(p.ID, "run %d was given back without its address although it may have been sent", p.ID)
		}
	case "Readdress": // 7.2; a Readdress without a change only records where a run is found
		switch {
		case p.To.Address == was.Address:
		case was.MaybeSent:
			t.fail(p.ID, "run %d moved from %s to %s although it may have been sent", p.ID, was.Address, p.To.Address)
		case len(t.story(p.ID).arrivals) > 0:
			t.fail(p.ID, "run %d moved from %s to %s although it arrived there", p.ID, was.Address, p.To.Address)
		}
	case "Joined":
		t.joined(p, was)
	case "Draw":
		t.drawn(p, was)
	case "ClearOwed":
		t.owedMade(p, was)
	case "ClearPostRun":
		t.postRunMade(p.ID, was)
	}
}

// owedMade asserts 7.5: each cleared follow-up exists, and is or was on its way.
func (t *truth) owedMade(p *core.RunPut, was *core.Run) {
	if len(p.To.Owes) == 0 {
		delete(t.owes, p.ID)
	}
	for _, o := range was.Owes {
		if slices.Contains(p.To.Owes, o) {
			continue
		} else if o.Pause {
			t.pauseMade(p.ID)
		} else if t.counted(o.Run) {
			continue
		} else if _, ok := t.run(o.Run); !ok {
			t.fail(p.ID, "run %d owes nothing any more, and run %d was never made", p.ID, o.Run)
		} else if !t.named[o.Run] {
			t.fail(p.ID, "run %d owes nothing any more, and run %d was never sent on its way", p.ID, o.Run)
		}
	}
	t.placed(p)
	t.owesPostRun(p.ID)
}

// verb returns the name of a put's operation.
func verb(p *core.RunPut) string {
	switch {
	case !p.Was.IsBroadcast() && p.To.IsBroadcast() && p.Set&core.RunGiven != 0:
		return "Spread"
	case p.Ends() && p.Set&core.RunOwes == 0:
		return "SkipUnsent"
	case p.Ends():
		return "CloseRuns"
	case p.Set&core.RunOwner != 0 && p.To.Owner != "":
		return "TakeOver"
	case p.Set&core.RunOwner != 0:
		return "GiveBack"
	case p.Set&core.RunAddress != 0:
		return "Readdress"
	case p.Set&core.RunTime != 0:
		return "Joined"
	case p.Set&core.RunOwes != 0 && len(p.To.Owes) > 0 && p.Set&core.RunPlace == 0:
		return "Draw"
	case p.Set&core.RunOwes != 0:
		return "ClearOwed"
	case p.Set&core.RunKill != 0:
		return "MarkKilled"
	case p.Set&core.RunPostRun != 0:
		return "ClearPostRun"
	case p.Set&core.RunState != 0:
		return "Wait"
	}
	return "NoteLate"
}

func (t *truth) created(ctx context.Context, r *core.Run) {
	t.known[r.ID] = true
	t.w.claimed(r)
	t.joins(r)
	t.born(r)
	if r.State.Open() {
		t.open[r.ID] = struct{}{}
	} else {
		t.tooEarly(r.ID, r.Rev, r.Reason)
		t.over = append(t.over, r.ID)
		t.decided(r.ID)
	}
	if _, planned := r.ID.Planned(); !planned && t.wholes[r.ID] == 0 {
		t.story(r.ID).born = time.Now()
	}
	if r.IsBroadcast() {
		t.spreads(r)
	}
	if r.Cause == core.CauseRetry && t.wholes[r.ID] == 0 {
		if _, ok := t.owing[r.ID]; !ok {
			t.fail(r.ID, "retry %d was made and no run owes it", r.ID)
		}
	}
	if r.State == core.Queued {
		t.queued(ctx, r)
	}
	if revs := t.jobs[r.ID.Job()]; r.Cause == core.CauseParent && r.Rev == 0 && len(revs) > 0 && !revs[len(revs)-1].deleted {
		t.fail(r.ID, "child %d was made without its job, which is there", r.ID)
	}
	t.claimed(ctx, r.Owner)
	if at, planned := r.ID.Planned(); planned && r.Owner != "" {
		for _, rev := range t.jobs[r.ID.Job()] {
			// Checked once, before the claim, which is retried until the deadline.
			if late := r.SentAt.Sub(r.Slot.Time()); rev.rev == r.Rev && rev.sched.Misfire == core.MisfireSkip && late > rev.sched.Grace+
				t.w.deployed.invocation+t.w.slack() {
				t.fail(r.ID, "run %d (instant %s) was claimed %s after its slot, with policy skip and grace %s", r.ID, at, late, rev.sched.Grace)
			}
		}
	}
}

// taken asserts 7.3: the new owner saw until pass by its clock, and only then read the journal
// that the claim named, and the journal did not show that an executor has the run.
func (t *truth) taken(ctx context.Context, p *core.RunPut, was *core.Run) {
	t.claimed(ctx, p.To.Owner)
	if was.Address != p.Was.Address || core.Millis(was.Until) != core.Millis(p.Was.Until) {
		t.fail(was.ID, "run %d was taken over at %q until %s, and it was at %q until %s", was.ID, p.Was.Address, p.Was.Until, was.Address,
			was.Until)
	}
	if was.Owner == "" {
		return
	}
	t.w.count("take-over", 1)
	st := t.story(p.ID)
	st.takes++
	inv := invocationOf(ctx)
	if inv == nil {
		return
	}
	inv.mu.Lock()
	saw, ok := inv.journals[was.Journal]
	inv.mu.Unlock()
	stepped := inv.in.p.steppedWithin(30 * time.Second)
	switch {
	case !ok:
		t.fail(was.ID, "run %d was taken over from %s without a read of its journal", was.ID, was.Owner)
	case saw.settled[was.ID]:
		t.fail(was.ID, "run %d was taken over from %s although an executor has it by its journal", was.ID, was.Owner)
	case saw.clock.Before(was.Until) && !stepped:
		t.fail(was.ID, "run %d was taken over from %s: its journal was read %s before until had passed", was.ID, was.Owner,
			was.Until.Sub(saw.clock))
	}
	st.looked = append(st.looked, time.Now())
}

// ended records an end; reported: an executor reported it.
func (t *truth) ended(ctx context.Context, p *core.RunPut, reported bool) {
	delete(t.open, p.ID)
	t.over = append(t.over, p.ID)
	t.leaves(p)
	if reported {
		c := &p.To
		if r, _ := t.run(p.ID); r.Data != c.Data {
			t.fail(p.ID, "run %d was closed with the data %q, and has %q", p.ID, c.Data, r.Data)
		} else if len(c.Message) > 300 && (r.Message != c.Message || r.State != c.State) {
			t.fail(p.ID, "run %d was closed as %s with a message of %d bytes, and is %s with %d", p.ID, c.State, len(c.Message), r.State,
				len(r.Message))
		} else if len(c.Message) > 300 {
			t.w.count("long message", 1)
		}
		t.story(p.ID).closed = time.Now()
		t.story(p.ID).left = t.story(p.ID).left || t.story(p.ID).decided.IsZero() && invocationOf(ctx) == nil
	}
	t.decided(p.ID)
	r, _ := t.run(p.ID)
	if r.Owing() {
		t.owes[p.ID] = struct{}{}
	}
	t.owesNotice(&r)
	if !p.GoesOn() {
		t.chainEnds(&r)
	}
	for _, o := range p.To.Owes {
		if !o.Pause {
			t.owe(p.ID, o.Run)
		}
	}
}

// owe records that a closed run owes another one, and asserts that no other owes it.
func (t *truth) owe(by, run core.RunID) {
	if other, ok := t.owing[run]; ok {
		t.fail(by, "run %d owes %d, which run %d owes already", by, run, other)
	}
	t.owing[run] = by
}

// Jobs and the due index.

// jobVerb returns the name of the operation of writes of jobs, which are of one kind.
func jobVerb(puts []store.JobPut) string {
	if len(puts) == 0 {
		return ""
	}
	switch p := &puts[0]; {
	case p.Create != nil:
		return "CreateJobs"
	case p.Update != nil:
		return "UpdateJobs"
	case p.Delete != nil:
		return "DeleteJob"
	case p.Advance != nil:
		return "Advance"
	case p.Enter != nil:
		return "PutEntries"
	default:
		return "RemoveEntries"
	}
}

// putJobs makes each edit by itself, so that it is judged by the state right before it.
func (t *truth) putJobs(ctx context.Context, puts []store.JobPut) (errs []error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(puts, func(p store.JobPut) bool { return p.Create != nil || p.Update != nil || p.Delete != nil }) {
		return t.putSome(ctx, puts)
	}
	for i := range puts {
		errs = append(errs, t.putSome(ctx, puts[i:i+1])...)
	}
	return errs
}

func (t *truth) putSome(ctx context.Context, puts []store.JobPut) []error {
	var ids []core.JobID
	part := store.Planning
	for i := range puts {
		switch p := &puts[i]; {
		case p.Update != nil:
			ids = append(ids, p.Update.Job.Sched.ID)
		case p.Delete != nil:
			ids, part = append(ids, p.Delete.Job), store.Whole
		case p.Advance != nil:
			ids = append(ids, p.Advance.Job)
		}
	}
	var before map[core.JobID]store.Got[*core.Job]
	done := t.yields(ctx, func() { before, _ = t.store.Jobs.Get(bg, part, ids) })
	errs := t.store.Jobs.Put(ctx, puts)
	done()
	was := func(id core.JobID) core.Job {
		if j := before[id].Is; j != nil {
			return *j
		}
		return core.Job{}
	}
	for i, err := range errs {
		switch p := &puts[i]; {
		case p.Create != nil:
			t.jobMade(p.Create, err)
		case p.Update != nil:
			t.edited(p, was(p.Update.Job.Sched.ID).Sched, err)
		case p.Delete != nil:
			t.deleted(p.Delete, was(p.Delete.Job), err)
		case p.Advance != nil:
			t.advanced(ctx, p.Advance, was(p.Advance.Job).Sched, err)
		case p.Enter != nil:
			if t.recount(p.Enter.Run); err == nil || t.entries[p.Enter.Run] > 0 {
				t.named[p.Enter.Run] = true
			}
		case p.Leave != nil:
			t.recount(p.Leave.Run)
		}
	}
	return errs
}

// entered records the new entry of a run.
func (t *truth) entered(run core.RunID) {
	t.recount(run)
	t.named[run] = true
}

func (t *truth) advanced(ctx context.Context, m *core.Advance, s core.Sched, err error) {
	if !t.took(core.RunID(m.Job), "an advance", err, func() bool {
		is, want := t.sched(m.Job), s.Moved(*m)
		place := func(x *core.Sched) [5]int64 {
			return [5]int64{x.Rev, int64(x.Next), int64(x.PlanAt), int64(x.Tail), x.Seq}
		}
		return s.Rev == m.Rev && s.Next == m.Next && s.Tail == m.Tail && place(&is) == place(&want) && place(&is) != place(&s)
	}) {
		return
	}
	if s.Rev != m.Rev || s.Next != m.Next || s.Tail != m.Tail {
		t.fail(core.RunID(m.Job), "job %d was advanced from revision %d, next %s, tail %d, and is of revision %d, next %s, tail %d", m.Job,
			m.Rev, m.Next, m.Tail, s.Rev, s.Next, s.Tail)
	}
	t.w.entered(m.Job)
	t.trace(ctx, core.RunID(m.Job), "advance rev %d next %s to %s planAt %s tail %d to %d", m.Rev, m.Next, m.NewNext, m.NewPlanAt, m.Tail,
		m.NewTail)
	if m.NewRev != 0 {
		if m.NewState == core.Paused {
			t.pausedFor(m, &s)
		}
		t.revised(*t.job(m.Job), false)
		t.jobs[m.Job][len(t.jobs[m.Job])-1].ended = m.NewState != core.Paused
		return
	}
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		t.chainMoved(m, &s)
		return
	}
	end := m.NewNext - 1
	if m.NewNext == 0 {
		end = s.Next + 5000
	}
	t.passed(&s, s.Next, end, "advanced")
}

// jobMade fails the simulation if a create that arrives late restores a job that was already deleted.
func (t *truth) jobMade(j *core.Job, err error) {
	id := j.Def.ID
	if !t.took(0, "a new job", err, func() bool { return t.sched(id).Rev == j.Sched.Rev && len(t.jobs[id]) == 0 }) {
		return
	}
	if n := len(t.jobs[id]); n > 0 && t.jobs[id][n-1].deleted {
		t.fail(0, "job %d was made again after it was deleted", id)
	}
	t.revised(*j, false)
}

// edited fails the simulation if an outdated edit removes the tail, the last run of a fixed-delay chain. Without
// the tail, a second chain starts in addition to the first chain.
func (t *truth) edited(p *store.JobPut, before core.Sched, err error) {
	j := &p.Update.Job
	want := &j.Sched
	if !t.took(core.RunID(want.ID), "an edit", err, func() bool { return t.sched(want.ID).Rev == want.Rev && before.Rev != want.Rev }) {
		return
	}
	_, was := before.Schedule.FixedDelay()
	if _, is := want.Schedule.FixedDelay(); was && is && before.Tail != 0 && want.Tail != before.Tail {
		t.fail(0, "an edit of job %d lost the tail %d of a chain", want.ID, before.Tail)
	}
	list := t.jobs[want.ID]
	for _, c := range p.Changes {
		if n := len(list); n > 0 && (c.Verb == core.VerbPaused || c.Verb == core.VerbResumed) && !list[n-1].def.Equal(j.Def) {
			t.fail(core.RunID(want.ID), "job %d was %s with another definition than revision %d gave it", want.ID, c.Verb, list[n-1].rev)
		}
	}
	t.left(&before, want.RevAt, "edited")
	t.revised(*j, false)
}

func (t *truth) deleted(d *store.JobDelete, j core.Job, err error) {
	if t.took(core.RunID(d.Job), "a deletion", err, func() bool { return t.job(d.Job) == nil && j.Sched.ID != 0 }) {
		t.left(&j.Sched, d.RevAt, "deleted")
		j.Sched.Rev, j.Sched.RevAt = d.Rev, d.RevAt
		t.revised(j, true)
	}
}

// passed asserts 7.6: each instant that a job leaves behind is on a message, or has a run, or is covered.
func (t *truth) passed(s *core.Sched, from, to core.Instant, how string) {
	if s.State != core.Started || from == 0 {
		return
	}
	sch := t.schedule(s)
	for at, n := from, 0; at != 0 && at <= to && n < 5000; n++ {
		id := core.PlannedRun(s.ID, at)
		if t.fires[id] == 0 && !t.settled[id] && !t.covered(s.ID, at) && !t.heals(id) {
			if _, ok := t.run(id); !ok {
				t.fail(id, "job %d was %s over %s, and there is no message, run or record of it", s.ID, how, at)
			}
		}
		next, ok := sch.Next(at)
		if !ok {
			break
		}
		at = next
	}
}

// chainMoved asserts that the chain of a fixed delay moves on only when it has ended, and begins only with a fire on its way.
func (t *truth) chainMoved(m *core.Advance, s *core.Sched) {
	if m.NewTail != 0 && m.NewTail != m.Tail && !t.named[m.NewTail] {
		t.fail(m.Tail, "fixed delay %d has the tail %d, which was never sent on its way", m.Job, m.NewTail)
	}
	if m.Tail == 0 || m.NewTail == m.Tail {
		if m.Tail == 0 && m.NewTail == 0 && m.Next != m.NewNext && m.Next != 0 {
			t.passed(s, m.Next, m.Next, "advanced")
		}
		return
	}
	for id, n := m.Tail, 0; n < 200; n++ {
		r, ok := t.run(id)
		if !ok || r.State.Open() {
			t.fail(m.Tail, "fixed delay %d goes on although run %d of its chain has not ended", m.Job, id)
			return
		}
		if r.Then == 0 {
			return
		}
		id = r.Then
	}
}

// left asserts that an old revision ended with all that was due on a message, in a run or under a record.
func (t *truth) left(s *core.Sched, revAt time.Time, how string) {
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		if s.Tail == 0 && s.Next != 0 && s.Next <= core.InstantOf(revAt) {
			t.passed(s, s.Next, s.Next, how)
		}
		return
	}
	t.passed(s, s.Next, core.InstantOf(revAt), how)
}

// The queue.

func (t *truth) enqueue(ctx context.Context, out []ring.Out) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if inv := invocationOf(ctx); inv != nil {
		t.inLane(inv, out)
	} else {
		t.spreadAgain(out)
	}
	errs := t.store.Queue.Enqueue(ctx, out)
	if t.cloud != nil {
		t.observed(ctx)
		return errs
	}
	for i, err := range errs {
		if err == nil {
			t.lastID++
			t.onRing[t.lastID] = out[i].Message
			t.onQueue(ctx, &out[i].Message, 1, "enqueued until "+out[i].NotBefore.Format("15:04:05.000"))
		}
	}
	return errs
}

func (t *truth) ack(ctx context.Context, done []store.Delivery) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := t.store.Queue.Ack(ctx, done)
	if t.cloud != nil {
		t.observed(ctx)
		return errs
	}
	for i, err := range errs {
		if d := &done[i]; err == nil && !t.acked[d.ID] {
			t.acked[d.ID] = true
			t.went(ctx, d.ID, &d.Message)
		}
	}
	return errs
}
