package server

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
)

// outage counts the runs that were due before a start and sent after it.
type outage struct {
	from, to core.Instant // from < instant <= to

	mu    sync.Mutex
	n     int64
	worst time.Duration
}

func (o *outage) sent(r *core.Run, at time.Time, k dispatch.AnswerKind) {
	if r.At <= o.from || r.At > o.to || !r.Cause.Planned() {
		return
	}
	switch k {
	case dispatch.AnswerRefused, dispatch.AnswerBusy: // it is tried elsewhere, or again
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	o.worst = max(o.worst, at.Sub(r.Slot.Time()))
}

func (o *outage) count() (n int64, worst time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n, o.worst
}

// awake is called before each decision that depends on recent actions of executors. If the machine slept, the process was stopped
// or the clock was set, that counts as an outage: heartbeats are missing, or seem to be. awake records the outage before any
// decision. On an error no decision is allowed.
func (s *Server) awake(ctx context.Context, p *parts) error {
	if s.gap(p, time.Now()).Abs() <= s.o.OutageAfter {
		return nil
	}
	return s.live(ctx, p)
}

// gap returns the time since the server last recorded that it lives, by the wall clock, because the monotonic clock stops while the
// machine sleeps.
func (s *Server) gap(p *parts, now time.Time) time.Duration {
	return now.Sub(time.UnixMilli(p.alive.Load()))
}

// live notes that the server lives, and before that the outage if it has not
// been able to for long.
func (s *Server) live(ctx context.Context, p *parts) error {
	p.aliveMu.Lock()
	defer p.aliveMu.Unlock()
	now := time.Now().UTC()
	if gap := s.gap(p, now); gap.Abs() > s.o.OutageAfter {
		from := now.Add(-max(gap, 0))
		if err := registry.NoteOutage(ctx, p.store, from, now, s.o.Expiry); err != nil {
			return err
		}
		s.log.Warn("server suspended or clock changed", "gap", gap.Round(time.Second).String())
	}
	if err := p.store.Alive(ctx, now); err != nil {
		return err
	}
	p.alive.Store(now.UnixMilli())
	return nil
}

// tellOutage waits until the runs that were due during an outage are sent, and prints their results and the results of runs that were
// in progress when the previous process ended.
func (s *Server) tellOutage(ctx context.Context, p *parts) {
	if p.downAt.IsZero() {
		return
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return
	}
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for try := 0; ; try++ {
		var r OutageReport
		var err error
		if p.outage.from < p.outage.to {
			r.Audit, err = p.manage.AuditAll(ctx, p.outage.from, p.outage.to)
		}
		if err == nil && (r.Audit.Pending == 0 && r.Audit.Well() || try >= 40) {
			r.Down = p.upAt.Sub(p.downAt)
			r.Sent, r.Worst = p.outage.count()
			was, all := lookBack(ctx, p.manage, p.upAt, p.outage.from, p.outage.to)
			r.UnderWay, r.Open = was.underWay, was.open
			// The audit counts a run as sent once it is claimed. Wait until those claims have answers: the report must not count
			// them as sent before the stop.
			if !all || r.Audit.OnTime+r.Audit.Late-r.Sent <= was.sentBefore || try >= 40 {
				fmt.Fprintln(s.o.Notice, r)
				return
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("effect of the outage not determined", "err", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// lookedBack bounds how many of the newest runs are asked whether they were
// under way.
const lookedBack = 20_000

// wasBefore summarizes the newest runs at the time of a start.
type wasBefore struct {
	underWay   int   // sent and not ended when the server came up
	open       int   // underWay minus the runs that have ended since
	sentBefore int64 // of the planned instants of a span, those sent before
}

// lookBack reads the newest runs; all reports whether it read every run that matters.
func lookBack(ctx context.Context, m *people.People, up time.Time, from, to core.Instant) (w wasBefore, all bool) {
	f := query.RunFilter{Limit: 1000}
	for looked := 0; looked < lookedBack; looked += f.Limit {
		page, err := m.Runs(ctx, f)
		if err != nil {
			return w, false
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			if !r.Sent() || !r.SentAt.Before(up) {
				continue
			}
			if r.Cause.Planned() && r.At > from && r.At <= to {
				w.sentBefore++
			}
			switch {
			case r.State.Open():
				w.underWay, w.open = w.underWay+1, w.open+1
			case r.EndedAt.After(up):
				w.underWay++
			}
		}
		if f.After = page.Next; f.After == "" {
			return w, true
		}
	}
	return w, false
}

// An OutageReport describes the effects of an outage.
type OutageReport struct {
	Down  time.Duration
	Audit query.AuditSum // results of the scheduled times during the outage
	// Sent is the number of due runs that were sent after the outage. Worst is the maximum lateness of these
	// runs. All other runs counted as sent were sent just before the stop.
	Sent  int64
	Worst time.Duration
	// UnderWay is the number of runs that were running when the outage ended. Open is the number of these runs
	// that are still running.
	UnderWay, Open int
}

// String returns one line about the outage for users.
func (r OutageReport) String() string {
	a := &r.Audit
	var b strings.Builder
	fmt.Fprintf(&b, "down for %s: ", Span(r.Down))
	if a.Demanded == 0 {
		b.WriteString("no runs were due")
	} else {
		fmt.Fprintf(&b, "%d %s due, %d sent after the restart", a.Demanded, plural(a.Demanded, "run was", "runs were"), r.Sent)
		if r.Sent > 0 {
			fmt.Fprintf(&b, " (at most %s late)", Span(r.Worst))
		}
		if before := a.OnTime + a.Late - r.Sent; before > 0 {
			fmt.Fprintf(&b, ", %d sent just before the stop", before)
		}
		var skipped int64
		for _, n := range a.Skipped {
			skipped += n
		}
		fmt.Fprintf(&b, ", %d skipped", skipped)
		if n := a.NotSent(); n > 0 {
			fmt.Fprintf(&b, ", %d not sent (no executor)", n)
		}
		if n := a.Pending + a.Overdue; n > 0 {
			fmt.Fprintf(&b, ", %d still on their way", n)
		}
		fmt.Fprintf(&b, ", %d unaccounted for", a.Unaccounted)
	}
	if r.UnderWay > 0 {
		n := int64(r.UnderWay)
		fmt.Fprintf(&b, "; %d %s in progress", n, plural(n, "run was", "runs were"))
		switch {
		case r.Open == 0:
			b.WriteString(" and " + plural(n, "has", "have") + " ended since")
		case r.Open < r.UnderWay:
			fmt.Fprintf(&b, ", %d of them still %s", r.Open, plural(int64(r.Open), "is", "are"))
		default:
			b.WriteString(" and still " + plural(n, "is", "are"))
		}
		if r.Open > 0 {
			b.WriteString(": tickring runs --state running")
		}
	}
	return b.String()
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Span formats a duration for users, with about two significant digits.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 100*time.Minute:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", math.Floor(d.Hours()/24))
}
