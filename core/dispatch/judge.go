package dispatch

import (
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/schedule"
)

// judgeGone decides a fire whose job has no item: its tombstone says when it
// was deleted; without one it is undeliverable.
func (b *batch) judgeGone(it *item, stones map[core.JobID]core.Tombstone) {
	stone, ok := stones[it.fire.Run.Job()]
	if !ok {
		it.bury("job " + it.fire.Run.Job().String() + " has neither item nor tombstone")
		return
	}
	it.job = &core.Job{Def: core.Def{ID: stone.Job, App: stone.App, Name: stone.Name}, Sched: core.Sched{ID: stone.Job, App: stone.App, Rev: stone.Rev, RevAt: stone.RevAt}}
	it.app = &core.App{Name: stone.App}
	it.intent, it.reason = fallsRecord, core.ReasonDeleted
	if it.fire.Cause.Planned() && it.fire.At.Time().After(stone.RevAt) {
		it.intent = fallsSilent
	}
	if _, planned := it.fire.Run.Planned(); !planned {
		it.run = &core.Run{ID: it.fire.Run, App: stone.App}
	}
}

// pauses judges a fire by the pauses of everything and of its app.
func (b *batch) pauses(it *item, p core.Pause, past core.Past, now time.Time) {
	if it.status != pending || it.fire.Cause == core.CauseManual || p.From.IsZero() {
		return
	}
	at := it.fire.At.Time()
	inside := p.Covers(at) || past.Covers(at)
	switch {
	case !it.fire.Cause.Planned():
		if p.Covers(now) {
			it.intent, it.reason = fallsRecord, core.ReasonPaused
		}
	case inside && it.job.Sched.Tail == it.fire.Run && !p.Covers(now):
		// The pause is over, and nothing else would end the chain of a fixed
		// delay: it goes on from here.
		it.intent, it.reason = fallsRecord, core.ReasonPaused
	case inside:
		it.intent = fallsSilent
	case it.intent == fallsSilent:
	case p.Covers(now) && at.Before(p.From), at.Before(past.From):
		// Before past.From nobody knows the pauses any more: what may lie in one is
		// not sent, and as it may have been demanded it is not silent.
		it.intent, it.reason = fallsRecord, core.ReasonPaused
	}
}

// judge decides what is to become of each fire (step 3).
func (b *batch) judge() {
	now := b.now()
	for _, it := range b.items {
		if it.status != pending || it.intent != 0 {
			continue
		}
		it.intent = send
		s := &it.job.Sched
		if !it.fire.Cause.Planned() {
			if it.fire.Cause == core.CauseRetry && s.PausedAt(now) {
				it.intent, it.reason = fallsRecord, core.ReasonPaused
			}
			continue
		}
		if it.fire.Rev < s.Rev {
			switch {
			case it.fire.At.Time().After(s.RevAt), s.Tail == it.fire.Run:
				// The new plan covers it; of a fixed delay it keeps the tail.
				it.intent = fallsSilent
			case s.State == core.Paused:
				it.intent, it.reason = fallsRecord, core.ReasonPaused
			default:
				it.intent, it.reason = fallsRecord, core.ReasonChanged
			}
			continue
		}
		p := plan.PolicyOf(*s)
		if !now.After(it.fire.Slot.Time().Add(p.Grace)) && (p.Deadline == 0 || !now.After(it.fire.Slot.Time().Add(p.Deadline))) {
			continue
		}
		next := b.d.plans.next(s, it.fire.At)
		if sends, _, reason := plan.Judge(p, it.fire.At, it.fire.Slot, next, now); !sends {
			it.intent, it.reason = fallsLate, reason
		}
	}
}

// schedules remembers compiled schedules of late jobs: only they are asked for
// their next instant, and after an outage often.
type schedules struct {
	mu   sync.Mutex
	seen map[scheduleKey]*schedule.Schedule
}

type scheduleKey struct {
	job core.JobID
	rev int64
}

func newSchedules() *schedules { return &schedules{seen: map[scheduleKey]*schedule.Schedule{}} }

const maxSchedules = 4096

// next is the job's instant after at; 0 if there is none.
func (c *schedules) next(s *core.Sched, at core.Instant) core.Instant {
	key := scheduleKey{s.ID, s.Rev}
	c.mu.Lock()
	sch, ok := c.seen[key]
	c.mu.Unlock()
	if !ok {
		// A schedule that does not compile was refused when it was saved; nil
		// has no next instant, so its fire counts as the newest.
		sch, _ = schedule.Compile(s.Schedule, s.ID)
		c.mu.Lock()
		if len(c.seen) >= maxSchedules {
			clear(c.seen)
		}
		c.seen[key] = sch
		c.mu.Unlock()
	}
	if sch == nil {
		return 0
	}
	next, _ := sch.Next(at)
	return next
}
