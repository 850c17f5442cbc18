package plan

import (
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

// A Result is the outcome of planning one job: runs to enqueue and skips to store. Store the advance only after both.
type Result struct {
	Fires   []core.Fire // sorted by scheduled time and by due time
	Skips   []core.Skip // sorted by scheduled time
	Advance core.Advance
}

// Job plans the scheduled times of a job, beginning with s.Next. It plans the due times in one window, at most MaxAhead from
// now. If a job is not due for planning, not started, or has no next scheduled time, Job returns no runs. If MaxInstants or
// MaxSkips ends the planning early, the job stays due, so that the next pass continues.
//
// Each scheduled time gets a sequence number, even if its run is skipped. If the job is planned again, its runs get the same
// numbers.
//
// If the pause of a job ends soon, Job returns the first runs after the pause. The advance then changes only the time of the
// next planning.
//
// A job with a fixed delay has at most one open run (Sched.Tail). While the run is open, Job plans nothing. Job returns an
// advance that checks the job again after TailCheck. The caller must then check whether the run has ended. NextAfterEnd plans
// the next run.
func Job(s core.Sched, sch *schedule.Schedule, now time.Time, o Options) Result {
	a := planned(s)
	if s.PausedAt(now) {
		return beforeEnd(s, sch, now, o)
	}
	if s.State != core.Started {
		return Result{Advance: a}
	}
	if delay, ok := sch.FixedDelay(); ok {
		return fixedDelay(s, sch, delay, now, o, a)
	}
	if s.Next == 0 {
		a.NewPlanAt = 0
		return Result{Advance: a}
	}

	c := newCursor(s.ID, sch, s.Next, o)
	if p := c.planAt(o); p > core.InstantOf(now) {
		a.NewPlanAt = p
		return Result{Advance: a}
	}
	var r Result
	policy := PolicyOf(s)
	limit := core.InstantOf(now.Add(o.MaxAhead))
	limit = min(limit, o.WindowStart(s.ID, max(c.slot, core.Ceil(now.Add(o.PlanAhead))))+seconds(o.Window)-1)
	for looked := 0; c.at != 0 && c.slot <= limit && len(r.Fires) < o.MaxInstants && looked < o.MaxSkips; looked++ {
		send, late, reason := Judge(policy, c.at, c.slot, c.next, now)
		if send {
			r.Fires = append(r.Fires, fireOf(s, c.at, c.slot, late, a.NewSeq))
		} else {
			r.skip(s, c.at, reason, now)
		}
		a.NewSeq++
		c.step()
	}
	a.NewNext = c.at
	if c.at == 0 {
		a.NewState, a.NewPlanAt = core.Ended, 0
	} else {
		a.NewPlanAt = c.planAt(o)
	}
	r.Advance = a
	return r
}

// planned returns an advance of a job that was planned without an error. It changes nothing else.
func planned(s core.Sched) core.Advance {
	a := s.Stay()
	a.PlanError = ""
	return a
}

// fireOf returns the run of a scheduled time.
func fireOf(s core.Sched, at, slot core.Instant, late bool, seq int64) core.Fire {
	cause := core.CauseSchedule
	if late {
		cause = core.CauseMisfire
	}
	return core.Fire{Run: core.PlannedRun(s.ID, at), Rev: s.Rev, At: at, Slot: slot, Cause: cause, Seq: seq}
}

// skip records a skipped time. Skipped times are always the oldest of a pass (Judge), so consecutive ones
// can share a record.
func (r *Result) skip(s core.Sched, at core.Instant, reason core.Reason, now time.Time) {
	if n := len(r.Skips); n > 0 && len(r.Fires) == 0 && r.Skips[n-1].Reason == reason {
		r.Skips[n-1].Last = at
		r.Skips[n-1].Count++
		return
	}
	r.Skips = append(r.Skips, core.Skip{Job: s.ID, First: at, Last: at, Count: 1, Reason: reason, Rev: s.Rev, Made: now.UTC()})
}

func fixedDelay(s core.Sched, sch *schedule.Schedule, delay time.Duration, now time.Time, o Options, a core.Advance) Result {
	check := core.Ceil(now.Add(o.TailCheck))
	if s.Tail != 0 {
		a.NewPlanAt = check
		return Result{Advance: a}
	}
	if s.Next == 0 {
		a.NewPlanAt = 0
		return Result{Advance: a}
	}
	slot := o.DelaySlot(s.ID, sch, s.Next)
	if p := o.lonely(s.ID, slot); p > core.InstantOf(now) {
		a.NewPlanAt = p
		return Result{Advance: a}
	}
	var r Result
	send, late, reason := Judge(PolicyOf(s), s.Next, slot, 0, now)
	a.NewSeq++
	if !send {
		r.skip(s, s.Next, reason, now)
		o.delayed(&a, s, sch, core.Ceil(now).Add(delay))
		r.Advance = a
		return r
	}
	fire := fireOf(s, s.Next, slot, late, s.Seq)
	r.Fires = []core.Fire{fire}
	a.NewTail, a.NewPlanAt = fire.Run, check
	r.Advance = a
	return r
}

// DelaySlot returns the due time of a fixed-delay run. The parameter at is the scheduled time of the run.
func (o Options) DelaySlot(job core.JobID, sch *schedule.Schedule, at core.Instant) core.Instant {
	delay, _ := sch.FixedDelay()
	return sch.Slot(job, at, 0, delay < o.Window)
}

// delayed sets the next scheduled time of a fixed delay.
func (o Options) delayed(a *core.Advance, s core.Sched, sch *schedule.Schedule, at core.Instant) {
	// Never reuse a scheduled time: its run exists, so the job would stop forever. A clock that was set
	// back can cause that.
	at = max(at, s.Next+1)
	a.NewTail = 0
	at, ok := sch.Clamp(at)
	if s.State != core.Started { // planAt is the end of the pause; Start sets the rest
		a.NewNext, a.NewPlanAt = at, s.PlanAt
		return
	}
	if !ok {
		a.NewNext, a.NewPlanAt, a.NewState = 0, 0, core.Ended
		return
	}
	a.NewNext = at
	a.NewPlanAt = o.lonely(s.ID, o.DelaySlot(s.ID, sch, at))
}

// NextAfterEnd returns the advance of a fixed-delay job after its open run has ended. The next scheduled time is the given
// delay after the end of the run's retry chain. If this time is after the end of the schedule, a started job ends. A paused
// job gets no planning time. If NewPlanAt is not after now, the caller must plan the job immediately.
func NextAfterEnd(s core.Sched, delay time.Duration, ended time.Time, o Options) core.Advance {
	a := planned(s)
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil { // not possible: it was checked when stored; continue without its window
		sch, _ = schedule.Compile(core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Second}}}, s.ID)
	}
	o.delayed(&a, s, sch, core.Ceil(ended).Add(delay))
	return a
}

