package sim

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// Some jobs come once after all of their parents. Each write of a join is observed here, and
// judged by the ends that were allocated for it and by the outcome of the run.

// rounds holds the checker's knowledge of joins.
type rounds struct {
	noted map[core.RunID]time.Time     // by the ID allocated for an end: when it, or a later one of its parent, was recorded
	full  map[core.RunID]bool          // rounds of which nothing was missing
	over  map[core.RunID]bool          // rounds whose window was over
	now   map[core.JobID]core.Join     // as stored
	last  map[[2]core.JobID]core.RunID // of a join and a parent: the greatest recorded ID
}

func newRounds() rounds {
	return rounds{map[core.RunID]time.Time{}, map[core.RunID]bool{}, map[core.RunID]bool{}, map[core.JobID]core.Join{},
		map[[2]core.JobID]core.RunID{}}
}

// within makes a join of the parents that a job has, one time in two.
func (w *World) within(d *dice, def *core.Def) {
	def.Within = 0
	if len(def.After) > 0 && d.n(2) == 0 {
		def.Within = time.Duration(1+d.n(40)) * time.Second
	}
}

// noted asserts the rules for one write of a join. Callers hold mu.
func (t *truth) noted(was, is *core.Join) {
	if is == nil || is.Round == 0 && (was == nil || was.Round == 0) {
		return
	}
	if was == nil {
		was = &core.Join{}
	}
	round := max(was.Round, is.Round)
	job := round.Job()
	if prev := t.rounds.now[job]; prev.Round != was.Round || prev.Full != was.Full || prev.Over != was.Over ||
		len(prev.Marks) != len(was.Marks) {
		t.fail(round, "the join of job %d was %+v and is written from %+v", job, prev, *was)
	}
	t.rounds.now[job] = *is.Clone()
	mark := func(j *core.Join, parent core.JobID) (core.Mark, bool) {
		i := slices.IndexFunc(j.Marks, func(m core.Mark) bool { return m.Run.Job() == parent })
		if i < 0 {
			return core.Mark{}, false
		}
		return j.Marks[i], true
	}
	if is.Round == 0 {
		r, there := t.run(was.Round)
		switch {
		case !was.Full && !was.Over:
			t.fail(round, "the round of run %d ended with something missing, and before its time", was.Round)
		case !there:
			t.fail(round, "the round of run %d ended, and there is no such run", was.Round)
		case r.State == core.Planned && r.At != r.Slot:
			t.fail(round, "the round of run %d ended, and it waits", was.Round)
		case was.Full && r.Reason == core.ReasonJoin, was.Over && r.State != core.Skipped && !t.wasList(job):
			t.fail(round, "the round ended (full %v, over %v), and run %d is %s: %s", was.Full, was.Over, was.Round, r.State, r.Reason)
		}
		if len(is.Marks) != len(was.Marks) {
			t.fail(round, "with its round the marks %+v became %+v", was.Marks, is.Marks)
		}
		for _, m := range is.Marks {
			if old, _ := mark(was, m.Run.Job()); m.Counts || old.Drawn != m.Drawn {
				t.fail(round, "with its round the mark %+v became %+v", old, m)
			}
		}
		return
	}
	if was.Round != 0 && was.Round != is.Round || was.Full || was.Over || is.Full && is.Over {
		t.fail(round, "a join became %+v from %+v", *is, *was)
	}
	if is.Over {
		t.rounds.over[round] = true
		t.w.count("join over", 1)
		if time.Now().Add(t.w.slack()).Before(is.End.Time()) {
			t.fail(round, "the round of run %d is over %s before its end", round, time.Until(is.End.Time()))
		}
		return
	}
	for _, m := range is.Marks {
		old, had := mark(was, m.Run.Job())
		switch {
		case had && (old == m || old.Run == m.Run && old.Drawn == m.Drawn && !m.Counts): // it may have stopped being a parent
			continue
		case t.owing[m.Drawn] != m.Run || m.Drawn.Job() != job:
			t.fail(round, "run %d is noted for run %d, which it does not owe", m.Run, m.Drawn)
		case t.rounds.last[[2]core.JobID{job, m.Run.Job()}] >= m.Drawn:
			t.fail(round, "the end of run %d is noted by %d, as it or a later one was before", m.Run, m.Drawn)
		}
		t.rounds.noted[m.Drawn] = time.Now()
		t.rounds.last[[2]core.JobID{job, m.Run.Job()}] = m.Drawn
		t.w.count("join noted", 1)
	}
	if !is.Full {
		return
	}
	t.rounds.full[round] = true
	t.w.count("join full", 1)
	if !slices.ContainsFunc(t.jobs[job], func(v revision) bool {
		return !slices.ContainsFunc(v.def.After, func(p core.Parent) bool { m, _ := mark(is, p.ID); return !m.Counts })
	}) {
		t.fail(round, "the round of run %d is full with %+v, and no revision has all of these alone", round, is.Marks)
	}
}

