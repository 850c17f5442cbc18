package plan

import (
	"time"

	"github.com/tickring/tickring/core"
)

// Policy is the settings of a job for late runs.
type Policy struct {
	Misfire  core.Misfire
	Grace    time.Duration // 0: late at once
	Deadline time.Duration // 0: none
}

func PolicyOf(s core.Sched) Policy {
	return Policy{Misfire: s.Misfire, Grace: s.Grace, Deadline: s.Deadline}
}

// Judge applies the late rule to the run of a scheduled time at, which is due at slot and not claimed. next is the job's
// following scheduled time, 0 if there is none. Judge is stateless; tick and dispatch both call it.
//
// A run is late if now is more than grace after slot. MisfireAll sends late runs, MisfireSkip does not, and MisfireLatest
// sends them only while now is before next. More than deadline after slot, no run is sent. If send is false, reason is
// ReasonMisfire or ReasonDeadline, whichever applied first. The reason thus does not depend on now, and a repeat can only
// lengthen a skip record.
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