// Start returns s with the state and times of a job that was created, edited or resumed at s.RevAt. A job without a further
// scheduled time has ended. A job without a schedule is started and never due. If a fixed-delay job has an open run, the job
// keeps the run and is due for a check immediately. The planner must send the run again under the new revision.
func Start(s core.Sched, sch *schedule.Schedule, o Options) core.Sched {
	s.State, s.PlanError = core.Started, ""
	s.PauseUntil, s.PauseBy, s.PauseWhy = 0, "", ""
	if delay, ok := sch.FixedDelay(); ok {
		if at, open := s.Tail.Planned(); open && s.Tail != 0 {
			s.Next, s.PlanAt = at, core.InstantOf(s.RevAt)
			return s
		}
		at, ok := sch.Clamp(core.Ceil(s.RevAt).Add(delay))
		if !ok {
			s.State, s.Next, s.PlanAt = core.Ended, 0, 0
			return s
		}
		s.Next = at
		s.PlanAt = o.lonely(s.ID, o.DelaySlot(s.ID, sch, at))
		return s
	}
	s.Tail = 0
	next, ok := sch.Next(core.InstantOf(s.RevAt))
	if !ok {
		s.Next, s.PlanAt = 0, 0
		if !sch.Manual() {
			s.State = core.Ended
		}
		return s
	}
	s.Next = next
	s.PlanAt = PlanAt(s, sch, next, o)
	return s
}

