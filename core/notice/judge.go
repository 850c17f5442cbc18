package notice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

// seen is what a look at a job found.
type seen struct {
	notes     []ring.Note
	next      time.Time // when to look again
	recovered bool
	failing   core.RunID // of which it recovered
	failures  int64      // that came before
	checked   core.Instant
	success   core.Instant
	slow      core.Instant
}

// into notes it in an item.
func (j *seen) into(s *State) {
	switch {
	case !j.recovered || s.Failing == nil:
	case s.Failing.Run == j.failing:
		s.Failing, s.Failures = nil, 0
	default: // it has failed again meanwhile
		s.Failures = max(s.Failures-j.failures, 1)
	}
	s.Checked, s.Success, s.Slow = max(s.Checked, j.checked), max(s.Success, j.success), max(s.Slow, j.slow)
}

// untoldAgain is between two looks at whether anybody is to be told that a job is overdue.
const untoldAgain = time.Hour

// judge looks at a job for what nobody notes: that it recovered, is overdue, has a slow run.
func (n *Notices) judge(ctx context.Context, w *work, k *known, who *core.Notify) (j seen, err error) {
	job, st := k.jobs[w.job], k.states[JobName(w.job)]
	if job == nil || len(w.looks) == 0 {
		return j, nil
	}
	now := n.o.Now()
	if st.Failing != nil {
		if err := n.recovered(ctx, job, &st, who, &j); err != nil {
			return j, err
		}
	}
	if overdue := who.Overdue != (core.Overdue{}); overdue && !who.Tells(core.EventOverdue) {
		j.next = sooner(j.next, now.Add(untoldAgain)) // its app may say whom to tell later
	} else if overdue {
		if err := n.overdue(ctx, k, job, &st, who, now, &j); err != nil {
			return j, err
		}
	}
	if who.Tells(core.EventSlow) {
		if err := n.slow(ctx, job, &st, who, now, &j); err != nil {
			return j, err
		}
	}
	return j, nil
}

// Runs are read in pages of so many, so many at most of each kind.
const page, looks = 100, 1000

// newest goes over the runs of a job, the newest of each kind first, until f says that it is
// enough of them.
func (n *Notices) newest(ctx context.Context, job core.JobID, f func(r *core.Run) (goOn bool)) error {
	var spans [2][2]core.RunID
	spans[0][0], spans[0][1] = core.RunRange(job, 0, core.Horizon)
	spans[1][0], spans[1][1] = core.NumberedRange(job)
	for _, span := range spans {
		from := span[1]
	pages:
		for looked := 0; looked < looks && from >= span[0]; looked += page {
			runs, err := n.store.RunSpan(ctx, from, span[0], page)
			if err != nil {
				return fmt.Errorf("read how job %d fared: %w", job, err)
			}
			for i := range runs {
				if r := &runs[i]; r.Shard.Of == 0 && !f(r) {
					break pages
				}
			}
			if len(runs) < page {
				break
			}
			from = runs[len(runs)-1].ID - 1
		}
	}
	return nil
}

// recovered looks for a success that ended after the last failure that is known.
func (n *Notices) recovered(ctx context.Context, job *core.Job, st *State, who *core.Notify, j *seen) error {
	if !who.Tells(core.EventRecovered) {
		j.recovered, j.failing, j.failures = true, st.Failing.Run, st.Failures // nobody wants to know any more
		return nil
	}
	var last *core.Run
	looked := 0
	err := n.newest(ctx, job.Def.ID, func(r *core.Run) bool {
		looked++
		if !r.State.Open() && r.EndedAt.After(st.Failing.When) && (r.State == core.Succeeded || r.FailedForGood()) &&
			(last == nil || r.EndedAt.After(last.EndedAt)) {
			run := *r
			last = &run
		}
		return looked%page != 0 || last == nil
	})
	if err != nil || last == nil || last.State != core.Succeeded {
		return err
	}
	j.recovered, j.failing, j.failures = true, st.Failing.Run, st.Failures
	j.notes = append(j.notes, ring.Note{Job: job.Def.ID, Event: core.EventRecovered, Run: last.ID, At: last.At, Times: st.Failures,
		When: last.EndedAt})
	return nil
}

