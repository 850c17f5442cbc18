package wirehttp

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/internal/safedial"
)

// idleLimit is how long an unused connection is kept. Executors close theirs after 90 s or never. The limit makes it rare that a
// connection dies between its check and the write to it.
const idleLimit = 5 * time.Second

// A host is one base URL while it is used or has idle connections.
type host struct {
	raw   string
	base  safedial.Base
	slots chan struct{} // has one element for each exchange in progress

	// Under the pool's lock.
	refs int     // exchanges in progress or waiting for a slot
	idle []*conn // the last one was used last
}

// pool bounds the exchanges at a time for each base URL and keeps the idle connections.
type pool struct {
	most  int // slots of a host
	mu    sync.Mutex
	hosts map[string]*host
	done  chan struct{} // closed by close
	sweep *time.Timer   // nil unless a sweep is due
}

// acquire takes a slot of the base URL, waiting until deadline: first come, first served. The error comes from the URL or ctx, or is
// errBusy or ErrClosed.
func (p *pool) acquire(ctx context.Context, raw string, deadline time.Time) (*host, error) {
	h, err := p.enter(raw)
	if err != nil {
		return nil, err
	}
	select {
	case h.slots <- struct{}{}:
		return h, nil
	default:
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case h.slots <- struct{}{}:
		return h, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-timer.C:
		err = errBusy
	case <-p.done:
		err = ErrClosed
	}
	p.leave(h)
	return nil, err
}

// release releases a slot.
func (p *pool) release(h *host) {
	<-h.slots
	p.leave(h)
}

// enter returns the host of a base URL, which the caller leaves later.
func (p *pool) enter(raw string) (*host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.hosts[raw]
	if h == nil {
		base, err := safedial.ParseBase(raw)
		if err != nil {
			return nil, err
		}
		h = &host{raw: raw, base: base, slots: make(chan struct{}, p.most)}
	}
	if p.closed() {
		return nil, ErrClosed
	}
	p.hosts[raw] = h
	h.refs++
	return h, nil
}

func (p *pool) leave(h *host) {
	p.mu.Lock()
	h.refs--
	p.forget(h)
	p.mu.Unlock()
}

// forget drops a host without users and idle connections.
func (p *pool) forget(h *host) {
	if h.refs == 0 && len(h.idle) == 0 {
		delete(p.hosts, h.raw)
	}
}

func (p *pool) closed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// take returns the last used connection of h, or nil.
func (p *pool) take(h *host) (c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(h.idle) - 1; last >= 0 {
		c = h.idle[last]
		h.idle = slices.Delete(h.idle, last, last+1)
	}
	return c
}

// put keeps c for later use. The caller still holds a slot of h.
func (p *pool) put(h *host, c *conn) {
	c.idleSince = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed() {
		c.close(nil)
		return
	}
	h.idle = append(h.idle, c)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleLimit, p.sweepNow)
	}
}

// sweepNow closes connections that were idle too long, and runs again while any are idle.
func (p *pool) sweepNow() {
	var old []*conn
	p.mu.Lock()
	p.sweep = nil
	for _, h := range p.hosts {
		n := 0
		for n < len(h.idle) && h.idle[n].old() {
			n++
		}
		old = append(old, h.idle[:n]...)
		h.idle = slices.Delete(h.idle, 0, n)
		if len(h.idle) > 0 && p.sweep == nil {
			p.sweep = time.AfterFunc(idleLimit, p.sweepNow)
		}
		p.forget(h)
	}
	p.mu.Unlock()
	closeAll(old)
}

// close closes the idle connections and rejects later calls; calls in progress continue.
func (p *pool) close() {
	var all []*conn
	p.mu.Lock()
	if !p.closed() {
		close(p.done)
	}
	for _, h := range p.hosts {
		all = append(all, h.idle...)
		h.idle = nil
		p.forget(h)
	}
	if p.sweep != nil {
		p.sweep.Stop()
		p.sweep = nil
	}
	p.mu.Unlock()
	closeAll(all)
}

func closeAll(list []*conn) {
	for _, c := range list {
		c.close(nil)
	}
}
