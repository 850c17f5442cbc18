package wirehttp

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// plain is the transport of http: one request at a time on connections that
// the pool keeps.
type plain struct {
	pool  *pool
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	check guard
}

func (t *plain) closeIdle() { t.pool.close() }

// conn is one connection. Only the exchange that took it uses it.
type conn struct {
	net.Conn
	br        *bufio.Reader
	ip        netip.Addr // invalid if the connection has none
	idleSince time.Time

	raw     syscall.RawConn // nil: the socket cannot be checked
	look    func(fd uintptr)
	quiet   bool // result of look
	abort   func()
	aborted chan struct{}
}

// past is a deadline that ends every wait on a connection.
var past = time.Unix(1, 0)

func newConn(nc net.Conn) *conn {
	c := &conn{Conn: nc, br: bufio.NewReaderSize(nc, lineBuffer), aborted: make(chan struct{}, 1)}
	c.ip = addrOf(nc)
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			c.look = func(fd uintptr) { c.quiet = quietSocket(fd) }
		}
	}
	c.abort = func() {
		_ = c.SetDeadline(past)
		c.aborted <- struct{}{}
	}
	return c
}

func addrOf(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr()
	}
	return netip.Addr{}
}

func (c *conn) close() { _ = c.Conn.Close() }

// usable reports whether an idle connection is still open and has received nothing. An executor that closed it, or that sends
// without a request, must not get the next request. On platforms without a check of the socket, only a connection that was used
// within the last second is usable.
func (c *conn) usable(now time.Time) bool {
	if c.br.Buffered() > 0 {
		return false
	}
	if c.raw == nil || !canLook {
		return now.Sub(c.idleSince) < time.Second
	}
	c.quiet = false
	return c.raw.Control(c.look) == nil && c.quiet
}

func (t *plain) roundTrip(ctx context.Context, x *exchange) (response, error) {
	h := x.host
	if err := ctx.Err(); err != nil {
		return response{}, context.Cause(ctx)
	}
	buf := bodies.Get().(*[]byte)
	defer putBody(buf)
	*buf = append(appendHead((*buf)[:0], x), x.body...)

	now := time.Now()
	for c := t.pool.take(h, now); c != nil; c = t.pool.take(h, now) {
		// A list of allowed addresses may have changed since the dial, or be
		// another app's.
		if !c.usable(now) || c.ip.IsValid() && t.check(ctx, c.ip) != nil {
			c.close()
			continue
		}
		res, err := t.exchange(ctx, c, x, *buf)
		if err == nil || res.began || ctx.Err() != nil || !time.Now().Before(x.deadline) {
			return res, err
		}
		break // not one byte went out: a fresh connection may do
	}
	c, err := t.connect(ctx, x)
	if err != nil {
		return response{}, err
	}
	return t.exchange(ctx, c, x, *buf)
}

func (t *plain) connect(ctx context.Context, x *exchange) (*conn, error) {
	dialCtx, cancel := context.WithDeadline(ctx, x.deadline)
	defer cancel()
	nc, err := t.dial(dialCtx, "tcp", x.host.base.Host)
	if err != nil {
		return nil, err
	}
	c := newConn(nc)
	if c.ip.IsValid() {
		if err := t.check(ctx, c.ip); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

// exchange writes req to c and reads the answer. Afterwards c is kept or
// closed.
func (t *plain) exchange(ctx context.Context, c *conn, x *exchange, req []byte) (res response, err error) {
	reuse := false
	defer func() {
		if reuse && c.br.Buffered() == 0 {
			t.pool.put(x.host, c, time.Now())
		} else {
			c.close()
		}
	}()
	if err := c.SetDeadline(x.deadline); err != nil {
		return res, err
	}
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, c.abort)
		defer func() {
			if !stop() {
				// The call ended while the abort runs, which would spoil the
				// deadline of the next exchange.
				<-c.aborted
				reuse = false
				if err != nil {
					err = context.Cause(ctx)
				}
			}
		}()
	}
	// Write gives the number of bytes that the kernel took: 0 proves that the
	// executor got none.
	n, err := c.Conn.Write(req)
	res.began = n > 0
	if err != nil {
		return res, err
	}
	res.status, res.body, reuse, err = readResponse(c.br, x.room, x.most, x.cut, x.date)
	return res, err
}
