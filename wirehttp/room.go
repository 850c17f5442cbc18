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

// Room bounds what bodies a door holds at once. Long ones have places of their own, so that
// a backlog that is reported keeps nobody's heartbeat out.
type Room struct {
	short, long places
	wait        time.Duration
}

// heldShort is how many bodies of at most MaxRegistration bytes are held at once.
const heldShort = 1024

// NewRoom has so many places for long bodies, for which a while is waited; of both 0 is the
// default: 8, and 5 s.
func NewRoom(long int, wait time.Duration) *Room {
	return &Room{places{free: heldShort}, places{free: cmp.Or(long, 8)}, cmp.Or(wait, 5*time.Second)}
}

// Enter waits for a place for the body of a request, which has at most so many bytes, by
// whoever sends it; leave gives it back.
func (m *Room) Enter(r *http.Request, who string, most int64) (leave func(), ok bool) {
	size := r.ContentLength
	if size < 0 {
		size = most // it may become so much
	}
	return m.enter(r.Context(), who, size)
}

// enter waits for a place for a body of a size; leave gives it back.
func (m *Room) enter(ctx context.Context, token string, size int64) (leave func(), ok bool) {
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
