package manage

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tickring/tickring/core"
)

// Bounds of a kill.
const (
	maxKilled   = 10_000 // runs at once
	killsAtOnce = 16     // addresses
	maxRetrying = 500    // numbered runs that are looked at for retries to come
)

// KillRun ends a run. On the wire that ends all runs of its job on that
// executor, so all of them are marked first. A run that was not sent yet is
// cancelled instead; one that has ended is left alone.
func (m *Manage) KillRun(ctx context.Context, actor Actor, ref RunRef) (StopResult, error) {
	if err := actor.check(); err != nil {
		return StopResult{}, err
	}
	run, err := m.find(ctx, ref)
	if err != nil {
		return StopResult{}, err
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
	open, err := m.store.OpenRuns(ctx, job, maxKilled)
	if err != nil {
		return StopResult{}, passing(err)
	}
	open = slices.DeleteFunc(open, func(r core.Run) bool { return r.Address != run.Address && r.ID != run.ID })
	if !slices.ContainsFunc(open, func(r core.Run) bool { return r.ID == run.ID }) {
		open = append(open, run)
	}
	return m.kill(ctx, actor, job, open, StopResult{Job: job})
}

// KillJob ends all runs of a job, and the retries of it that are to come; its
// schedule goes on, and triggers that wait stay.
func (m *Manage) KillJob(ctx context.Context, actor Actor, ref string) (StopResult, error) {
	if err := actor.check(); err != nil {
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
	for i := range recent {
		if r := &recent[i]; r.State == core.Planned && r.Cause == core.CauseRetry {
			ok, err := m.cancel(ctx, actor, r)
			if err != nil {
				return res, err
			}
			if ok {
				res.Cancelled = append(res.Cancelled, r.ID)
			}
		}
	}
	open, err := m.store.OpenRuns(ctx, id, maxKilled)
	if err != nil {
		return res, passing(err)
	}
	return m.kill(ctx, actor, id, open, res)
}

// kill marks runs, and only then tells their executors.
func (m *Manage) kill(ctx context.Context, actor Actor, job core.JobID, open []core.Run, res StopResult) (StopResult, error) {
	at := core.Millis(m.now())
	var addresses []string
	var appName string
	for i := range open {
		r := &open[i]
		if r.KillAt.IsZero() {
			marked, err := m.mark(ctx, r.ID, actor.Name, at)
			if err != nil {
				return res, err
			}
			if !marked {
				continue
			}
		}
		res.Killed = append(res.Killed, r.ID)
		appName = r.App
		if r.Address != "" && !slices.Contains(addresses, r.Address) {
			addresses = append(addresses, r.Address)
		}
	}
	res.Changed = len(res.Killed)+len(res.Cancelled) > 0
	if !res.Changed {
		return res, nil
	}
	if len(addresses) > 0 {
		found, left, err := m.store.Apps(ctx, []string{appName})
		if err := unread(left, err); err != nil {
			return res, err
		}
		app := found[appName]
		app.Name = appName // deleted meanwhile: its executors may still be there
		res.Sent = m.sendKills(ctx, &app, addresses, job)
	}
	m.noteRuns(ctx, actor, core.VerbKilled, job, append(slices.Clone(res.Killed), res.Cancelled...), addresses)
	return res, nil
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

func (m *Manage) sendKills(ctx context.Context, app *core.App, addresses []string, job core.JobID) []KillAnswer {
	answers := make([]KillAnswer, len(addresses))
	var wg sync.WaitGroup
	slots := make(chan struct{}, killsAtOnce)
	for i, address := range addresses {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answers[i] = KillAnswer{Address: address, Err: m.killer.Kill(ctx, app, address, job)}
		})
	}
	wg.Wait()
	return answers
}
