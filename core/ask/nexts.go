package ask

import (
	"slices"
	"sync"

	"github.com/tickring/tickring/core"
)

// nexts is what the process knows of when the schedules of jobs fire next, whatever is paused: a list
// of ten thousand jobs does not compile as many schedules each time. The scheduler's own Next
// is another: it is behind what is on its way already.
type nexts struct {
	mu sync.Mutex
	of map[core.JobID]upNext
}

// upNext is the first instant behind another, under a revision; 0: there is none.
type upNext struct {
	rev       int64
	after, at core.Instant
}

// next is the first of nextOf; 0: there is none.
func (n *nexts) next(s *core.Sched, now core.Instant, pauses ...core.Pause) core.Instant {
	if _, fixed := s.Schedule.FixedDelay(); s.State != core.Paused && !fixed {
		at := n.started(s, now)
		if at == 0 || !slices.ContainsFunc(pauses, func(p core.Pause) bool { return p.Covers(at.Time()) }) {
			return at
		}
	}
	return firstOf(nextOf(s, now, core.Horizon, 1, pauses...))
}

// started is the next instant of a job that is not paused.
func (n *nexts) started(s *core.Sched, now core.Instant) core.Instant {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, known := n.of[s.ID]
	if known && k.rev == s.Rev && k.after <= now && (k.at == 0 || now < k.at) {
		return k.at
	}
	if n.of == nil || len(n.of) >= mostLately {
		n.of = map[core.JobID]upNext{}
	}
	k = upNext{s.Rev, now, firstOf(nextOf(s, now, core.Horizon, 1))}
	n.of[s.ID] = k
	return k.at
}

func firstOf(list []core.Instant) core.Instant {
	if len(list) == 0 {
		return 0
	}
	return list[0]
}
