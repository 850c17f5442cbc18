package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/store"
)

// work runs the background loops until ctx ends or the HTTP server fails. Then it stops planning first, and waits for the sends in
// progress.
func (s *Server) work(ctx context.Context, serveErr <-chan error) error {
	p := s.parts.Load()
	plan, stopPlan := context.WithCancel(context.WithoutCancel(ctx))
	defer stopPlan()
	receive, stopReceive := context.WithCancel(context.WithoutCancel(ctx))
	defer stopReceive()
	// Handling has its own context: it ends only when the grace is over.
	handle, stopHandle := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHandle()

	var planners, receivers sync.WaitGroup
	planners.Go(func() { s.tickLoop(plan, p) })
	planners.Go(func() { s.sweepLoop(plan, p) })
	for _, l := range []struct {
		every time.Duration
		what  string
		pass  func(context.Context) error
	}{
		{s.o.WatchEvery, "watchdog", func(ctx context.Context) error {
			err := s.awake(ctx, p)
			if err == nil {
				_, err = p.watch.Pass(ctx)
			}
			return err
		}},
		{s.o.ReportEvery, "reports", p.reports.Pass},
		{s.o.SweepEvery, "dead letters", func(ctx context.Context) error { _, err := p.dead.Pass(ctx); return err }},
		{s.o.LookEvery, "notifications", func(ctx context.Context) error { _, err := p.notices.Pass(ctx); return err }},
		{s.o.ProbeEvery, "checks of fixed addresses", p.probe.Pass},
		{s.o.AliveEvery, "heartbeat", func(ctx context.Context) error { return s.live(ctx, p) }},
	} {
		planners.Go(func() { s.every(plan, l.every, l.what, l.pass) })
	}
	receivers.Go(func() { s.intake(p).Run(receive, handle) })
	receivers.Go(func() { s.checks(p).Run(receive, handle) })
	receivers.Go(func() { s.postRuns(p).Run(receive, handle) })

	var err error
	select {
	case <-ctx.Done():
	case err = <-serveErr:
		s.log.Error("the HTTP server ended", "err", err)
	}
	s.log.Info("stopping")
	close(p.stopping)
	until := time.Now().Add(s.o.Drain)
	last := min(2*time.Second, s.o.Drain/5) // the time for callbacks after the last send
	telling, told := context.WithCancel(context.WithoutCancel(ctx))
	var notes sync.WaitGroup
	notes.Go(func() { s.tellDrain(telling, until) })
	defer notes.Wait()
	defer told()
	var commands sync.WaitGroup
	commands.Go(func() { s.stopCommands(p, until) })
	p.planning.Store(false)
	stopPlan()
	planners.Wait()
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	if rerr := p.tick.Release(release); rerr != nil {
		s.log.Warn("leases not released", "err", rerr)
	}
	cancel()
	stopReceive()
	defer context.AfterFunc(s.hurry, stopHandle)()
	cut := time.AfterFunc(time.Until(until)-last, stopHandle)
	receivers.Wait()
	cut.Stop()
	if s.o.Closing != nil {
		s.o.Closing()
	}
	commands.Wait()
	p.pull.Close()
	shut, cancel2 := context.WithDeadline(s.hurry, until)
	defer cancel2()
	if serr := s.http.Shutdown(shut); serr != nil && !errors.Is(serr, http.ErrServerClosed) {
		s.http.Close()
	}
	return err
}

