package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/schedule"
)

// judge lets a world come to rest and counts the outcomes.
func (w *World) judge() {
	for _, p := range w.processes() {
		p.mu.Lock()
		p.down, p.frozen = time.Time{}, time.Time{}
		clear(p.storms)
		p.mu.Unlock()
		if p.offset.Load() != 0 {
			p.step(0)
		}
	}
	if w.cfg.Machine {
		w.setClock(0)
		w.sleep(bg, time.Until(w.truth.latest())) // a clock that was ahead dates changes later
	}
	w.sleep(bg, 10*time.Second)
	paused := []manage.Target{{All: true}}
	apps, _, err := w.people.Apps(bg)
	if err != nil {
		w.fail(0, "read apps: %v", err)
	}
	for _, a := range apps {
		paused = append(paused, manage.Target{App: a.Name})
	}
	for _, t := range paused {
		w.resumes(t)
	}
	w.sleep(bg, 30*time.Second)
	for w.truth.healing() { // which needs jobs that fire
		w.sleep(bg, 5*time.Second)
	}
	w.pauseAll()
	w.drain("after the faults")
	w.redrive(true) // messages that were in hand during the first redrive
	w.chainsGoOn()
	w.permitsFree()
	w.roundsEnded()
	w.audited(w.final())
}

func (w *World) fail(of core.RunID, format string, args ...any) {
	w.truth.mu.Lock()
	defer w.truth.mu.Unlock()
	w.truth.fail(of, format, args...)
}

// allRuns is more runs than a job of any world has. A store allocates room for as many.
const allRuns = 1 << 16

func (w *World) eachJob(do func(j *core.Job)) {
	jobs, _, err := w.truth.store.Jobs.List(bg, "", 0, 1<<20)
	if err != nil {
		w.fail(0, "list jobs: %v", err)
	}
	for _, g := range jobs {
		do(g.Is)
	}
}

// pauseAll pauses all jobs, so that no more instants are demanded.
func (w *World) pauseAll() {
	w.eachJob(func(j *core.Job) {
		if j.Sched.State != core.Ended {
			if _, err := w.people.Pause(bg, god, manage.Target{Job: j.Name()}, manage.PauseRequest{Why: "the end"}); err != nil {
				w.fail(0, "pause %s: %v", j.Name(), err)
			}
		}
	})
}

// drain waits until nothing is open, owed or on its way. Nothing may be for ever.
func (w *World) drain(when string) {
	limit := 90 * time.Minute
	if w.cfg.Machine {
		limit += 2 * maxStep
	}
	for began := time.Now(); ; {
		ok, why := w.truth.quiet()
		if ok {
			return
		}
		if time.Since(began) > limit {
			w.fail(0, "%s later, %s, there are still %s", limit, when, why)
			w.truth.mu.Lock()
			for id := range w.truth.open {
				w.truth.fail(id, "%s", w.truth.describe(id))
				break
			}
			w.truth.mu.Unlock()
			return
		}
		w.sleep(bg, 5*time.Second)
	}
}

// describe returns the known facts of a run; a failure message shows them.
func (t *truth) describe(id core.RunID) string {
	r, _ := t.run(id)
	st := t.story(id)
	text := fmt.Sprintf("run %d: %s owner %q until %s address %q maybe %v journal %s sent %s; %d sends, %d refused, %d arrivals, %d "+
		"take-overs;", id, r.State, r.Owner,
		r.Until.Format("15:04:05.000"), r.Address, r.MaybeSent, r.Journal, r.SentAt.Format("15:04:05.000"), st.sends, st.refused,
		len(st.arrivals), st.takes)
	for m := r.At.Time().Unix()/60 - 1; m < r.At.Time().Unix()/60+40; m++ {
		list, _ := t.store.JournalsAt(bg, m, core.JournalKey{}, 1<<20)
		for _, j := range list {
			if e, ok := j.Find(id); ok {
				text += fmt.Sprintf(" journal %s v%d says %s;", j.Key, j.V, e.Outcome)
			}
		}
	}
	j := t.job(id.Job())
	there := j != nil
	j = cmp.Or(j, &core.Job{})
	cursor, _ := t.store.Cursor(bg)
	return text + fmt.Sprintf(" job there %v: %s rev %d next %s tail %d, timeout %s, cursor %d, began %s", there, j.Sched.State, j.Sched.Rev,
		j.Sched.Next, j.Sched.Tail,
		j.Def.Timeout, cursor, t.w.began.Format("15:04:05"))
}

