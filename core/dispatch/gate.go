package dispatch

import (
	"context"
	"math"
	"sync"
	"time"
)

// gates bounds the sends under way to each address, over all invocations of
// this process: connections = offered rate x answer time, within bounds. Too
// few starve a slow executor, too many drown a fast one.
type gates struct {
	low, high int
	mu        sync.Mutex
	byAddress map[string]*gate
}

type gate struct {
	mu       sync.Mutex
	used     int
	limit    int
	waiting  []chan struct{}
	second   int64         // the second that offered counts
	offered  float64       // sends asked for in that second
	rate     float64       // per second, decaying
	best     time.Duration // shortest answer of late: what the executor takes when it is not waited for
	bestAt   int64
	lastUsed int64
}

func newGates(low, high int) *gates {
	return &gates{low: low, high: high, byAddress: map[string]*gate{}}
}

// maxGates bounds what is remembered; addresses come from outside.
const maxGates = 10000

func (g *gates) of(address string, now time.Time) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.byAddress[address]
	if a == nil {
		if len(g.byAddress) >= maxGates {
			for k, old := range g.byAddress {
				if old.idle(now) {
					delete(g.byAddress, k)
				}
			}
		}
		a = &gate{limit: g.low}
		g.byAddress[address] = a
	}
	return a
}

func (a *gate) idle(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used == 0 && len(a.waiting) == 0 && now.Unix()-a.lastUsed > 60
}

// offer tells the gate that n sends are wanted now, and answers how many may
// be under way at once.
func (a *gate) offer(n int, now time.Time, low, high int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := now.Unix()
	if s != a.second {
		past := float64(max(s-a.second, 1)) // a clock that was set back lets nothing grow
		a.rate = max(a.offered*math.Pow(0.8, past-1), a.rate*math.Pow(0.8, past))
		a.second, a.offered = s, 0
	}
	a.offered += float64(n)
	a.lastUsed = s
	want := int(2 * max(a.rate, a.offered) * a.best.Seconds())
	a.limit = min(max(want, low), high)
	return a.limit
}

// enter waits for a place. It fails only when ctx ends.
func (a *gate) enter(ctx context.Context) error {
	a.mu.Lock()
	if a.used < a.limit {
		a.used++
		a.mu.Unlock()
		return nil
	}
	place := make(chan struct{})
	a.waiting = append(a.waiting, place)
	a.mu.Unlock()
	select {
	case <-place:
		return nil
	case <-ctx.Done():
		a.mu.Lock()
		for i, w := range a.waiting {
			if w == place {
				a.waiting = append(a.waiting[:i], a.waiting[i+1:]...)
				a.mu.Unlock()
				return ctx.Err()
			}
		}
		a.mu.Unlock()
		a.leave(0, time.Time{}) // the place came at the same moment: pass it on
		return ctx.Err()
	}
}

// leave frees a place and notes how long the answer took (0: nothing to note).
func (a *gate) leave(took time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if took > 0 {
		if s := now.Unix(); a.best == 0 || took < a.best || s-a.bestAt > 10 {
			a.best, a.bestAt = took, s
		}
	}
	a.used--
	for a.used < a.limit && len(a.waiting) > 0 {
		a.used++
		close(a.waiting[0])
		a.waiting = a.waiting[1:]
	}
}
