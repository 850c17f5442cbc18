package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/wire"
)

// underWay counts the operations that a stop waits for, and the sends that callbacks wait for.
type underWay struct {
	sends, calls, reports atomic.Int64
	begun                 atomic.Int64 // sends and calls since the start
}

// counted is a Sender that counts its sends and calls in u while they run, and passes their jobs and apps to sent.
type counted struct {
	dispatch.Sender
	u    *underWay
	sent func(job core.JobID, app string)
}

func (c counted) Send(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
	c.u.begun.Add(1)
	c.sent(s.Run.ID.Job(), s.Run.App)
	n := &c.u.sends
	if strings.HasPrefix(s.Address, "call:") {
		n = &c.u.calls
	}
	n.Add(1)
	defer n.Add(-1)
	return c.Sender.Send(ctx, s)
}

const (
	longestYield = 250 * time.Millisecond
	yieldStep    = 5 * time.Millisecond
	manySends    = 10 // that begin in a step
)

// yield lets sends go first while many begin, but at most for longestYield. Callbacks would take the processor from runs that
// are due: a quarter of the time in which a burst of 10,000 was sent.
func (u *underWay) yield(ctx context.Context) {
	if u.sends.Load() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, longestYield)
	defer cancel()
	step := time.NewTicker(yieldStep)
	defer step.Stop()
	for {
		begun := u.begun.Load()
		select {
		case <-step.C:
		case <-ctx.Done():
			return
		}
		if u.begun.Load()-begun < manySends {
			return
		}
	}
}

// counts reports whether a request brings the end of runs.
func counts(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, wire.PathCallback) || strings.HasPrefix(r.URL.Path, "/v1/report/")
}

// String lists the operations in progress; empty if no operation is in progress.
func (u *underWay) String() string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{u.sends.Load(), "send"}, {u.calls.Load(), "call"}, {u.reports.Load(), "callback"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprint(p.n, " ", plural(p.n, p.what, p.what+"s")))
		}
	}
	return strings.Join(parts, ", ")
}

// tellDrain prints the operations that the stop waits for, every DrainTold, until ctx ends.
func (s *Server) tellDrain(ctx context.Context, until time.Time) {
	t := time.NewTicker(s.o.DrainTold)
	defer t.Stop()
	for {
		left, loses := s.under.String(), "nothing"
		if p := s.parts.Load(); p.commands != nil && p.commands.AtWork() > 0 {
			if left != "" {
				left += ", "
			}
			left, loses = left+"running commands", "the running commands"
		}
		if left != "" {
			fmt.Fprintf(s.o.Notice, "stopping: waiting for %s, at most %s; a second signal ends the server at once and loses %s\n", left,
				Span(time.Until(until)), loses)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}