// chainsGoOn asserts that each fixed delay still fires when it is resumed.
func (w *World) chainsGoOn() {
	at := core.InstantOf(time.Now())
	var fixed []string
	w.eachJob(func(j *core.Job) {
		if _, ok := j.Sched.Schedule.FixedDelay(); ok {
			fixed = append(fixed, j.Name())
			w.resumes(manage.Target{Job: j.Name()})
		}
	})
	if len(fixed) == 0 {
		return
	}
	limit := 30 * time.Minute // a chain may be in a retry that waits for long
	if w.cfg.Machine {
		limit += 2 * maxStep
	} else if w.cfg.Deployed {
		limit *= 6
	}
	for began := time.Now(); len(fixed) > 0; {
		w.sleep(bg, 10*time.Second)
		fixed = slices.DeleteFunc(fixed, func(name string) bool {
			j, err := w.people.Job(bg, name)
			if err != nil {
				w.fail(0, "read %s: %v", name, err)
				return true
			}
			first, last := core.RunRange(j.Def.ID, at, core.Horizon)
			if runs, _ := w.truth.store.Runs.Span(bg, first, last, 1); len(runs) > 0 {
				return true
			}
			if time.Since(began) > limit {
				w.fail(j.Sched.Tail, "fixed delay %s stands still: next %s, tail %d, state %s, planAt %s", name, j.Sched.Next, j.Sched.Tail,
					j.Sched.State, j.Sched.PlanAt)
				return true
			}
			return false
		})
	}
	w.pauseAll()
	w.drain("after the chains")
}

// final counts every instant, every run and everything owed.
func (w *World) final() map[core.JobID]*tally {
	t := w.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	tallies := map[core.JobID]*tally{}
	for id, revs := range t.jobs {
		of := &tally{}
		tallies[id] = of
		first, last := core.RunRange(id, 0, core.Horizon)
		planned, _ := t.store.Runs.Span(bg, first, last, allRuns)
		first, last = core.NumberedRange(id)
		numbered, _ := t.store.Runs.Span(bg, first, last, allRuns)
		skips, _ := t.store.Skips(bg, id, 0, core.Horizon)
		byAt := make(map[core.Instant]*core.Run, len(planned))
		for i := range planned {
			at, _ := planned[i].ID.Planned()
			byAt[at] = &planned[i]
		}
		all := append(slices.Clone(planned), numbered...)
		byID := make(map[core.RunID]*core.Run, len(all))
		for i := range all {
			byID[all[i].ID] = &all[i]
		}
		for i := range revs {
			w.demanded(revs, i, byAt, skips, of)
		}
		for i := range all {
			w.ended(&all[i], revs, byID)
			if _, planned := all[i].ID.Planned(); !planned {
				w.runInTime(&all[i], time.Time{}, cmp.Or(t.owing[all[i].ID], all[i].Shard.Of))
			}
		}
		w.chains(revs, planned, byID)
		w.ranAgain(byID, numbered)
		w.count("fires", len(numbered))
	}
	w.toldAgain()
	for _, a := range w.asked {
		r, ok := t.run(a.run)
		if !ok {
			t.fail(0, "trigger of %s was acknowledged as run %d, which is not there", a.job, a.run)
		} else if a.key != "" && r.Key != a.key {
			t.fail(0, "trigger of %s with key %s was answered with run %d of key %s", a.job, a.key, a.run, r.Key)
		} else if a.params != "" && len(w.changes[a.run]) == 0 && (r.Params == nil || *r.Params != a.params) {
			t.fail(a.run, "run %d has not the %d bytes of params that were acknowledged", a.run, len(a.params))
		}
	}
	for id, of := range w.changes {
		w.changedAsTold(id, of)
	}
	for _, d := range t.deadLetters() {
		t.fail(0, "a message was dead-lettered: %s", d)
	}
	return tallies
}

