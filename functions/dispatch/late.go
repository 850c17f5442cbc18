package main

import (
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/lambdaboot"
)

// lateFrom is the lateness above which sends are reported: a queue alone can take a second.
const lateFrom = time.Second

// late collects how late the sends of an invocation were.
type late struct {
	mu    sync.Mutex
	most  time.Duration
	fires int
}

// sent is called with each send.
func (l *late) sent(r *core.Run, at time.Time, _ *dispatch.Answer) {
	if r.Slot == 0 || r.Cause == core.CauseManual || r.Cause == core.CauseAPI {
		return
	}
	by := at.Sub(r.Slot.Time())
	if by <= lateFrom {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most, l.fires = max(l.most, by), l.fires+1
}

// take returns the collected metrics and resets them.
func (l *late) take() map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	values := map[string]float64{lambdaboot.Lateness: l.most.Seconds(), lambdaboot.LateFires: float64(l.fires)}
	l.most, l.fires = 0, 0
	return values
}
