package notification

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// seen is the result of a check of a job.
type seen struct {
	notes     []ring.Note
	next      time.Time // the time of the next check
	recovered bool
	failing   core.RunID // the failure before the recovery
	failures  int64      // failures before the recovery
	checked   core.Instant
	success   core.Instant
	slow      core.Instant
}

// into stores the result in an item.
func (j *seen) into(s *State) {
	switch {
	case !j.recovered || s.Failing == nil:
	case s.Failing.Run == j.failing:
		s.Failing, s.Failures = nil, 0
	default: // a newer failure came in between
		s.Failures = max(s.Failures-j.failures, 1)
	}
	s.Checked, s.Success, s.Slow = max(s.Checked, j.checked), max(s.Success, j.success), max(s.Slow, j.slow)
}

// untoldAgain is the time between two checks whether an overdue job has a channel, and unreadAgain whether a job can be read again.
const untoldAgain, unreadAgain = time.Hour, 10 * time.Minute

// judge checks the conditions that cause no notes: the job recovered, is overdue, or has a slow run.
func (n *Notices) judge(ctx context.Context, w *work, k *known, who *core.Notify) (j seen, err error) {
	job, st := k.job, k.state
	now := n.o.Now()
	switch {
	case len(w.looks) == 0:
		return j, nil
	case k.unread:
		j.next = now.Add(unreadAgain)
		return j, nil
	case job == nil:
		return j, nil
	}
	if st.Failing != nil {
		if err := n.recovered(ctx, job, &st, who, &j); err != nil {
			return j, err
		}
	}
	if overdue := who.Overdue != (core.Overdue{}); overdue && !who.Includes(core.EventOverdue) {
		j.next = sooner(j.next, now.Add(untoldAgain)) // its app may name channels later
	} else if overdue {
		if err := n.overdue(ctx, k, job, &st, who, now, &j); err != nil {
			return j, err
		}
	}
	if who.Includes(core.EventSlow) {
		if err := n.slow(ctx, job, &st, who, now, &j); err != nil {
			return j, err
		}
	}
	return j, nil
}

// looks is the limit of runs of each kind.
const looks = 1000

// newest passes the runs of a job to f: the scheduled runs, then the numbered ones, each newest
// first until f returns false.
func (n *Notices) newest(ctx context.Context, job core.JobID, f func(r *core.Run) (goOn bool)) error {
	for _, span := range core.RunRanges(job) {
		for r, err := range n.s.NewestRuns(ctx, span, looks) {
			if err != nil {
				return fmt.Errorf("read the results of job %d: %w", job, err)
			}
			if r.Shard.Of == 0 && !f(r) {
				break
			}
		}
	}
	return nil
}

// recovered checks for a success that ended after the last known failure.
func (n *Notices) recovered(ctx context.Context, job *core.Job, st *State, who *core.Notify, j *seen) error {
	if !who.Includes(core.EventRecovered) {
		j.recovered, j.failing, j.failures = true, st.Failing.Run, st.Failures // no channel wants recoveries
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
		return looked%store.NewestPage != 0 || last == nil
	})
	if err != nil || last == nil || last.State != core.Succeeded {
		return err
	}
	j.recovered, j.failing, j.failures = true, st.Failing.Run, st.Failures
	j.notes = append(j.notes, ring.Note{Job: job.Def.ID, Event: core.EventRecovered, Run: last.ID, At: last.At, Times: st.Failures,
		When: last.EndedAt})
	return nil
}

// overdue checks whether the job should have succeeded by now.
func (n *Notices) overdue(ctx context.Context, k *known, job *core.Job, st *State, who *core.Notify, now time.Time, j *seen) error {
	paused := job.Sched.State != core.Started && job.Sched.PausedAt(now) || k.app.Pause.Covers(now) || k.global.Pause.Covers(now)
	// Time before the last edit or the end of a pause does not count.
	from := job.Sched.RevAt
	for _, p := range []core.Pause{k.app.Pause, k.global.Pause} {
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

// byTimes returns the last two times of day at which the job should have succeeded, and the next one.
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

// demanded reports whether a job was expected to run in (after, upTo]. A job without a schedule is expected to
// be triggered each day.
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

// within checks whether the last success is too long ago, and repeats that after each further period.
func (n *Notices) within(ctx context.Context, job *core.Job, st *State, within time.Duration, from time.Time, paused bool, now time.Time,
	j *seen) error {
	if paused {
		j.checked, j.next = core.InstantOf(now), sooner(j.next, now.Add(within)) // nothing is overdue earlier, even if the pause ends
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
	missed := over.Add(now.Sub(over).Truncate(within)) // the end of the last whole period
	j.next = sooner(j.next, missed.Add(within))
	if at := core.Ceil(missed); at > st.Checked {
		j.checked = at
		j.notes = append(j.notes, ring.Note{Job: job.Def.ID, Event: core.EventOverdue, At: core.InstantOf(base), When: missed})
	}
	return nil
}

// success returns the end of the newest successful run among the checked ones; it is zero if it is unknown or
// not after since.
func (n *Notices) success(ctx context.Context, job core.JobID, since time.Time) (at time.Time, err error) {
	err = n.newest(ctx, job, func(r *core.Run) bool {
		if r.State == core.Succeeded && r.EndedAt.After(at) {
			at = r.EndedAt
		}
		return !at.After(since)
	})
	return at, err
}

// slow finds runs that run for too long; each is notified once.
func (n *Notices) slow(ctx context.Context, job *core.Job, st *State, who *core.Notify, now time.Time, j *seen) error {
	upTo := core.InstantOf(now.Add(-who.Slow))
	var late []core.Run
	if _, err := n.s.OpenRuns(ctx, job.Def.ID, nil, func(r *core.Run) bool {
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