// changedAsTold asserts that a trigger has the fields of its last known change, and that nothing else was ever sent of it.
func (w *World) changedAsTold(id core.RunID, of []*changed) {
	t := w.truth
	r, ok := t.run(id)
	if !ok {
		return // the check of the requests reports it
	}
	if st := t.stories[id]; st != nil {
		for _, a := range st.arrivals {
			if a.slot != r.Slot || (a.params == nil) != (r.Params == nil) || a.params != nil && *a.params != *r.Params {
				t.fail(id, "run %d was sent for the slot %s, and is of %s; or with other params", id, a.slot, r.Slot)
			}
		}
	}
	var last []*changed // of which none came after another
	for _, c := range of {
		switch {
		case c.refused:
		case c.acked.IsZero():
			return // it may have come at any time
		case !slices.ContainsFunc(of, func(o *changed) bool { return !o.acked.IsZero() && o.began.After(c.acked) }):
			last = append(last, c)
		}
	}
	if len(last) != 1 {
		return
	}
	w.count("changed as told", 1)
	if c := last[0]; c.slot != 0 && r.Slot != c.slot || c.params != "" && (r.Params == nil || *r.Params != c.params) {
		t.fail(id, "run %d was changed to the slot %s at +%.3fs, and is of %s; or has not the %d bytes of params that were acknowledged", id,
			c.slot, c.acked.Sub(w.began).Seconds(), r.Slot, len(c.params))
	}
}

// demanded asserts that each instant that one revision of a job demands has one
// run, or none and a record that covers it with a reason that is true.
func (w *World) demanded(revs []revision, i int, byAt map[core.Instant]*core.Run, skips []core.Skip, of *tally) {
	t, r := w.truth, &revs[i]
	if r.deleted || r.sched.State == core.Paused {
		return
	}
	if _, fixed := r.sched.Schedule.FixedDelay(); fixed {
		of.fixed = true
		return
	}
	if i+1 == len(revs) {
		if r.sched.State == core.Started && len(r.sched.Schedule.Any) > 0 {
			if t.sched(r.sched.ID).State != core.Ended {
				t.fail(0, "job %d was not paused in the end", r.sched.ID)
			}
		}
	}
	end := core.InstantOf(time.Now())
	if i+1 < len(revs) {
		end = core.InstantOf(revs[i+1].revAt)
	}
	sch := t.schedule(&r.sched)
	since := r.stored // until then no process could read it
	if r.ended {
		since = r.revAt
	}
	for at := core.InstantOf(r.revAt); ; {
		next, ok := sch.Next(at)
		if !ok || next > end {
			return
		}
		at = next
		w.count("fires", 1)
		paused := w.inPause(r.def.App, at)
		if !paused {
			of.demanded++
		}
		switch {
		case byAt[at] != nil:
			w.runInTime(byAt[at], since, 0)
			if !paused && !slices.ContainsFunc(skips, func(k core.Skip) bool { return k.Covers(at) }) {
				of.had = append(of.had, at)
			}
			continue
		case paused:
			w.count("not demanded: paused", 1)
			continue
		}
		why := "no run, no record"
		found := false
		for k := range skips {
			if skips[k].Covers(at) {
				if why = w.untrue(&skips[k], revs, i, at, sch); why == "" {
					found = true
					break
				}
			}
		}
		if !found {
			t.fail(core.PlannedRun(r.sched.ID, at), "job %d demanded %s under revision %d: %s", r.sched.ID, at, r.rev, why)
			continue
		}
		w.count("skipped", 1)
		if covered := t.covering(r.sched.ID, at); !covered.IsZero() {
			after, _ := sch.Next(at)
			slot := sch.Slot(r.sched.ID, at, after, after != 0 && after-at < core.Instant(w.deployed.plan.Window/time.Second))
			w.inTime("the record of", []core.RunID{core.PlannedRun(r.sched.ID, at)}, r.def.App, moment, slot.Time(), since, covered, false)
		}
	}
}

