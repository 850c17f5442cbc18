package wirehttp

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/wire"
)

// viaNetHTTP is the transport of https. It keeps the automatic behavior of net/http within the rules of transport: no redirects, no
// proxies, no HTTP/2, whose shared connections hide which request's bytes were sent, and bytes counted below TLS.
type viaNetHTTP struct {
	rt    *http.Transport
	check guard
}

func newViaNetHTTP(dial func(ctx context.Context, network, address string) (net.Conn, error), check guard, conf *tls.Config, perHost int,
	timeout time.Duration) *viaNetHTTP {
	t := &viaNetHTTP{check: check}
	t.rt = &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			// net/http dials apart from the request and drops its deadline.
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			nc, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &counted{Conn: nc}, nil
		},
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    timeout,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    perHost,
		IdleConnTimeout:        idleLimit,
		MaxResponseHeaderBytes: maxHead,
		ReadBufferSize:         lineBuffer,
	}
	return t
}

func (t *viaNetHTTP) closeIdle() { t.rt.CloseIdleConnections() }

// counted counts the bytes written to a connection, including TLS overhead. Bytes of a write in progress count as written. So out
// is never too low after the connection is closed.
type counted struct {
	net.Conn
	out atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.out.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	c.out.Add(int64(n - len(b)))
	return n, err
}

func countedOf(nc net.Conn) *counted {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	c, _ := nc.(*counted)
	return c
}

func (t *viaNetHTTP) roundTrip(ctx context.Context, x *exchange) (response, error) {
	parent := ctx
	if err := ctx.Err(); err != nil {
		return response{}, context.Cause(ctx)
	}
	ctx, cancel := context.WithDeadline(ctx, x.deadline)
	defer cancel()

	// The connection for the request, and the bytes that it had sent before. net/http sets them again if it switches connections,
	// which it does for a POST only if nothing was written.
	var used *counted
	var before int64
	var refused error
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		used = countedOf(info.Conn)
		if used == nil {
			return
		}
		before = used.out.Load()
		if ip := addrOf(used.Conn); ip.IsValid() {
			if err := t.check(parent, ip); err != nil {
				// Closed here, before the request is written; a fresh one is
				// judged at its dial.
				refused = err
				_ = used.Conn.Close()
			}
		}
	}})
	scheme := "http://"
	if x.host.base.HTTPS {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+x.host.base.Authority+x.host.base.Path+x.path, bytes.NewReader(x.body))
	if err != nil {
		return response{}, err
	}
	req.Header["Content-Type"] = contentType
	req.Header["User-Agent"] = userAgent
	if x.auth.Token != "" {
		req.Header[wire.HeaderToken] = []string{x.auth.Token}
	}
	if x.auth.App != "" {
		req.Header[wire.HeaderApp] = []string{x.auth.App}
	}
	x.about.Headers(req.Header.Set)
	res, err := t.rt.RoundTrip(req)
	if err != nil {
		began := false
		if used != nil {
			// The goroutine of net/http that writes may not have ended. After
			// this it cannot write any more.
			_ = used.Conn.Close()
			began = used.out.Load() > before
		}
		if refused != nil && !began {
			err = refused
		} else if parent.Err() != nil {
			err = context.Cause(parent)
		}
		return response{began: began}, err
	}
	defer res.Body.Close()
	if x.date != nil {
		*x.date = dateOf(res.Header.Get("Date"))
	}
	body, err := readToEndOf(res.Body, x.room, x.most)
	return response{status: res.StatusCode, body: body, began: true}, err
}

var userAgent = []string{"tickring"}

func readToEndOf(r io.Reader, dst []byte, most int) ([]byte, error) {
	buf := bytes.NewBuffer(dst)
	n, err := buf.ReadFrom(io.LimitReader(r, int64(most)+1))
	if err == nil && n > int64(most) {
		err = ErrTooLarge
	}
	return buf.Bytes(), err
}
