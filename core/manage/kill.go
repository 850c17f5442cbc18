package manage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// Bounds of a kill.
const (
	maxKilled   = 10_000 // runs at once
	maxRetrying = 500    // numbered runs that are looked at for retries to come
)

// A kill goes by pages: what is left when Options.PageFor is over is the next page's.
// Its place is a plus and the last address that was told.
const killPlace = "+"

// KillRun ends a run. On the wire that ends all runs of its job on that
// executor, so all of them are marked first. A run that was not sent yet is
// cancelled instead; one that has ended is left alone. After is Next of the page
// before, or empty.
func (m *Manage) KillRun(ctx context.Context, actor Actor, ref RunRef, after string) (StopResult, error) {
	p, told, err := m.killing(actor, after)
	if err != nil {
		return StopResult{}, err
	}
	run, err := m.find(ctx, ref)
	if err != nil {
		return StopResult{}, err
	}
	if after != "" { // others where it is or was are marked and not told yet
		return m.killAt(ctx, actor, &run, told, p)
	}
	if !run.State.Open() {
		return StopResult{Job: run.ID.Job()}, nil
	}
	ok, err := m.cancel(ctx, actor, &run)
	if err != nil {
		return StopResult{}, err
	}
	job := run.ID.Job()
	if ok {
		m.noteRuns(ctx, actor, core.VerbCancelled, job, []core.RunID{run.ID}, nil)
		return StopResult{Changed: true, Job: job, Cancelled: []core.RunID{run.ID}}, nil
	}
	if run, ok, err = m.run(ctx, run.ID); err != nil {
		return StopResult{}, err
	}
	if !ok || !run.State.Open() {
		return StopResult{Job: job}, nil
	}
	return m.killAt(ctx, actor, &run, told, p)
}

// killAt ends a run, and with it all others of its job where it is.
func (m *Manage) killAt(ctx context.Context, actor Actor, run *core.Run, told string, p *page) (StopResult, error) {
	open, err := m.store.OpenRuns(ctx, run.ID.Job(), maxKilled)
	if err != nil {
		return StopResult{}, passing(err)
	}
	partial := len(open) == maxKilled
	open = slices.DeleteFunc(open, func(r core.Run) bool { return r.Address != run.Address && r.ID != run.ID })
	if run.State.Open() && !slices.ContainsFunc(open, func(r core.Run) bool { return r.ID == run.ID }) {
		open = append(open, *run)
	}
	return m.kill(ctx, actor, open, told, p, StopResult{Job: run.ID.Job(), Partial: partial})
}

// killing begins a page of a kill: told is the last address that was told before it.
func (m *Manage) killing(actor Actor, after string) (p *page, told string, err error) {
	if err := actor.check(); err != nil {
		return nil, "", err
	}
	told, ok := strings.CutPrefix(after, killPlace)
	if !ok && after != "" {
		return nil, "", core.Invalid("after", after, "not the next of a page of this kill")
	}
	return m.page(), told, nil
}

// KillJob ends all runs of a job, and the retries of it that are to come; its
// schedule goes on, and triggers that wait stay. After is as of KillRun.
func (m *Manage) KillJob(ctx context.Context, actor Actor, ref, after string) (StopResult, error) {
	p, told, err := m.killing(actor, after)
	if err != nil {
		return StopResult{}, err
	}
	id, err := m.jobID(ctx, ref)
	if err != nil {
		return StopResult{}, err
	}
	res := StopResult{Job: id}
	low, high := core.NumberedRange(id)
	recent, err := m.store.RunSpan(ctx, high, low, maxRetrying)
	if err != nil {
		return StopResult{}, passing(err)
	}
	recent = slices.DeleteFunc(recent, func(r core.Run) bool { return r.State != core.Planned || r.Cause != core.CauseRetry })
	cancelled := make([]bool, len(recent))
	n, err := m.sideBySide(p, len(recent), func(i int) (err error) {
		cancelled[i], err = m.cancel(ctx, actor, &recent[i])
		return err
	})
	if err != nil {
		return res, err
	}
	for i := range recent {
		if cancelled[i] {
			res.Cancelled = append(res.Cancelled, recent[i].ID)
		}
	}
	if n < len(recent) {
		res.Changed, res.Next = len(res.Cancelled) > 0, killPlace+told
		m.noteRuns(ctx, actor, core.VerbCancelled, id, res.Cancelled, nil)
		return res, nil
	}
	open, err := m.store.OpenRuns(ctx, id, maxKilled)
	if err != nil {
		return res, passing(err)
	}
	res.Partial = len(open) == maxKilled
	return m.kill(ctx, actor, open, told, p, res)
}