// inPause reports that an instant lies in a pause of its app or of everything.
func (w *World) inPause(app string, at core.Instant) bool {
	return slices.ContainsFunc(w.truth.pauses, func(p pauseOf) bool {
		return (p.app == app || p.app == "") && p.pause.Covers(at.Time())
	})
}

// slack is the largest difference between clocks.
func (w *World) slack() time.Duration {
	if w.cfg.Machine {
		return 2*maxStep + 5*time.Second
	}
	if w.cfg.Skew {
		return 5 * time.Second
	}
	return 0
}

// untrue returns why a record does not excuse an instant; empty if it does.
func (w *World) untrue(k *core.Skip, revs []revision, i int, at core.Instant, sch *schedule.Schedule) string {
	r := &revs[i]
	next, _ := sch.Next(at)
	slot := sch.Slot(k.Job, at, next, next != 0 && next-at < core.Instant(w.deployed.plan.Window/time.Second))
	late := k.Made.Add(w.slack()).Sub(slot.Time())
	switch k.Reason {
	case core.ReasonChanged, core.ReasonPaused, core.ReasonDeleted:
		for _, later := range revs[i+1:] {
			if core.InstantOf(later.revAt) >= at && later.rev > k.Rev {
				return ""
			}
		}
		return fmt.Sprintf("its record has the reason %s without a cause", k.Reason)
	case core.ReasonMisfire:
		if r.sched.Misfire == core.MisfireAll || late < r.sched.Grace {
			// A repeat lengthens a record and keeps when it was made.
			if r.sched.Misfire != core.MisfireAll && k.First < at {
				return ""
			}
			return fmt.Sprintf("its record has misfire, %s after its slot, with policy %s and grace %s", late, r.sched.Misfire, r.sched.Grace)
		}
		if r.sched.Misfire == core.MisfireLatest && (next == 0 || next.Time().After(k.Made.Add(w.slack()))) && k.First == at {
			return "its record has the reason misfire, but it was the newest scheduled time then"
		}
	case core.ReasonDeadline:
		if r.sched.Deadline == 0 || late < r.sched.Deadline && k.First == at {
			return fmt.Sprintf("its record has the reason deadline, %s after its slot, with %s", late, r.sched.Deadline)
		}
	default:
		return "its record has the reason " + string(k.Reason)
	}
	return ""
}

