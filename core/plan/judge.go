package plan

import (
	"time"

	"github.com/tickring/tickring/core"
)

// A Policy is the part of a job's settings that decides about late runs.
type Policy struct {
	Misfire  core.Misfire
	Grace    time.Duration // how late a run may be without being late by the policy; 0: none
	Deadline time.Duration // how late a run may still be sent; 0: no limit
}

func PolicyOf(s core.Sched) Policy {
	return Policy{Misfire: s.Misfire, Grace: s.Grace, Deadline: s.Deadline}
}

// Judge decides whether a run that no dispatcher has claimed may be sent now. The parameter at is the run's scheduled
// time, slot is its due time, and next is the job's following scheduled time (0: none). The planner and the dispatcher
// both call Judge.
//
// A run is late if the current time is more than Grace after the due time. MisfireAll sends late runs, and MisfireSkip does
// not. MisfireLatest sends a late run only before the following scheduled time. A run is never sent more than Deadline after
// its due time.
//
// If the result send is false, the result reason is ReasonMisfire or ReasonDeadline, whichever applied first. The reason
// therefore stays the same if Judge is called again later.
func Judge(p Policy, at, slot, next core.Instant, now time.Time) (send bool, late bool, reason core.Reason) {
	due := slot.Time()
	late = now.After(due.Add(p.Grace))

	misfired := false
	switch p.Misfire {
	case core.MisfireAll:
	case core.MisfireSkip:
		misfired = late
	default:
		misfired = late && next != 0 && !now.Before(next.Time())
	}
	expired := p.Deadline > 0 && now.After(due.Add(p.Deadline))

	switch {
	case !misfired && !expired:
		return true, late, ""
	case !expired:
		return false, late, core.ReasonMisfire
	case !misfired:
		return false, late, core.ReasonDeadline
	}
	since := due.Add(p.Grace)
	if p.Misfire != core.MisfireSkip && next.Time().After(since) {
		since = next.Time()
	}
	if due.Add(p.Deadline).Before(since) {
		return false, late, core.ReasonDeadline
	}
	return false, late, core.ReasonMisfire
}