// EndPause returns the Advance that starts a paused job at the planned end of its pause, and its change record.
// Runs are expected from that time on, even if the planner applies the Advance later.
func EndPause(s core.Sched, sch *schedule.Schedule, o Options) (core.Advance, core.Change) {
	after := resumed(s, sch, o)
	a := s.Stay()
	a.NewNext, a.NewPlanAt, a.NewState, a.NewTail = after.Next, after.PlanAt, after.State, after.Tail
	a.NewRev, a.NewRevAt = after.Rev, after.RevAt
	return a, core.Change{ID: after.Rev, At: after.RevAt, By: "tickring", Verb: core.VerbResumed, App: s.App, Job: s.ID,
		Why: "the pause had this end", Old: core.RecordOf(&s, nil).String(), New: core.RecordOf(&after, nil).String()}
}

// resumed returns the job as it starts at the end of its pause.
func resumed(s core.Sched, sch *schedule.Schedule, o Options) core.Sched {
	s.Rev, s.RevAt = core.NextRev(s.Rev, s.RevAt, s.PauseUntil.Time())
	return Start(s, sch, o)
}

// Pause returns s as a paused job. The parameter until is the end of the pause; 0 means no end. The parameter by is the
// author of the pause, and the parameter why is its reason. A fixed-delay job keeps its open run.
func Pause(s core.Sched, by, why string, until core.Instant, o Options) core.Sched {
	s.State, s.PlanAt, s.PlanError = core.Paused, until, ""
	s.PauseUntil, s.PauseBy, s.PauseWhy = until, by, why
	if _, fixed := s.Schedule.FixedDelay(); !fixed {
		s.Tail = 0
	}
	if s.Tail == 0 {
		s.Next = 0
	}
	if sch, err := schedule.Compile(s.Schedule, s.ID); err == nil {
		s.PlanAt = PausedPlanAt(s, sch, o)
	}
	return s
}

// PauseNow returns the Advance that pauses a job without a planned end, and its change record.
func PauseNow(s core.Sched, why string, now time.Time, o Options) (core.Advance, core.Change) {
	rev, at := core.NextRev(s.Rev, s.RevAt, now)
	after := s
	after.Rev, after.RevAt = rev, at
	after = Pause(after, "tickring", why, 0, o)
	a := s.Stay()
	a.NewNext, a.NewPlanAt, a.NewState, a.NewTail = after.Next, after.PlanAt, after.State, after.Tail
	a.NewRev, a.NewRevAt, a.NewPauseBy, a.NewPauseWhy, a.PlanError = rev, at, after.PauseBy, after.PauseWhy, ""
	return a, core.Change{ID: rev, At: at, By: after.PauseBy, Verb: core.VerbPaused, App: s.App, Job: s.ID, Why: why,
		Old: core.RecordOf(&s, nil).String(), New: core.RecordOf(&after, nil).String()}
}

// maxCounted limits the scheduled times of a skipped range that are counted; for more, the record covers
// all and its count is a minimum.
const maxCounted = 1_000_000

// Dropped returns a skip record for the scheduled times from s.Next to revAt, which are dropped when a new revision of the job
// begins. Dropped returns false if there are no such times. Runs of earlier times are already enqueued, and the dispatcher
// decides about them.
func Dropped(s *core.Sched, revAt time.Time, reason core.Reason) (core.Skip, bool, error) {
	end := core.InstantOf(revAt)
	if s.State != core.Started || s.Next == 0 || s.Next > end {
		return core.Skip{}, false, nil
	}
	skip := core.Skip{Job: s.ID, First: s.Next, Last: s.Next, Count: 1, Reason: reason, Rev: s.Rev, Made: revAt}
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		return skip, s.Tail == 0, nil // a tail's run was sent
	}
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return core.Skip{}, false, core.Errorf(core.CodeInternal, "the stored schedule of job %d: %v", s.ID, err)
	}
	for {
		next, ok := sch.Next(skip.Last)
		if !ok || next > end {
			return skip, true, nil
		}
		if skip.Count >= maxCounted {
			skip.Last = end
			return skip, true, nil
		}
		skip.Last = next
		skip.Count++
	}
}

