package query

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

type Preview struct {
	Words core.Text      // description of the schedule
	Next  []core.Instant // next scheduled times
	Ends  bool           // the schedule has no times after the last time in Next
	Traps []core.Text    // warnings about unexpected effects of the schedule
}

// Preview returns a description of a schedule in words, its next scheduled times, and warnings. Scheduled times can
// depend on the job number. For the number 0, Preview uses an example number.
func (q *Queries) Preview(s core.Schedule, of core.JobID, from core.Instant, count int) (Preview, error) {
	if of < 0 {
		return Preview{}, core.Invalid("jobId", of.String(), "expected a job number")
	}
	if count < 0 || count > MaxPage {
		return Preview{}, core.Invalid("count", strconv.Itoa(count), "allowed values: 0 to %d", MaxPage)
	}
	j := core.Job{Sched: core.Sched{Schedule: s}}
	j.Normalize()
	sch, err := schedule.Compile(j.Sched.Schedule, cmp.Or(of, 1))
	if err != nil {
		return Preview{}, err
	}
	p := Preview{Words: sch.Describe(), Traps: sch.Traps(from)}
	at, ok := sch.Next(from)
	for ; ok && len(p.Next) < count; at, ok = sch.Next(at) {
		p.Next = append(p.Next, at)
	}
	p.Ends = !ok
	return p, nil
}

// NextOf returns the next scheduled times of a job outside its own pause and the given pauses. It returns no times if
// a pause has no end. For a fixed delay, NextOf returns at most one time, because later times are unknown.
func (q *Queries) NextOf(job *core.Job, count int, pauses ...core.Pause) []core.Instant {
	return nextOf(&job.Sched, core.InstantOf(q.o.Now()), core.Horizon, min(count, MaxPage), pauses...)
}

// nextOf returns the scheduled times of a job with after < t <= end that are outside its own pause and the given
// pauses.
func nextOf(s *core.Sched, after, end core.Instant, count int, pauses ...core.Pause) []core.Instant {
	switch {
	case s.State != core.Paused: // an ended job's last run may be on its way
	case s.PauseUntil != 0:
		after = max(after, s.PauseUntil)
	default:
		return nil
	}
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		paused := slices.ContainsFunc(pauses, func(p core.Pause) bool { return p.Covers(s.Next.Time()) })
		if s.State == core.Started && s.Tail == 0 && s.Next > after && s.Next <= end && count > 0 && !paused {
			return []core.Instant{s.Next}
		}
		return nil
	}
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return nil
	}
	var next []core.Instant
	at, ok := sch.Next(after)
	for ok && at <= end && len(next) < count {
		i := slices.IndexFunc(pauses, func(p core.Pause) bool { return p.Covers(at.Time()) })
		switch {
		case i < 0:
			next = append(next, at)
		case pauses[i].To.IsZero():
			return next
		default: // continue with the first time after the pause
			at = core.Ceil(pauses[i].To) - 1
		}
		at, ok = sch.Next(at)
	}
	return next
}

// nexts caches when the schedules of jobs fire next, so that a list of ten thousand jobs does not compile all
// schedules each time. The scheduler's own Next is different: it is after the runs that are already on their way.
type nexts struct {
	mu sync.Mutex
	of map[core.JobID]upNext
}

// upNext is the first scheduled time after another, for one revision and pauses; 0: none.
type upNext struct {
	rev       int64
	pauses    []core.Pause
	after, at core.Instant
}

// next returns the first result of nextOf; 0: none. It is cached while the pauses stay the same.
func (n *nexts) next(s *core.Sched, now core.Instant, pauses ...core.Pause) core.Instant {
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		return firstOf(nextOf(s, now, core.Horizon, 1, pauses...))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	k, known := n.of[s.ID]
	same := func(a, b core.Pause) bool { return a.From.Equal(b.From) && a.To.Equal(b.To) }
	if known && k.rev == s.Rev && slices.EqualFunc(k.pauses, pauses, same) && k.after <= now && (k.at == 0 || now < k.at) {
		return k.at
	}
	if n.of == nil || len(n.of) >= mostLately {
		n.of = map[core.JobID]upNext{}
	}
	k = upNext{s.Rev, pauses, now, firstOf(nextOf(s, now, core.Horizon, 1, pauses...))}
	n.of[s.ID] = k
	return k.at
}

func firstOf(list []core.Instant) core.Instant {
	if len(list) == 0 {
		return 0
	}
	return list[0]
}
