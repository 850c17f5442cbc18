package plan

import (
	"time"

	"github.com/tickring/tickring/core"
)

// Policy is what a job says about lateness.
type Policy struct {
	Misfire  core.Misfire
	Grace    time.Duration // 0: late at once
	Deadline time.Duration // 0: none
}

func PolicyOf(s core.Sched) Policy {
	return Policy{Misfire: s.Misfire, Grace: s.Grace, Deadline: s.Deadline}
}

// Judge is the late rule for the scheduled fire of an instant that is due at
// slot and has not been claimed yet; next is the job's next instant after it, 0
// if there is none. It is stateless and the same in tick and dispatch.
//
// The fire is late when now is more than grace after slot. Late fires of the
// policy latest are sent only while next is still to come, of all they are
// sent, of skip they are not. More than deadline after slot nothing is sent,
// late or not. With send false the reason is misfire or deadline, whichever
// applied first: so it depends on the fire alone and not on when it is looked
// at, and a repeat can only lengthen a skipped record.
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