func (s *Server) every(ctx context.Context, d time.Duration, what string, f func(context.Context) error) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			s.log.Error(what+" failed", "err", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// tickLoop passes once a beat, in the middle between two seconds: on the second
// the fires go out.
func (s *Server) tickLoop(ctx context.Context, p *parts) {
	first := true
	for {
		pass, cancel := context.WithTimeout(ctx, max(20*time.Second, 2*s.o.Beat))
		var res tick.Result
		err := s.awake(pass, p)
		if err == nil {
			res, err = p.tick.Pass(pass)
		}
		cancel()
		now := time.Now()
		text := ""
		switch {
		case err == nil:
			p.lastPass.Store(now.UnixMilli())
			p.planning.Store(true)
			s.m.pass(res, now)
			if first {
				first = false
				close(s.ready)
			}
		case ctx.Err() == nil:
			text = "planning failed: see the log"
			s.log.Error("tick failed", "err", err)
		}
		p.passError.Store(&text)
		next := now.Truncate(s.o.Beat).Add(s.o.Beat / 2)
		if !next.After(now) {
			next = next.Add(s.o.Beat)
		}
		if !store.Sleep(ctx, time.Until(next)) {
			return
		}
	}
}

// batch is the number of messages that one dispatch takes; dispatches is the number of concurrent dispatches.
const batch, dispatches = 20, 256

// poller returns the intake of the messages of a kind.
func (s *Server) poller(p *parts, kind ring.Kind, messages, places int,
	handle func(ctx context.Context, got []store.Delivery, free func()) []dispatch.Verdict) *poller.Poller {
	return &poller.Poller{Queue: p.store.Queue, Kind: kind, Messages: messages, Places: places, Log: s.log,
		Ready: func(ctx context.Context) error { return s.awake(ctx, p) }, Handle: handle}
}

func (s *Server) intake(p *parts) *poller.Poller {
	return s.poller(p, ring.KindFires, batch, dispatches, func(ctx context.Context, got []store.Delivery, free func()) []dispatch.Verdict {
		return p.disp.HandleFreeing(ctx, poller.Messages(got), free)
	})
}

// checkBatches is how many batches of checks are in hand at once.
const checkBatches = 16

// checks returns the intake that passes checks to the watchdog, concurrently: a silent executor does not delay the checks of
// others.
func (s *Server) checks(p *parts) *poller.Poller {
	check := func(ctx context.Context, c *ring.Check) dispatch.Verdict {
		if err := p.watch.Check(ctx, c); err != nil {
			s.log.Warn("check redelivered", "err", err)
			return dispatch.Verdict{RetryAt: time.Now().Add(10 * time.Second), Err: err}
		}
		return dispatch.Verdict{Ack: true}
	}
	return s.poller(p, ring.KindCheck, batch, checkBatches, func(ctx context.Context, got []store.Delivery, _ func()) []dispatch.Verdict {
		ctx, cancel := context.WithTimeout(ctx, s.o.Invocation)
		defer cancel()
		verdicts := make([]dispatch.Verdict, len(got))
		var under sync.WaitGroup
		for i := range got {
			under.Go(func() { verdicts[i] = check(ctx, got[i].Message.Check) })
		}
		under.Wait()
		return verdicts
	})
}

// postRunBatch is the number of messages that one batch of the post-run queue takes; postRunBatches is the number of concurrent
// batches.
const postRunBatch, postRunBatches = 50, 32

// postRuns returns the intake of the post-run queue. It has its own capacity, so it delays no scheduled run and no check.
func (s *Server) postRuns(p *parts) *poller.Poller {
	handle := func(ctx context.Context, got []store.Delivery, _ func()) []dispatch.Verdict {
		verdicts := make([]dispatch.Verdict, len(got))
		for i, err := range p.postRun.Handle(ctx, poller.Messages(got)) {
			if verdicts[i] = (dispatch.Verdict{Ack: err == nil, Err: err}); err != nil {
				s.log.Warn("pending follow-up of a run redelivered", "run", got[i].Message.PostRun.Run, "err", err)
				verdicts[i].RetryAt = time.Now().Add(10 * time.Second)
			}
		}
		return verdicts
	}
	return s.poller(p, ring.KindPostRun, postRunBatch, postRunBatches, handle)
}

// held decides that nothing is swept while reports are a day behind, because retention could remove runs that no report counts yet.
// It gives up if reports make no progress for an hour of sweeps, because a full disk stops more than reports. It also gives up if
// they stay behind for a day of sweeps.
type held struct {
	counted      core.Instant
	times, still int // sweeps that were held in a row, the last of them without any progress
}

// holds reports whether a sweep at now removes nothing; every is the time between sweeps.
func (h *held) holds(counted core.Instant, now time.Time, every time.Duration) bool {
	if counted.Time().After(now.Add(-core.Keep{Days: 1}.For())) {
		*h = held{counted: counted}
		return false
	}
	h.times++
	if h.still++; counted > h.counted {
		h.counted, h.still = counted, 0
	}
	in := func(d time.Duration) int { return int(max(d/every, 1)) }
	return h.still <= in(time.Hour) && h.times <= in(24*time.Hour)
}

// sweepLoop removes old records, in steps that delay no run.
func (s *Server) sweepLoop(ctx context.Context, p *parts) {
	var h held
	s.every(ctx, s.o.SweepEvery, "sweep", func(ctx context.Context) error {
		if _, err := p.pull.Sweep(ctx, 500); err != nil {
			s.log.Error("sweep of queues failed", "err", err)
		}
		counted, err := p.reports.Counted(ctx)
		if err != nil {
			s.log.Error("progress of reports not read", "err", err)
			counted = 0 // no progress
		}
		if h.holds(counted, time.Now(), s.o.SweepEvery) {
			return nil
		}
		for {
			n, err := p.store.Sweep(ctx, time.Now(), s.o.KeepRuns, s.o.KeepJournals, 500)
			if err != nil || n == 0 {
				return err
			}
			if !store.Sleep(ctx, 20*time.Millisecond) {
				return ctx.Err()
			}
		}
	})
}