// ended asserts that one run ended as the executors reported, and that each follow-up was made; truth.owe asserts that it was
// made once.
func (w *World) ended(r *core.Run, revs []revision, byID map[core.RunID]*core.Run) {
	t := w.truth
	st := t.stories[r.ID]
	if st == nil {
		st = &story{}
	}
	if r.State.Open() || r.Owing() {
		t.fail(r.ID, "run %d is %s and owes %v in the end, and a place %d", r.ID, r.State, r.Owes, r.Place)
		return
	}
	w.endInTime(r, st, revs)
	w.hasChildren(r)
	t.waited(r, st)
	t.inOrder(r)
	last := &revs[len(revs)-1]
	changed := last.rev > r.Rev || len(t.pauses) > 0
	w.count("state "+string(r.State), 1)
	if st.sends > 0 {
		w.count("sent", 1)
	}
	if r.IsBroadcast() {
		w.broadcastEnded(r, byID)
		return
	}
	switch r.State {
	case core.Succeeded:
		if len(st.arrivals) == 0 {
			t.fail(r.ID, "run %d is %s: %s, and no executor had it", r.ID, r.State, r.Reason)
		}
	case core.Failed:
		taken := len(st.arrivals) > 0
		if r.Reason == core.ReasonHandler && !taken || r.Reason == core.ReasonNotAccepted && (st.refused == 0 || taken) ||
			r.Reason == core.ReasonNoExecutor && taken {
			t.fail(r.ID, "run %d is failed: %s, after %d arrivals and %d refusals", r.ID, r.Reason, len(st.arrivals), st.refused)
		}
	case core.Lost, core.TimedOut:
		if st.sends == 0 && !changed {
			t.fail(r.ID, "run %d is lost: %s, and was never sent", r.ID, r.Reason)
		}
	case core.Skipped:
		w.count("skipped", 1)
		if why := w.wrongSkip(r, st, revs); why != "" {
			t.fail(r.ID, "run %d (instant %s, revision %d) is skipped: %s, %s", r.ID, r.At, r.Rev, r.Reason, why)
		}
	}
	if at, planned := r.ID.Planned(); planned {
		for i := range revs {
			if revs[i].rev != r.Rev || revs[i].deleted {
				continue
			}
			if _, fixed := revs[i].sched.Schedule.FixedDelay(); !fixed {
				if next, ok := t.schedule(&revs[i].sched).Next(at - 1); !ok || next != at {
					t.fail(r.ID, "run %d has the instant %s, which revision %d never demanded", r.ID, at, r.Rev)
				}
			}
		}
	}
	if r.State == core.Failed {
		w.heeded(r, byID)
	}
	// Check its follow-ups.
	if r.Then != 0 {
		w.count("retries", 1)
		n, left := byID[r.Then], r.Retries-1
		if r.Reason == core.ReasonSnoozed {
			left = r.Retries // it uses none up
		}
		switch {
		case n == nil:
			t.fail(r.Then, "retry %d of run %d is not there", r.Then, r.ID)
		case n.Attempt != r.Attempt+1 || n.First != r.First || n.Retries != left || n.At != r.At || n.Cause != core.CauseRetry:
			t.fail(n.ID, "retry %d of run %d is %+v", n.ID, r.ID, *n)
		}
	} else if r.Retries > 0 && r.Reason != core.ReasonCancelled && !last.deleted && slices.Contains(last.def.Retry.On, r.State) {
		t.fail(r.ID, "run %d is %s: %s, has %d retries left, and none was made", r.ID, r.State, r.Reason, r.Retries)
	}
}

// wrongSkip returns why a run should not have been skipped; empty if it should.
func (w *World) wrongSkip(r *core.Run, st *story, revs []revision) string {
	if len(st.arrivals) > 0 {
		return "and an executor had it"
	}
	var of *revision
	for i := range revs {
		if revs[i].rev == r.Rev {
			of = &revs[i]
		}
	}
	if of == nil && r.Cause == core.CauseParent && r.Reason == core.ReasonDeleted && revs[len(revs)-1].deleted {
		return "" // it was owed when its job went
	}
	if of == nil {
		return "its revision is not known"
	}
	_, fixed := of.sched.Schedule.FixedDelay()
	late := r.EndedAt.Add(w.slack()).Sub(r.Slot.Time())
	newer := slices.ContainsFunc(revs, func(x revision) bool { return x.rev > r.Rev })
	if !r.Cause.Planned() && (r.Reason == core.ReasonMisfire || r.Reason == core.ReasonDeadline) {
		return "but no check is that late"
	}
	switch r.Reason {
	case core.ReasonChanged, core.ReasonDeleted:
		if !newer {
			return "and nothing changed"
		}
	case core.ReasonPaused:
		paused := slices.ContainsFunc(w.truth.pauses, func(p pauseOf) bool { return p.app == r.App || p.app == "" })
		if !newer && !paused && !(r.Cause == core.CauseRetry && of.sched.State == core.Paused) {
			return "and nothing was paused"
		}
	case core.ReasonMisfire:
		if of.sched.Misfire == core.MisfireAll || late < of.sched.Grace {
			return fmt.Sprintf("%s after its slot, with policy %s and grace %s", late, of.sched.Misfire, of.sched.Grace)
		}
		// A run may carry an older revision than the fire that let it fall.
		if next, ok := w.truth.schedule(&of.sched).Next(r.At); !newer && !fixed && of.sched.Misfire == core.MisfireLatest &&
			(!ok || next.Time().After(r.EndedAt.Add(w.slack()))) {
			return "and it was the newest instant then"
		}
	case core.ReasonDeadline:
		if of.sched.Deadline == 0 || late < of.sched.Deadline {
			return fmt.Sprintf("%s after its slot, with a deadline of %s", late, of.sched.Deadline)
		}
	case core.ReasonOverlap:
		if o := w.overlapOf(&of.def); of.def.Block != core.BlockDiscardLater && o.Full == core.FullQueue && o.Group == "" {
			return "and no executor refused it for that"
		}
	case core.ReasonQueueFull:
		if w.overlapOf(&of.def).Full != core.FullQueue {
			return "and it could not wait"
		}
	case core.ReasonCancelled:
		whole, _ := w.truth.run(r.Shard.Of)
		if r.Cause.Planned() && !fixed && !st.queued && whole.KillBy == "" {
			return "but no process could"
		}
	case core.ReasonJoin:
		if !w.truth.rounds.over[r.ID] && !(newer && r.At != r.Slot) {
			return "and its window was not over"
		}
	default:
		return "which cannot be"
	}
	return ""
}

