// Package places bounds what is held at once, so that none of those who come has all of it: one
// has no more than are free, which is half of them at most, of what he leaves the next has half,
// and so on. Who found none waits his turn for a while. What is held it does not know.
package places

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Places are so many, and who has them.
type Places struct {
	mu    sync.Mutex
	free  int
	of    map[string]int // by who has them
	queue list.List      // of *waiter, who came first is the first
}

// New makes so many, all of them free.
func New(n int) *Places { return &Places{free: n, of: map[string]int{}} }

// waiter is one for whom there was no place.
type waiter struct {
	who string
	in  chan struct{} // closed when he has one
}

// take gives a place, if there is one. Callers hold the lock.
func (p *Places) take(who string) bool {
	if p.of[who] >= p.free {
		return false
	}
	p.free--
	p.of[who]++
	return true
}

// Enter reports whether there was a place within a while; Leave gives it back.
func (p *Places) Enter(ctx context.Context, who string, within time.Duration) bool {
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

// Leave gives one back that he has.
func (p *Places) Leave(who string) {
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

// Free is how many there are to be had.
func (p *Places) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free
}