// kill marks runs, and only then tells their executors: some addresses at a time, each
// once all runs there are marked, in their order and behind told. However long the
// reading took, half a page is left for it.
func (m *Manage) kill(ctx context.Context, actor Actor, open []core.Run, told string, p *page, res StopResult) (StopResult, error) {
	if least := time.Now().Add(m.o.PageFor / 2); p.until.Before(least) {
		p.until = least
	}
	open = slices.DeleteFunc(open, func(r core.Run) bool { return r.Address != "" && r.Address <= told })
	slices.SortStableFunc(open, func(a, b core.Run) int { return cmp.Compare(a.Address, b.Address) })
	at := core.Millis(m.now())
	for len(open) > 0 && res.Next == "" {
		some := m.atOnce(open)
		marked := make([]bool, len(some))
		n, err := m.sideBySide(p, len(some), func(i int) (err error) {
			marked[i] = !some[i].KillAt.IsZero()
			if !marked[i] {
				marked[i], err = m.mark(ctx, some[i].ID, actor.Name, at)
			}
			return err
		})
		if err != nil {
			return res, err
		}
		var addresses []string
		for i := range some[:n] {
			if marked[i] {
				res.Killed = append(res.Killed, some[i].ID)
				addresses = append(addresses, some[i].Address)
			}
		}
		if n == len(some) {
			if err := m.sendKills(ctx, some[0].App, slices.Compact(addresses), &res); err != nil {
				return res, err
			}
			told, open = some[n-1].Address, open[n:]
		}
		if n < len(some) || len(open) > 0 && p.over() {
			res.Next = killPlace + told
		}
	}
	res.Changed = len(res.Killed)+len(res.Cancelled) > 0
	if res.Changed {
		var addresses []string
		for _, a := range res.Sent {
			addresses = append(addresses, a.Address)
		}
		m.noteRuns(ctx, actor, core.VerbKilled, res.Job, append(slices.Clone(res.Killed), res.Cancelled...), addresses)
	}
	return res, nil
}

// atOnce is the runs at the first addresses, Options.Together of them.
func (m *Manage) atOnce(open []core.Run) []core.Run {
	addresses := 1
	for i := 1; i < len(open); i++ {
		if open[i].Address != open[i-1].Address {
			if addresses++; addresses > m.o.Together {
				return open[:i]
			}
		}
	}
	return open
}

func (m *Manage) mark(ctx context.Context, run core.RunID, by string, at int64) (bool, error) {
	var err error
	for range tries {
		err = m.store.MarkKilled(ctx, run, by, at)
		if err == nil {
			return true, nil
		}
		if errors.Is(err, core.ErrRefused) {
			return false, nil // it has ended
		}
		if judge(err) == failed || ctx.Err() != nil {
			break
		}
	}
	return false, passing(err)
}

// sendKills tells some addresses at once.
func (m *Manage) sendKills(ctx context.Context, appName string, addresses []string, res *StopResult) error {
	addresses = slices.DeleteFunc(addresses, func(address string) bool { return address == "" })
	if len(addresses) == 0 {
		return nil
	}
	found, left, err := m.store.Apps(ctx, []string{appName})
	if err := unread(left, err); err != nil {
		return err
	}
	app := found[appName]
	app.Name = appName // deleted meanwhile: its executors may still be there
	answers := make([]KillAnswer, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { answers[i] = KillAnswer{Address: address, Err: m.killer.Kill(ctx, &app, address, res.Job)} })
	}
	all.Wait()
	res.Sent = append(res.Sent, answers...)
	return nil
}