// chains asserts that the chains of a fixed delay never overlap, except in the window of a job
// that is changed before the advance that makes a fire on the ring its tail.
func (w *World) chains(revs []revision, planned []core.Run, byID map[core.RunID]*core.Run) {
	if _, fixed := revs[0].sched.Schedule.FixedDelay(); !fixed {
		return
	}
	w.count("fires", len(planned))
	slices.SortFunc(planned, func(a, b core.Run) int {
		if w.cfg.Machine { // a clock set back makes later fires of earlier instants
			return w.truth.begun(a.ID).Compare(w.truth.begun(b.ID))
		}
		return cmp.Compare(a.At, b.At)
	})
	var before time.Time // when the chain before ended
	var of core.RunID
	var rev int64 // of that chain
	for i := range planned {
		r := &planned[i]
		st := w.truth.stories[r.ID]
		if st != nil && len(st.arrivals) > 0 && st.arrivals[0].at.Before(before) {
			if r.Rev != rev {
				w.count("window: a fixed delay changed before its tail", 1)
				continue
			}
			w.truth.fail(r.ID, "fixed delay: run %d began %s before the chain of run %d ended", r.ID, before.Sub(st.arrivals[0].at), of)
		}
		for r != nil {
			if st := w.truth.stories[r.ID]; st != nil && st.closed.After(before) {
				before, of, rev = st.closed, planned[i].ID, planned[i].Rev
			}
			if r.Then == 0 {
				break
			}
			r = byID[r.Then]
		}
	}
}

// begun is when the first thing was done of a run.
func (t *truth) begun(id core.RunID) time.Time {
	st := t.stories[id]
	switch {
	case st == nil:
		return time.Time{}
	case len(st.arrivals) > 0:
		return st.arrivals[0].at
	}
	return st.closed
}

// report0 is the figures of a world that has ended.
func (w *World) report0() Report {
	t := w.truth
	refused := t.cloud.refusals() // first: the rest may follow from it
	runs := map[core.JobID][]core.Run{}
	for i := range w.cfg.Jobs {
		n := core.JobID(i + 1)
		var err error
		if runs[n], err = t.store.Runs.Span(bg, core.RunID(int64(n)<<32), core.RunID(int64(n+1)<<32)-1, allRuns); err != nil {
			w.fail(0, "read runs: %v", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return Report{Virtual: time.Since(w.began), Counts: w.counts, Faults: slices.Concat(refused, t.faults),
		Broken: len(refused) + t.nfaults, w: w, runs: runs}
}
