package wirehttp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/tickring/tickring/wire"
)

// An exchange is one request and the room for its answer.
type exchange struct {
	host     *host
	path     string // under the base's path, with its slash
	auth     Auth
	about    wire.About // of a run
	body     []byte
	most     int        // bytes of the response body
	cut      bool       // the first bytes of a longer one are of use
	deadline time.Time  // of everything: dial, write and read
	room     []byte     // the response body is appended to it
	date     *time.Time // receives the Date of the response; nil: not wanted
}

// A response is the result of a round trip, including a failed one.
type response struct {
	status int    // 0: the head of the response did not arrive
	body   []byte // whole only if there was no error
	began  bool   // at least one byte of the request was handed to the network
}

// transport carries one exchange at a time on connections that the pool keeps. It repeats a request by itself only while it is
// certain that no byte of it has left this process: whether a run may be sent elsewhere hangs on that.
//
// With the transport of net/http the server uses 38 % more processor a fire (0.95 s
// for 10,000, not 0.69) and the last of a burst of 10,000 leaves 40 % later
// (1.35 s, not 0.96): medians of five alternating runs of test/load/bench with
// burst-10000 on two busy cores.
type transport struct {
	pool  *pool
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	check func(ctx context.Context, ip netip.Addr) error // before each use of a connection
	tls   *tls.Config
}

// conn is one connection. Only the exchange that took it uses it.
type conn struct {
	net.Conn           // with TLS if the host has it
	socket    net.Conn // without TLS
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

// close closes the connection; after an error without a word, which could block.
func (c *conn) close(err error) {
	if err != nil {
		_ = c.socket.Close()
		return
	}
	_ = c.Conn.Close()
}

func (c *conn) old() bool { return time.Since(c.idleSince) > idleLimit }

// usable reports whether an idle connection is still open and has received nothing. An executor that closed it, or that sends
// without a request, must not get the next request. On platforms without a check of the socket, only a connection that was used
// within the last second is usable.
func (c *conn) usable() bool {
	if c.old() || c.br.Buffered() > 0 {
		return false
	}
	if _, secure := c.Conn.(*tls.Conn); secure { // the end of TLS can have arrived with the last response
		_ = c.SetReadDeadline(past)
		if _, err := c.br.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			return false
		}
	}
	if c.raw == nil || !canLook {
		return time.Since(c.idleSince) < time.Second
	}
	c.quiet = false
	return c.raw.Control(c.look) == nil && c.quiet
}

func (t *transport) roundTrip(ctx context.Context, x *exchange) (response, error) {
	if ctx.Err() != nil {
		return response{}, context.Cause(ctx)
	}
	buf := bodies.Get().(*[]byte)
	defer putBody(buf)
	*buf = append(appendHead((*buf)[:0], x), x.body...)

	for c := t.pool.take(x.host); c != nil; c = t.pool.take(x.host) {
		// A list of allowed addresses may have changed since the dial, or be
		// another app's.
		if !c.usable() || c.ip.IsValid() && t.check(ctx, c.ip) != nil {
			c.close(nil)
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

func (t *transport) connect(ctx context.Context, x *exchange) (_ *conn, err error) {
	dialCtx, cancel := context.WithDeadline(ctx, x.deadline)
	defer cancel()
	nc, err := t.dial(dialCtx, "tcp", x.host.base.Host)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, socket: nc, aborted: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			c.close(err)
		}
	}()
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		c.ip = a.AddrPort().Addr()
		if err := t.check(ctx, c.ip); err != nil {
			return nil, err
		}
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			c.look = func(fd uintptr) { c.quiet = quietSocket(fd) }
		}
	}
	buffer := lineBuffer
	if x.host.base.HTTPS {
		conf := t.tls.Clone()
		if conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(x.host.base.Host)
		}
		secure := tls.Client(nc, conf)
		if err := secure.HandshakeContext(dialCtx); err != nil {
			return nil, err
		}
		c.Conn, buffer = secure, maxHead // gateways send long lines
	}
	c.br = bufio.NewReaderSize(c.Conn, buffer)
	c.abort = func() {
		_ = c.SetDeadline(past)
		c.aborted <- struct{}{}
	}
	return c, nil
}

// exchange writes req to c and reads the answer. Afterwards c is kept or
// closed.
func (t *transport) exchange(ctx context.Context, c *conn, x *exchange, req []byte) (res response, err error) {
	reuse := false
	defer func() {
		if reuse && c.br.Buffered() == 0 {
			t.pool.put(x.host, c)
		} else {
			c.close(err)
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
	// executor got none. With TLS these are the bytes of whole records: a part of
	// a record cannot be read.
	n, err := c.Conn.Write(req)
	res.began = n > 0
	if err != nil {
		return res, err
	}
	res.status, res.body, reuse, err = readResponse(c.br, x.room, x.most, x.date)
	return res, err
}

// appendHead appends the head of the request.
func appendHead(dst []byte, x *exchange) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, x.host.base.Path...)
	dst = append(dst, x.path...)
	dst = append(dst, " HTTP/1.1\r\nHost: "...)
	dst = append(dst, x.host.base.Authority...)
	dst = append(dst, "\r\nUser-Agent: tickring\r\nContent-Type: "+wire.ContentType+"\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(x.body)), 10)
	if x.auth.Token != "" {
		dst = append(dst, "\r\n"+wire.HeaderToken+": "...)
		dst = append(dst, x.auth.Token...)
	}
	if x.auth.App != "" {
		dst = append(dst, "\r\n"+wire.HeaderApp+": "...)
		dst = append(dst, x.auth.App...)
	}
	x.about.Headers(func(name, value string) {
		dst = append(append(append(append(dst, "\r\n"...), name...), ": "...), value...)
	})
	return append(dst, "\r\n\r\n"...)
}

// headerValue reports whether s is safe as a header value: no control characters, which could end it and begin another, and no
// space at its ends.
func headerValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return s == "" || s[0] != ' ' && s[len(s)-1] != ' '
}