// overdue judges whether the job ought to have succeeded by now.
func (n *Notices) overdue(ctx context.Context, k *known, job *core.Job, st *State, who *core.Notify, now time.Time, j *seen) error {
	app := k.apps[job.Def.App]
	paused := job.Sched.State != core.Started && job.Sched.PausedAt(now) || app.Pause.Covers(now) || k.global.Pause.Covers(now)
	// From then on it is judged: what a pause or an edit left behind is nobody's fault.
	from := job.Sched.RevAt
	for _, p := range []core.Pause{app.Pause, k.global.Pause} {
		if !p.To.IsZero() && p.To.After(from) && !p.To.After(now) {
			from = p.To
		}
	}
	if within := who.Overdue.Within; within > 0 {
		return n.within(ctx, job, st, within, from, paused, now, j)
	}
	loc, err := time.LoadLocation(job.Sched.Schedule.Timezone) // empty is UTC
	if err != nil {
		return fmt.Errorf("load the zone of job %d: %w", job.Def.ID, err)
	}
	before, by, next := byTimes(who.Overdue, loc, now)
	j.next = sooner(j.next, next)
	if core.InstantOf(by) <= st.Checked {
		return nil
	}
	j.checked = core.InstantOf(by)
	if paused || !from.Before(by) || !demanded(job, later(before, from), by) {
		return nil
	}
	success, err := n.success(ctx, job.Def.ID, before)
	if err != nil || success.After(before) {
		j.success = core.InstantOf(success)
		return err
	}
	j.notes = append(j.notes, ring.Note{Job: job.Def.ID, Event: core.EventOverdue, At: core.InstantOf(by), When: by})
	return nil
}

// byTimes are the last two moments at which a job is to have succeeded by its clock, and the
// next one.
func byTimes(o core.Overdue, loc *time.Location, now time.Time) (before, by, next time.Time) {
	hour, minute, _ := o.Clock()
	local := now.In(loc)
	at := func(days int) time.Time {
		return schedule.WallTime(time.Date(local.Year(), local.Month(), local.Day()+days, hour, minute, 0, 0, time.UTC), loc).UTC()
	}
	if day := 0; !at(day).After(now) {
		return at(day - 1), at(day), at(day + 1)
	}
	return at(-2), at(-1), at(0)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// demanded reports whether a job was to run after one moment, and up to another. What has no
// schedule is demanded each day: somebody else begins it.
func demanded(job *core.Job, after, upTo time.Time) bool {
	sch, err := schedule.Compile(job.Sched.Schedule, job.Def.ID)
	if err != nil || sch.Manual() {
		return true
	}
	if _, fixed := sch.FixedDelay(); fixed {
		return true
	}
	at, ok := sch.Next(core.InstantOf(after))
	return ok && !at.Time().After(upTo)
}

// within judges whether its last success is too long ago; told of once, and again after as long.
func (n *Notices) within(ctx context.Context, job *core.Job, st *State, within time.Duration, from time.Time, paused bool, now time.Time,
	j *seen) error {
	if paused {
		j.checked, j.next = core.InstantOf(now), sooner(j.next, now.Add(within)) // whatever ends the pause, nothing is overdue before
		return nil
	}
	success, err := n.success(ctx, job.Def.ID, now.Add(-within))
	if err != nil {
		return err
	}
	if s := st.Success.Time(); st.Success != 0 && s.After(success) {
		success = s
	}
	base := later(from, success)
	if !success.IsZero() {
		j.success = core.InstantOf(success)
	}
	over := base.Add(within)
	if over.After(now) {
		j.next = sooner(j.next, over)
		return nil
	}
	missed := over.Add(now.Sub(over).Truncate(within)) // the last one of them
	j.next = sooner(j.next, missed.Add(within))
	if at := core.Ceil(missed); at > st.Checked {
		j.checked = at
		j.notes = append(j.notes, ring.Note{Job: job.Def.ID, Event: core.EventOverdue, At: core.InstantOf(base), When: missed})
	}
	return nil
}

// success is when the last run of a job that succeeded ended, among those that are looked at;
// zero where it is not after since, or not known.
func (n *Notices) success(ctx context.Context, job core.JobID, since time.Time) (at time.Time, err error) {
	err = n.newest(ctx, job, func(r *core.Run) bool {
		if r.State == core.Succeeded && r.EndedAt.After(at) {
			at = r.EndedAt
		}
		return !at.After(since)
	})
	return at, err
}

// slow looks for runs that are at work for too long: each is told of once.
func (n *Notices) slow(ctx context.Context, job *core.Job, st *State, who *core.Notify, now time.Time, j *seen) error {
	upTo := core.InstantOf(now.Add(-who.Slow))
	var late []core.Run
	if _, err := bound.OpenRuns(ctx, job.Def.ID, n.store.OpenRuns, nil, func(r *core.Run) bool {
		switch at := core.Ceil(r.SentAt); {
		case !r.Sent() || r.IsBroadcast() || at <= st.Slow:
		case at <= upTo:
			late = append(late, *r)
		default:
			j.next = sooner(j.next, at.Time().Add(who.Slow))
		}
		return true
	}); err != nil {
		return fmt.Errorf("read open runs of job %d: %w", job.Def.ID, err)
	}
	slices.SortFunc(late, func(a, b core.Run) int { return cmp.Or(a.SentAt.Compare(b.SentAt), cmp.Compare(a.ID, b.ID)) })
	for i := range late {
		j.notes = append(j.notes, ring.Note{Job: job.Def.ID, Event: core.EventSlow, Run: late[i].ID, At: late[i].At, When: now})
	}
	j.slow = upTo
	return nil
}
