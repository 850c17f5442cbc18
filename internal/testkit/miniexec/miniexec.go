// Package miniexec is a small executor with the xxl-job protocol, for tests and for test/load/bench. The executor
// registers, accepts runs, executes each run in a goroutine and calls back in batches. It stores nothing, so it has no
// logs, and it kills no run. Tests that need these use package executor.
package miniexec

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/wire"
)

type Options struct {
	App    string
	Admin  string // base URL of the server; empty: no registration and no callbacks
	Token  string
	Listen string // address to listen at; empty: 127.0.0.1:0
	// Handle executes a run in a goroutine of its own. If nil, each run succeeds at once.
	Handle func(ctx context.Context, r *wire.Run) (code int, msg string)
	// Received is called with each accepted run, before the run is answered. Received must return quickly.
	Received func(r *wire.Run, at time.Time)
	// HangFrom is the time from which the executor does not answer new connections; zero: never.
	HangFrom time.Time
}

type Executor struct {
	o       Options
	ln      net.Listener
	results chan wire.CallbackItem
	client  *http.Client
	known   chan struct{} // closed once the server has taken the registration

	// Connections and runs end first, then the reports of these runs, and the registration last.
	working, talking             context.Context
	quit, hush                   context.CancelFunc
	work, reports, registrations sync.WaitGroup
	closed                       sync.Once
}

// Start starts an Executor. Close stops the executor and waits for all its runs.
func Start(o Options) (*Executor, error) {
	ln, err := net.Listen("tcp", cmp.Or(o.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("listen for runs: %w", err)
	}
	e := &Executor{o: o, ln: ln, known: make(chan struct{}), results: make(chan wire.CallbackItem, 100_000),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	e.working, e.quit = context.WithCancel(context.Background())
	e.talking, e.hush = context.WithCancel(context.Background())
	e.work.Go(e.accept)
	if o.Admin != "" {
		e.registrations.Go(e.register)
		for range 2 {
			e.reports.Go(e.callback)
		}
	}
	return e, nil
}

func (e *Executor) URL() string { return "http://" + e.ln.Addr().String() }

// Registered returns a channel that is closed when the server has accepted the registration.
func (e *Executor) Registered() <-chan struct{} { return e.known }

// closing is the longest time that Close waits for the server to accept pending reports.
const closing = 10 * time.Second

// Close stops the executor. It cancels the executor's runs, and reports the runs to the server if the server accepts the reports.
func (e *Executor) Close() {
	e.closed.Do(func() {
		defer time.AfterFunc(closing, e.hush).Stop()
		e.ln.Close()
		e.quit()
		e.work.Wait()
		close(e.results)
		e.reports.Wait()
		e.hush()
		e.registrations.Wait()
		e.client.CloseIdleConnections()
	})
}

func (e *Executor) accept() {
	for {
		c, err := e.ln.Accept()
		if err != nil {
			return
		}
		e.work.Go(func() {
			defer c.Close()
			defer context.AfterFunc(e.working, func() { c.Close() })()
			e.serve(c)
		})
	}
}

// serve answers the requests of one connection. It reads HTTP by hand, because benchmarks measure the server on the same cores.
func (e *Executor) serve(c net.Conn) {
	r := bufio.NewReaderSize(c, 8<<10)
	var body, out []byte
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return
		}
		parts := bytes.Fields(line)
		if len(parts) < 3 {
			return
		}
		path := string(parts[1])
		length := 0
		for {
			h, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if h = bytes.TrimRight(h, "\r\n"); len(h) == 0 {
				break
			}
			if k, v, ok := bytes.Cut(h, []byte(":")); ok && len(k) == len("content-length") && strings.EqualFold(string(k), "content-length") {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil || length < 0 || length > wire.MaxBody {
					return
				}
			}
		}
		if cap(body) < length {
			body = make([]byte, length)
		}
		body = body[:length]
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		if !e.o.HangFrom.IsZero() && !time.Now().Before(e.o.HangFrom) {
			<-e.working.Done()
			return
		}
		reply := e.answer(path, body)
		out = append(out[:0], "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "...)
		out = strconv.AppendInt(out, int64(len(reply)), 10)
		out = append(out, "\r\n\r\n"...)
		out = append(out, reply...)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

var ok = wire.AppendReply(nil, wire.CodeSuccess, "")

func (e *Executor) answer(path string, body []byte) []byte {
	switch path {
	case "/run", "/trigger":
		run, err := wire.DecodeRun(body)
		if err != nil {
			return wire.AppendReply(nil, wire.CodeFailure, err.Error())
		}
		if e.o.Received != nil {
			e.o.Received(&run, time.Now())
		}
		e.start(&run)
		return ok
	case "/beat", "/idleBeat", "/kill":
		return ok
	case "/log":
		return wire.AppendLogReply(nil, wire.DialectB, wire.CodeSuccess, "", wire.LogResult{FromLine: 1, End: true})
	}
	return wire.AppendReply(nil, wire.CodeFailure, "no such path: "+path)
}

func (e *Executor) start(run *wire.Run) {
	if e.o.Handle == nil {
		e.report(run, wire.CodeSuccess, "")
		return
	}
	e.work.Go(func() {
		code, msg := e.o.Handle(e.working, run)
		e.report(run, code, msg)
	})
}

func (e *Executor) report(run *wire.Run, code int, msg string) {
	if e.o.Admin == "" {
		return
	}
	select {
	case e.results <- wire.CallbackItem{LogID: run.LogID, LogTime: run.LogTime, Code: code, Msg: msg}:
	case <-e.talking.Done():
	}
}

// register announces the executor at once and then every 20 s.
func (e *Executor) register() {
	reg := wire.AppendRegistration(nil, wire.Registration{Group: wire.GroupExecutor, App: e.o.App, Address: e.URL()})
	for known := false; ; {
		wait := 20 * time.Second
		if e.post(e.talking, "/api/registry", reg) != nil {
			wait = time.Second
		} else if !known {
			known = true
			close(e.known)
		}
		select {
		case <-time.After(wait):
		case <-e.talking.Done():
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			e.post(ctx, "/api/registryRemove", reg)
			return
		}
	}
}

func (e *Executor) post(ctx context.Context, path string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.o.Admin+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", wire.ContentType)
	req.Header.Set(wire.HeaderToken, e.o.Token)
	resp, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	reply, err := wire.DecodeReply(b)
	if err != nil {
		return err
	}
	if reply.Code != wire.CodeSuccess {
		return fmt.Errorf("answered %d: %s", reply.Code, reply.Msg)
	}
	return nil
}

// callback reports results in batches of up to 50, as they come or 5 ms apart, and retries until the server accepts them.
func (e *Executor) callback() {
	batch := make([]wire.CallbackItem, 0, 50)
	for r := range e.results {
		batch = append(batch[:0], r)
		timeout := time.NewTimer(5 * time.Millisecond)
		for waits := true; waits && len(batch) < cap(batch); {
			select {
			case r, more := <-e.results:
				if waits = more; more {
					batch = append(batch, r)
				}
			case <-timeout.C:
				waits = false
			}
		}
		timeout.Stop()
		body := wire.AppendCallback(nil, wire.DialectB, batch)
		for e.post(e.talking, "/api/callback", body) != nil {
			select {
			case <-time.After(200 * time.Millisecond):
			case <-e.talking.Done():
				return
			}
		}
	}
}
