// Package fairsem limits concurrent use, and prevents one owner from taking all slots. An owner gets a further slot
// only if the owner has fewer slots than are free. The first owner therefore gets at most half of the slots, the next
// owner at most half of the remaining slots, and so on. An owner that gets no slot waits in a queue for a limited
// time.
package fairsem

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Semaphore has a fixed number of slots, and records their owners.
type Semaphore struct {
	mu    sync.Mutex
	free  int
	of    map[string]int // number of places by owner
	queue list.List      // of *waiter, the oldest first
}

// New returns a Semaphore with n free slots.
func New(n int) *Semaphore { return &Semaphore{free: n, of: map[string]int{}} }

// waiter is an owner in line for a place.
type waiter struct {
	who string
	in  chan struct{} // closed when it has a place
}

// take gives who a place if its share allows one, and reports whether it did. Callers hold the lock.
func (p *Semaphore) take(who string) bool {
	if p.of[who] >= p.free {
		return false
	}
	p.free--
	p.of[who]++
	return true
}

// Acquire waits for a slot for an owner, and reports whether the owner got a slot within the time limit. The owner
// returns the slot with Release.
func (p *Semaphore) Acquire(ctx context.Context, who string, within time.Duration) bool {
	p.mu.Lock()
	if p.take(who) {
		p.mu.Unlock()
		return true
	}
	w := &waiter{who, make(chan struct{})}
	e := p.queue.PushBack(w)
	p.mu.Unlock()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-w.in:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.in: // just now
		return true
	default:
		p.queue.Remove(e)
		return false
	}
}

// Release returns one slot of an owner to the free slots.
func (p *Semaphore) Release(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.of[who]--; p.of[who] == 0 {
		delete(p.of, who)
	}
	for e := p.queue.Front(); e != nil && p.free > 0; {
		w, next := e.Value.(*waiter), e.Next()
		if p.take(w.who) {
			p.queue.Remove(e)
			close(w.in)
		}
		e = next
	}
}

// Free returns the number of free slots.
func (p *Semaphore) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}
