package wirehttp

import (
	"cmp"
	"container/list"
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// room bounds what bodies are held at once. Long ones have places of their own, so that
// a backlog that is reported keeps nobody's heartbeat out.
type room struct {
	short, long places
	wait        time.Duration
}

// heldShort is how many bodies of at most MaxRegistration bytes are held at once.
const heldShort = 1024

func newRoom(long int, wait time.Duration) *room {
	return &room{places{free: heldShort}, places{free: long}, wait}
}

// enter waits for a place for a body of a size; leave gives it back.
func (m *room) enter(ctx context.Context, token string, size int64) (leave func(), ok bool) {
	p := &m.short
	if size > MaxRegistration {
		p = &m.long
	}
	return func() { p.leave(token) }, p.enter(ctx, token, m.wait)
}

// places are for bodies of a kind. Of them one app, which is a token, has no more than
// are free: there is room for the next.
type places struct {
	mu    sync.Mutex
	free  int
	of    map[string]int // by token
	queue list.List      // of *waiter, who came first is the first
}

// waiter is one for whom there was no place.
type waiter struct {
	token string
	in    chan struct{} // closed when he has one
}

// take gives a place, if there is one. Callers hold the lock.
func (p *places) take(token string) bool {
	if p.of[token] >= p.free {
		return false
	}
	if p.of == nil {
		p.of = map[string]int{}
	}
	p.free--
	p.of[token]++
	return true
}

// enter reports whether there was a place within a while.
func (p *places) enter(ctx context.Context, token string, within time.Duration) bool {
	p.mu.Lock()
	if p.take(token) {
		p.mu.Unlock()
		return true
	}
	w := &waiter{token, make(chan struct{})}
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

func (p *places) leave(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free++
	if p.of[token]--; p.of[token] == 0 {
		delete(p.of, token)
	}
	for e := p.queue.Front(); e != nil && p.free > 0; {
		w, next := e.Value.(*waiter), e.Next()
		if p.take(w.token) {
			p.queue.Remove(e)
			close(w.in)
		}
		e = next
	}
}

// ReadBody appends the body of a request to buf: one of at most so many bytes (else a
// *http.MaxBytesError), which is there within a while (0: 10 s).
func ReadBody(w http.ResponseWriter, r *http.Request, buf []byte, most int64, within time.Duration) ([]byte, error) {
	if r.ContentLength != 0 { // else the deadline would be that of what comes next
		// Where there are none (a function) all of the body has come.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(cmp.Or(within, 10*time.Second)))
	}
	body := http.MaxBytesReader(w, r.Body, most)
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}
