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
