package sim

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// Some jobs come after others. The checks here see only the writes: each end of a chain makes
// each child that comes after it, once, and no other.

// parents has one job in six come after others of a list.
func (w *World) parents(d *dice, def *core.Def, of []string) {
	if d.n(6) > 0 || len(of) == 0 {
		return
	}
	def.After = nil
	for range 1 + d.n(3) {
		p := core.Parent{Job: of[d.n(len(of))], When: core.Upons[d.n(3)]}
		if !slices.ContainsFunc(def.After, func(o core.Parent) bool { return o.Job == p.Job }) {
			def.After = append(def.After, p)
		}
	}
	w.within(d, def)
}

// kin holds the checker's knowledge of runs that may have children.
type kin struct {
	made   map[core.RunID]time.Time // when a run was
	marked map[core.RunID]bool      // and recorded that its job has children
	of     map[core.RunID]map[core.JobID]core.RunID
	done   map[core.RunID]time.Time // when no place was left
}

func newKin() kin {
	return kin{map[core.RunID]time.Time{}, map[core.RunID]bool{}, map[core.RunID]map[core.JobID]core.RunID{}, map[core.RunID]time.Time{}}
}

// born records a new run. Callers hold mu.
func (t *truth) born(r *core.Run) {
	t.kin.made[r.ID] = time.Now()
	t.kin.marked[r.ID] = r.Place != 0
	if owed := t.owing[r.ID]; r.Cause == core.CauseParent && t.wholes[r.ID] == 0 && (owed == 0 || owed != r.Parent) {
		t.fail(r.ID, "run %d names run %d as its parent, but run %d owes it", r.ID, r.Parent, owed)
	}
}

// comes reports whether a job that waits for when comes after the end of the last run of a
// chain; on lists the end states that the run's job retries.
func comes(when core.ParentCondition, r *core.Run, on []core.State) bool {
	switch when {
	case core.UponSuccess:
		return r.State == core.Succeeded
	case core.UponFailure:
		lost := r.State == core.Lost && slices.Contains(on, core.Lost)
		return r.State == core.Failed || r.State == core.TimedOut || lost || r.State == core.Skipped && r.Attempt > 1
	}
	return r.State != core.Skipped || r.Attempt > 1
}

// follows reports whether a revision of a job comes after the end of a run; on as in comes.
func (v *revision) follows(r *core.Run, on []core.State) bool {
	return !v.deleted && slices.ContainsFunc(v.def.After, func(p core.Parent) bool { return p.ID == r.ID.Job() && comes(p.When, r, on) })
}

// since are the revisions of a job that were in force from a moment on. Callers hold mu.
func (t *truth) since(job core.JobID, at time.Time) []revision {
	revs := t.jobs[job]
	i := len(revs) - 1
	for i > 0 && revs[i].stored.After(at) {
		i--
	}
	return revs[max(i, 0):]
}

// drawn asserts that a closed run owes each child once, and only children that come after its end. Callers hold mu.
func (t *truth) drawn(p *core.RunPut, was *core.Run) {
	t.owes[p.ID] = struct{}{}
	if was.State.Open() || was.Then != 0 || was.State == core.Skipped && was.Attempt == 1 {
		t.fail(p.ID, "children are drawn of run %d, which is %s, attempt %d, followed by %d", p.ID, was.State, was.Attempt, was.Then)
	}
	for _, o := range p.To.Owes {
		t.owe(p.ID, o.Run)
		job := o.Run.Job()
		if t.kin.of[p.ID] == nil {
			t.kin.of[p.ID] = map[core.JobID]core.RunID{}
		}
		if other := t.kin.of[p.ID][job]; other != 0 {
			t.fail(p.ID, "run %d has the children %d and %d of one job", p.ID, other, o.Run)
		}
		t.kin.of[p.ID][job] = o.Run
		t.w.count("child", 1)
		if !slices.ContainsFunc(t.since(job, t.kin.made[was.First]), func(v revision) bool { return t.mayFollow(&v, was) }) {
			t.fail(p.ID, "job %d does not come after run %d, which is %s: %s", job, p.ID, was.State, was.Reason)
		}
	}
}

// mayFollow reports whether a revision of a job came after a run by some revision of the run's job.
func (t *truth) mayFollow(v *revision, r *core.Run) bool {
	return slices.ContainsFunc(t.since(r.ID.Job(), t.kin.made[r.First]), func(p revision) bool { return v.follows(r, p.def.Retry.On) })
}

// placed records that a piece of children was made. Callers hold mu.
func (t *truth) placed(p *core.RunPut) {
	if r, _ := t.run(p.ID); r.Owing() {
		t.owes[p.ID] = struct{}{}
	} else {
		t.kin.done[p.ID] = time.Now()
	}
}

// hasChildren asserts in the end that a run has its children, in time. Callers hold mu.
func (w *World) hasChildren(r *core.Run) {
	t := w.truth
	of := t.kin.of[r.ID]
	if r.Then != 0 {
		if len(of) > 0 {
			t.fail(r.ID, "run %d is followed by %d and has children: %v", r.ID, r.Then, of)
		}
		return
	}
	st := t.story(r.ID)
	for _, id := range of {
		born := t.rounds.noted[id]
		if _, ok := t.run(id); !ok && born.IsZero() && t.counted(id) {
			continue
		} else if !ok && born.IsZero() {
			t.fail(r.ID, "run %d has the child %d, which is not there", r.ID, id)
		} else if !st.closed.IsZero() {
			if born.IsZero() {
				born = t.story(id).born
			}
			within := moment
			if st.left {
				within = w.deployed.watched()
			}
			w.inTime("the child of", []core.RunID{id, r.ID}, r.App, within, st.closed, time.Time{}, born, true)
		}
	}
	if r.State == core.Skipped && r.Attempt == 1 || r.Shard.Of != 0 { // a broadcast's children are its own, not its shards'
		return
	}
	made := t.kin.made[r.First]
	done, is := t.kin.done[r.ID]
	if !is {
		done = time.Now()
	}
	mine := t.since(r.ID.Job(), made)
	for job := range t.jobs {
		if of[job] != 0 {
			continue
		}
		theirs := t.since(job, made)
		if len(theirs) == 0 || !theirs[0].stored.Before(made.Add(-w.deployed.invocation)) {
			continue // the maker of the run may have read an earlier revision
		}
		always := true
		for i := range theirs {
			if i > 0 && theirs[i].stored.After(done) {
				break
			}
			for k := range mine {
				always = always && theirs[i].follows(r, mine[k].def.Retry.On)
			}
		}
		if always {
			t.fail(r.ID, "run %d is %s: %s, marked %v, and job %d, which comes after it, has no run of that", r.ID, r.State, r.Reason,
				t.kin.marked[r.First], job)
		}
	}
}
