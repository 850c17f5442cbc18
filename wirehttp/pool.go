package wirehttp

import (
	"context"
	"sync"
	"time"

	"github.com/tickring/tickring/internal/safedial"
)

// idleLimit is how long an unused connection is kept. Executors close theirs after 90 s or never. The limit makes it rare that a
// connection dies between its check and the write to it.
const idleLimit = 5 * time.Second

// A host is one base URL while it is used or has idle connections.
type host struct {
	raw  string
	base safedial.Base

	// Under the pool's lock.
	refs    int             // exchanges that hold it, waiting ones included
	inUse   int             // exchanges that hold a slot
	waiting []chan struct{} // exchanges that wait for a slot, first come first served
	idle    []*conn         // the last one was used last
}

// pool bounds the exchanges at a time for each base URL and keeps the idle
// connections of the plain transport.
type pool struct {
	most  int // slots of a host
	mu    sync.Mutex
	hosts map[string]*host
	idle  int // connections in all hosts
	done  chan struct{}

	closed bool
	sweep  *time.Timer    // armed while idle > 0
	sweeps sync.WaitGroup // 1 while it is armed or runs
}

func newPool(most int) *pool {
	return &pool{most: most, hosts: map[string]*host{}, done: make(chan struct{})}
}

// acquire takes a slot of the base URL, waiting until deadline. The error comes from the URL or ctx, or is errBusy or ErrClosed.
func (p *pool) acquire(ctx context.Context, raw string, deadline time.Time) (*host, error) {
	p.mu.Lock()
	h := p.hosts[raw]
	if h == nil {
		base, err := safedial.ParseBase(raw)
		if err != nil {
			p.mu.Unlock()
			return nil, err
		}
		h = &host{raw: raw, base: base}
		p.hosts[raw] = h
	}
	if p.closed {
		p.forget(h)
		p.mu.Unlock()
		return nil, ErrClosed
	}
	h.refs++
	if h.inUse < p.most {
		h.inUse++
		p.mu.Unlock()
		return h, nil
	}
	slot := make(chan struct{})
	h.waiting = append(h.waiting, slot)
	p.mu.Unlock()

	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	var err error
	select {
	case <-slot:
		return h, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = errBusy
	case <-p.done:
		err = ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range h.waiting {
		if w == slot {
			h.waiting = append(h.waiting[:i], h.waiting[i+1:]...)
			h.refs--
			p.forget(h)
			return nil, err
		}
	}
	p.release1(h) // the slot was assigned at this moment
	return nil, err
}

// release releases a slot.
func (p *pool) release(h *host) {
	p.mu.Lock()
	p.release1(h)
	p.mu.Unlock()
}

func (p *pool) release1(h *host) {
	h.refs--
	if len(h.waiting) > 0 {
		close(h.waiting[0])
		h.waiting = h.waiting[1:]
		return
	}
	h.inUse--
	p.forget(h)
}

// forget drops a host without users and idle connections.
func (p *pool) forget(h *host) {
	if h.refs == 0 && len(h.idle) == 0 {
		delete(p.hosts, h.raw)
	}
}

// take returns the last used connection of h, or nil. It closes connections that were idle too long.
func (p *pool) take(h *host, now time.Time) *conn {
	p.mu.Lock()
	n := len(h.idle)
	if n == 0 {
		p.mu.Unlock()
		return nil
	}
	c := h.idle[n-1]
	if now.Sub(c.idleSince) <= idleLimit {
		h.idle[n-1] = nil
		h.idle = h.idle[:n-1]
		p.idle--
		p.mu.Unlock()
		return c
	}
	// The others were used even earlier.
	old := p.takeOld(h, now)
	p.mu.Unlock()
	closeAll(old)
	return nil
}

// put keeps c for later use. The caller still holds a slot of h.
func (p *pool) put(h *host, c *conn, now time.Time) {
	c.idleSince = now
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		c.close()
		return
	}
	h.idle = append(h.idle, c)
	p.idle++
	if p.idle == 1 && p.sweep == nil {
		p.sweeps.Add(1)
		p.sweep = time.AfterFunc(idleLimit, p.sweepNow)
	}
	p.mu.Unlock()
}

// takeOld removes the connections of h that were idle too long.
func (p *pool) takeOld(h *host, now time.Time) (old []*conn) {
	n := 0
	for n < len(h.idle) && now.Sub(h.idle[n].idleSince) > idleLimit {
		n++
	}
	old = append(old, h.idle[:n]...)
	rest := copy(h.idle, h.idle[n:])
	clear(h.idle[rest:])
	h.idle = h.idle[:rest]
	p.idle -= n
	return old
}

// sweepNow closes connections that were idle too long and runs again while any are idle.
func (p *pool) sweepNow() {
	var old []*conn
	now := time.Now()
	p.mu.Lock()
	for _, h := range p.hosts {
		old = append(old, p.takeOld(h, now)...)
		p.forget(h)
	}
	if p.idle > 0 && !p.closed {
		p.sweep.Reset(idleLimit)
	} else {
		p.sweep = nil
		p.sweeps.Done()
	}
	p.mu.Unlock()
	closeAll(old)
}

// close closes the idle connections and rejects later calls; calls in progress continue. It waits for the sweep.
func (p *pool) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.done)
	var all []*conn
	for _, h := range p.hosts {
		all = append(all, h.idle...)
		h.idle = nil
		p.forget(h)
	}
	p.idle = 0
	if p.sweep != nil && p.sweep.Stop() {
		p.sweep = nil
		p.sweeps.Done()
	}
	p.mu.Unlock()
	closeAll(all)
	p.sweeps.Wait()
}

func closeAll(list []*conn) {
	for _, c := range list {
		c.close()
	}
}
