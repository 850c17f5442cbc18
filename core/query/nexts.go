package query

import (
	"slices"
	"sync"

	"github.com/tickring/tickring/core"
)

// nexts caches when the schedules of jobs fire next, so that a list of ten thousand jobs does not compile all
// schedules each time. The scheduler's own Next is different: it is after the runs that are already on their way.
type nexts struct {
	mu sync.Mutex
	of map[core.JobID]upNext
}

// upNext is the first scheduled time after another, for one revision; 0: none.
type upNext struct {
	rev       int64
	after, at core.Instant
}

// next returns the first result of nextOf; 0: none. It is cached while the current pauses keep their ends.
func (n *nexts) next(s *core.Sched, now core.Instant, pauses ...core.Pause) core.Instant {
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		return firstOf(nextOf(s, now, core.Horizon, 1, pauses...))
	}
	after := now
	if s.State == core.Paused {
		if s.PauseUntil == 0 {
			return 0
		}
		after = max(after, s.PauseUntil)
	}
	covers := func(at core.Instant) int {
		return slices.IndexFunc(pauses, func(p core.Pause) bool { return p.Covers(at.Time()) })
	}
	for i := covers(after + 1); i >= 0; i = covers(after + 1) {
		if pauses[i].To.IsZero() {
			return 0
		}
		after = core.Ceil(pauses[i].To) - 1
	}
	at := n.behind(s, after)
	if at != 0 && covers(at) >= 0 { // in a future pause
		return firstOf(nextOf(s, after, core.Horizon, 1, pauses...))
	}
	return at
}

// behind returns the first scheduled time after another.
func (n *nexts) behind(s *core.Sched, after core.Instant) core.Instant {
	n.mu.Lock()
	defer n.mu.Unlock()
	k, known := n.of[s.ID]
	if known && k.rev == s.Rev && k.after <= after && (k.at == 0 || after < k.at) {
		return k.at
	}
	if n.of == nil || len(n.of) >= mostLately {
		n.of = map[core.JobID]upNext{}
	}
	k = upNext{s.Rev, after, firstOf(nextOf(s, after, core.Horizon, 1))}
	n.of[s.ID] = k
	return k.at
}

func firstOf(list []core.Instant) core.Instant {
	if len(list) == 0 {
		return 0
	}
	return list[0]
}
