// Package connlimit limits the number of open connections to a server. At the limit, it closes connections that are idle,
// stuck or without a complete request, so that other clients still get answers.
package connlimit

import (
	"container/list"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConns bounds the memory that unknown clients can use: each connection is about 20 KB.
const maxConns = 8192

// FromRlimit returns the maximum number of connections of this process: half of its file descriptors. The other half
// is for connections to executors, data files and logs.
func FromRlimit() int { return mostOf(descriptors()) }

// mostOf is FromRlimit for a number of descriptors; 0: unknown.
func mostOf(descriptors uint64) int {
	if descriptors == 0 {
		return maxConns
	}
	return int(min(max(descriptors/2, 1), maxConns))
}

// Listen returns a listener that limits the number of open connections of ln. Call Listen before the server starts.
// The server must report to the listener which connections are idle.
func Listen(ln net.Listener, most int, s *http.Server, log *slog.Logger) net.Listener {
	l := newConns(ln, most, log)
	l.watch(s)
	return l
}

// conns is a listener with a bound on its connections. If there is no room for the next, it
// closes the first of these: one that has read nothing of its answer for a while; the oldest
// without a complete first request, after its patience; one between two requests, though the
// next may have come. So quick clients get answers, however many connections and requests there
// are. It waits for other connections that are being answered.
type conns struct {
	net.Listener
	most     int
	patience time.Duration
	stands   time.Duration // how long a write may make no progress before its connection may be closed
	log      *slog.Logger

	mu     sync.Mutex
	open   int
	fresh  list.List // of *conn without a complete first request, the oldest first
	idle   list.List // of *conn between two requests, the oldest first
	writes list.List // of *conn that is being written to, the oldest write first
	room   sync.Cond // a connection was closed, or is no longer answered
	waits  bool      // Accept waits for room
	closed bool
	ended  int       // closed because of missing room since the last message
	told   time.Time // time of the last message about missing room
}

func newConns(ln net.Listener, most int, log *slog.Logger) *conns {
	l := &conns{Listener: ln, most: most, patience: time.Second, stands: 5 * time.Second, log: log}
	l.room.L = &l.mu
	return l
}

// conn is one connection of conns.
type conn struct {
	net.Conn
	of *conns
	// Under the lock of of:
	in    *list.List // nil while it is answered, and once it is closed
	at    *list.Element
	since time.Time     // it is there
	write *list.Element // of the write that is under way
	wrote time.Time     // it began
	gone  bool
}

func (l *conns) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.open >= l.most && !l.closed {
		l.tell()
		ended, soon := l.endOne(time.Now())
		if ended {
			break
		}
		t := time.AfterFunc(soon, l.again)
		l.waits = true
		l.room.Wait()
		l.waits = false
		t.Stop()
	}
	l.open++
	c.put(&l.fresh)
	return c, nil
}

func (l *conns) again() {
	l.mu.Lock()
	l.room.Broadcast()
	l.mu.Unlock()
}

// endOne closes the first idle, incomplete or stuck connection whose time is over; else it
// returns how soon one will be. Callers hold the lock.
func (l *conns) endOne(now time.Time) (ended bool, soon time.Duration) {
	soon = l.stands // no event announces that a write begins
	for _, in := range []*list.List{&l.writes, &l.fresh, &l.idle} {
		e := in.Front()
		if e == nil {
			continue
		}
		c, left := e.Value.(*conn), time.Duration(0)
		switch in {
		case &l.writes:
			left = l.stands - now.Sub(c.wrote)
		case &l.fresh:
			left = l.patience - now.Sub(c.since)
		}
		if left <= 0 {
			c.leave()
			c.Conn.Close()
			l.ended++
			return true, 0
		}
		soon = min(soon, left)
	}
	return false, soon
}

// tell logs once a minute that there is no room. Callers hold the lock.
func (l *conns) tell() {
	if now := time.Now(); now.Sub(l.told) >= time.Minute {
		l.log.Warn("connection limit reached: unused connections closed for new connections",
			"most", l.most, "waiting", l.fresh.Len(), "idle", l.idle.Len(), "writing", l.writes.Len(), "closed", l.ended)
		l.told, l.ended = now, 0
	}
}

func (l *conns) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.again()
	return l.Listener.Close()
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	c.leave()
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// leave makes room, once. Callers hold the lock.
func (c *conn) leave() {
	c.put(nil)
	c.writing(false)
	if !c.gone {
		c.gone = true
		c.of.open--
		c.of.room.Signal()
	}
}

// put moves it to a list, or nil to none. Callers hold the lock.
func (c *conn) put(in *list.List) {
	if c.in != nil {
		c.in.Remove(c.at)
	}
	if c.in = in; in != nil {
		c.at, c.since = in.PushBack(c), time.Now()
		c.of.room.Signal()
	}
}

// piece is the number of bytes per write, so that a slow reader shows progress.
const piece = 16 << 10

func (c *conn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		c.of.mu.Lock()
		c.writing(!c.gone)
		c.of.mu.Unlock()
		var m int
		m, err = c.Conn.Write(p[n:min(len(p), n+piece)])
		n += m
		c.of.mu.Lock()
		c.writing(false)
		c.of.mu.Unlock()
	}
	return n, err
}

// writing records that a write begins, or that none runs. Callers hold the lock.
func (c *conn) writing(begins bool) {
	if c.write != nil {
		c.of.writes.Remove(c.write)
		c.write = nil
	}
	if begins {
		c.write, c.wrote = c.of.writes.PushBack(c), time.Now()
	}
}

// connOf returns the connection behind a net.Conn of net/http.
func connOf(nc net.Conn) *conn {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*conn)
	return c
}

type connKey struct{}

// watch makes a server report which of its connections are idle. A request counts once it has
// arrived completely: its first bytes may be all that ever arrive. The server uses no HTTP/2,
// because there one connection has many requests, and an unread answer need not block a write.
func (l *conns) watch(s *http.Server) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, connOf(nc))
	}
	s.ConnState = func(nc net.Conn, state http.ConnState) {
		if c := connOf(nc); c != nil && state == http.StateIdle {
			c.move(&l.idle)
		}
	}
	answer := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		switch {
		case c == nil:
		case r.Body == http.NoBody:
			c.move(nil)
		default:
			r.Body = &body{r.Body, c}
			// Before it answers, net/http reads the rest of a body that its handler did not want.
			defer func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(l.patience)) }()
		}
		answer.ServeHTTP(w, r)
	})
}

// body is the body of a request; its end completes the request.
type body struct {
	io.ReadCloser
	of *conn
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.of.move(nil)
	}
	return n, err
}

func (c *conn) move(in *list.List) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.gone {
		c.put(in)
	}
	if l := c.of; in == &l.idle && l.waits && l.open >= l.most {
		l.endOne(time.Now()) // before its next request, if that is there
	}
}
