package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// Some jobs are paused after failures in a row. The checks here see only the outside: each write of the ends of their chains.

// pauseAfter sets the field on one job in eight.
func pauseAfter(d *dice, def *core.Def) {
	if d.n(8) == 0 {
		def.PauseAfter = 2 + d.n(3)
	}
}

// chainEnds records the end of a chain of a job that is paused after failures. Callers hold mu.
func (t *truth) chainEnds(r *core.Run) {
	job := r.ID.Job()
	revs := t.jobs[job]
	if len(revs) == 0 || revs[len(revs)-1].def.PauseAfter == 0 || r.Shard.Of != 0 || r.State != core.Succeeded && !r.FailedForGood() {
		return
	}
	t.rows[job] = append(t.rows[job], *r)
}

// latest returns the ends after since, the last first.
func latest(ends []core.Run, since time.Time) []core.Run {
	ends = slices.DeleteFunc(slices.Clone(ends), func(r core.Run) bool { return !r.EndedAt.After(since) })
	slices.SortStableFunc(ends, func(a, b core.Run) int { return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.ID, a.ID)) })
	return ends
}

// inRow reports whether the last n ends after since are failures.
func inRow(ends []core.Run, n int, since time.Time) bool {
	ends = latest(ends, since)
	return len(ends) >= n && !slices.ContainsFunc(ends[:n], func(r core.Run) bool { return r.State == core.Succeeded })
}

// among reports whether the last n ends after since are all among the newest runs of their
// kind, by their IDs, so that no others matter. Callers hold mu.
func (t *truth) among(ends []core.Run, n int, since time.Time) bool {
	const looked = 90
	for _, r := range latest(ends, since)[:n] {
		_, high := core.RunRange(r.ID.Job(), 0, core.Horizon)
		if _, planned := r.ID.Planned(); !planned {
			_, high = core.NumberedRange(r.ID.Job())
		}
		if newer, _ := t.store.Runs.Span(bg, high, r.ID, looked); len(newer) == looked {
			return false
		}
	}
	return true
}

// pausedFor asserts that a job which is paused for its failures had a row of them since its last revision. Callers hold mu.
func (t *truth) pausedFor(m *core.Advance, s *core.Sched) {
	t.w.count("paused after failures", 1)
	t.left(s, m.NewRevAt, "paused")
	if s.State != core.Started {
		t.fail(core.RunID(m.Job), "job %d was paused for its failures, and was %s", m.Job, s.State)
	}
	var n int
	for _, rev := range t.jobs[m.Job] {
		if rev.rev == s.Rev {
			n = rev.def.PauseAfter
		}
	}
	ends := t.rows[m.Job]
	for i := range ends { // a success can follow while the job is being paused
		if inRow(ends[:i+1], n, s.RevAt) {
			return
		}
	}
	if len(latest(ends, s.RevAt)) < n || t.among(ends, n, s.RevAt) {
		var list []string
		for _, r := range latest(ends, s.RevAt) {
			list = append(list, fmt.Sprintf("%d of %d %s %s", r.ID, r.First, r.State, r.EndedAt.Format("15:04:05.000")))
		}
		t.fail(core.RunID(m.Job), "job %d was paused for its failures (%s), and had no row of %d: its chains since %s ended so: %q", m.Job,
			m.NewPauseWhy, n, s.RevAt.Format("15:04:05.000"), list)
	}
}

// pauseMade asserts, once a run owes no pause any more, that its job is paused if the run completed a row, unless a success, a
// change or another end of the row came after. Callers hold mu.
func (t *truth) pauseMade(of core.RunID) {
	j := t.job(of.Job())
	if j == nil || j.Sched.State != core.Started || j.Def.PauseAfter == 0 {
		return
	}
	ends := t.rows[of.Job()]
	i := slices.IndexFunc(ends, func(r core.Run) bool { return r.ID == of })
	if i < 0 || slices.ContainsFunc(ends[i+1:], func(r core.Run) bool { return r.State == core.Succeeded }) {
		return
	}
	if inRow(ends[:i+1], j.Def.PauseAfter, j.Sched.RevAt) && t.among(ends[:i+1], j.Def.PauseAfter, j.Sched.RevAt) {
		var row []string
		for _, r := range ends[:i+1] {
			row = append(row, fmt.Sprintf("%d %s %s", r.ID, r.State, r.EndedAt.Format("15:04:05.000")))
		}
		t.fail(of, "run %d owes no pause any more, and job %d is %s after %d failures in a row since %s: %v", of, of.Job(), j.Sched.State,
			j.Def.PauseAfter, j.Sched.RevAt.Format("15:04:05.000"), row[max(0, len(row)-10):])
	}
}