// tooEarly asserts that the end of a join's window is recorded before its run of a revision is skipped. Callers hold mu.
func (t *truth) tooEarly(id core.RunID, rev int64, reason core.Reason) {
	revs := t.jobs[id.Job()]
	if reason == core.ReasonJoin && !t.rounds.over[id] && revs[len(revs)-1].rev == rev {
		t.fail(id, "run %d is skipped by its join, whose window is not recorded as over", id)
	}
}

// counted reports whether the end of a parent needs no run of its child: the child is a join
// that has recorded it or a later one, or that has another parent by now. Callers hold mu.
func (t *truth) counted(drawn core.RunID) bool {
	job, parent := drawn.Job(), t.owing[drawn].Job()
	return t.isJoin(job) && (t.rounds.last[[2]core.JobID{job, parent}] >= drawn ||
		slices.ContainsFunc(t.jobs[job], func(v revision) bool { return v.def.Within > 0 && !v.def.ComesAfter(parent) }))
}

// joined asserts that a run which waits is sent on its way by a round that is full. Callers hold mu.
func (t *truth) joined(p *core.RunPut, was *core.Run) {
	t.story(p.ID).born = time.Now()
	if !t.rounds.full[p.ID] || !was.AwaitsJoin() {
		t.fail(p.ID, "run %d is sent on its way as a join that is full, and is %s of slot %s", p.ID, was.State, was.Slot)
	}
}

// wasList reports whether some revision of a job came after each of its parents separately:
// then a later actor may have made the run that began a round as a run of such a list. Callers
// hold mu.
func (t *truth) wasList(job core.JobID) bool {
	return slices.ContainsFunc(t.jobs[job], func(v revision) bool { return v.def.Within == 0 })
}

// isJoin reports whether some revision of a job was one. Callers hold mu.
func (t *truth) isJoin(job core.JobID) bool {
	return slices.ContainsFunc(t.jobs[job], func(v revision) bool { return v.def.Within > 0 })
}

// roundsEnded asserts that each round has its right final state.
func (w *World) roundsEnded() {
	t := w.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.rounds.full {
		if r, ok := t.run(id); !ok || r.State == core.Planned || r.Reason == core.ReasonJoin || t.rounds.over[id] {
			t.fail(id, "all parents of run %d have closed, and it is %s: %s, there %v", id, r.State, r.Reason, ok)
		}
	}
	for id := range t.rounds.over {
		if r, ok := t.run(id); !ok || r.State != core.Skipped && !t.wasList(id.Job()) {
			t.fail(id, "the window of run %d is over, and it is %s: %s, there %v", id, r.State, r.Reason, ok)
		}
	}
	for job, j := range t.rounds.now {
		// An actor that died before ending it leaves a round over; the next actor continues with its run.
		r, stored := t.run(j.Round)
		if j.Round == 0 || stored && !r.AwaitsJoin() {
			continue
		}
		if revs := t.jobs[job]; (j.Full || j.Over || !stored) && !(len(revs) > 0 && revs[len(revs)-1].deleted) {
			t.fail(j.Round, "in the end the join of job %d is %+v, and its run is stored: %v", job, j, stored)
		}
	}
}