// PausedPlanAt returns when the planner must check a paused job. This is when the first scheduled time after the pause must be
// planned, and not later than the end of the pause. 0: the pause has no end.
func PausedPlanAt(s core.Sched, sch *schedule.Schedule, o Options) core.Instant {
	if _, fixed := sch.FixedDelay(); fixed || s.PauseUntil == 0 {
		return s.PauseUntil
	}
	if at := resumed(s, sch, o).PlanAt; at != 0 {
		return min(at, s.PauseUntil)
	}
	return s.PauseUntil
}

// beforeEnd plans runs soon after the end of a pause. They belong to the paused revision, so that any
// change of the job drops them. EndPause creates a revision too, whose plan covers the later ones.
func beforeEnd(s core.Sched, sch *schedule.Schedule, now time.Time, o Options) Result {
	r := Result{Advance: planned(s)}
	if s.PlanAt == 0 || s.PlanAt > core.InstantOf(now) {
		return r
	}
	r.Advance.NewPlanAt = s.PauseUntil
	if _, fixed := sch.FixedDelay(); fixed {
		return r
	}
	ahead := Job(resumed(s, sch, o), sch, now, o)
	for _, f := range ahead.Fires {
		f.Rev = s.Rev
		r.Fires = append(r.Fires, f)
	}
	if at := ahead.Advance.NewPlanAt; at > core.InstantOf(now) {
		r.Advance.NewPlanAt = min(at, s.PauseUntil)
	}
	return r
}

// PlanAt returns when the planner must plan a job's scheduled time, which is the parameter next. For a job that fires
// more than once in a window, this is PlanAhead before the window of the due time. For other jobs, it is SingleSpreadMin
// to SingleSpreadMax before the due time. The result is 0 only if the parameter next is 0.
func PlanAt(s core.Sched, sch *schedule.Schedule, next core.Instant, o Options) core.Instant {
	if next == 0 {
		return 0
	}
	if _, fixed := sch.FixedDelay(); fixed {
		return o.lonely(s.ID, o.DelaySlot(s.ID, sch, next))
	}
	c := newCursor(s.ID, sch, next, o)
	return c.planAt(o)
}

// cursor iterates over the scheduled times of a schedule.
type cursor struct {
	sch      *schedule.Schedule
	job      core.JobID
	window   core.Instant
	at, next core.Instant // 0: none
	slot     core.Instant // of at
	frequent bool         // the gap to next is less than a window
}

func newCursor(job core.JobID, sch *schedule.Schedule, at core.Instant, o Options) cursor {
	c := cursor{sch: sch, job: job, window: seconds(o.Window), next: at}
	c.step()
	return c
}

func (c *cursor) step() {
	c.at = c.next
	if c.at == 0 {
		return
	}
	c.next, _ = c.sch.Next(c.at)
	c.frequent = c.next != 0 && c.next-c.at < c.window
	c.slot = c.sch.Slot(c.job, c.at, c.next, c.frequent)
}

func (c *cursor) planAt(o Options) core.Instant {
	if !c.frequent {
		return o.lonely(c.job, c.slot)
	}
	return o.clip(o.WindowStart(c.job, c.slot)-seconds(o.PlanAhead), c.slot)
}

// lonely returns when a slot is planned for a job that fires less than once a window.
func (o Options) lonely(job core.JobID, slot core.Instant) core.Instant {
	// Jobs created together get consecutive IDs and often fire together, so the ID spreads them evenly; a
	// hash would not.
	spread := seconds(o.SingleSpreadMin) + core.Instant(job)%(seconds(o.SingleSpreadMax-o.SingleSpreadMin)+1)
	return o.clip(slot-spread, slot)
}

// clip limits a planAt to at least 1 and at most MaxAhead before its slot.
func (o Options) clip(planAt, slot core.Instant) core.Instant {
	return max(planAt, slot-seconds(o.MaxAhead), 1)
}

// WindowStart returns the start of the job's window that contains t.
func (o Options) WindowStart(job core.JobID, t core.Instant) core.Instant {
	w := seconds(o.Window)
	groups := core.Instant(max(o.Groups, 1))
	shift := core.Instant(job) % groups * w / groups
	return t - ((t-shift)%w+w)%w
}

func seconds(d time.Duration) core.Instant { return core.Instant(d / time.Second) }
