package engine

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
)

// Fenced is e for the processes of one deployment: whoever reads the item that
// concerns everything, as each tick, each dispatch and each judgement of the
// watchdog does before it acts, gets an error unless the data is that
// deployment's; and so do who draws numbers, and who makes what an ended run owes:
// on the ring of a deployment that does not work it would wait for ever, and count
// as sent. It costs no read but for those. The first tick binds data that is
// nobody's to its deployment, so that a copy of it is nobody else's.
//
// What was read before a fence is acted on until the invocation ends. Not fenced are the writes that are right
// whoever makes them: ends of runs, permits that they free, heartbeats and kept logs.
func Fenced(e *Engine, deployment string) *Engine {
	f := *e
	f.Tick = fencedTick{e.Tick, deployment}
	f.Dispatch = fencedDispatch{e.Dispatch, deployment}
	f.Finish = fencedFinish{e.Finish, deployment}
	f.Manage = fencedManage{e.Manage, deployment}
	f.Notices = fencedNotices{e.Notices, deployment}
	return &f
}

func admitted(deployment string, g core.Global, err error) (core.Global, error) {
	if err == nil {
		err = g.Admits(deployment)
	}
	return g, err
}

type fencedTick struct {
	tick.Store
	deployment string
}

func (f fencedTick) Global(ctx context.Context) (core.Global, error) {
	g, err := f.Store.Global(ctx)
	if err == nil && g.Holder == "" && !g.Opening && f.deployment != "" {
		bound := g
		bound.Holder, bound.Generation, bound.Rev = f.deployment, max(g.Generation, 1), g.Rev+1
		if err := f.Store.PutGlobal(ctx, g.Rev, bound); err != nil {
			return g, err // another was faster: the next pass reads who
		}
		g = bound
	}
	return admitted(f.deployment, g, err)
}

type fencedDispatch struct {
	dispatch.Store
	deployment string
}

func (f fencedDispatch) Global(ctx context.Context) (core.Global, error) {
	g, err := f.Store.Global(ctx)
	return admitted(f.deployment, g, err)
}

type fencedFinish struct {
	finish.Store
	deployment string
}

func (f fencedFinish) Global(ctx context.Context) (core.Global, error) {
	g, err := f.Store.Global(ctx)
	return admitted(f.deployment, g, err)
}

// fencedNotices keeps who must not act from telling anybody: each telling reads the item first.
type fencedNotices struct {
	NoticeStore
	deployment string
}

func (f fencedNotices) Global(ctx context.Context) (core.Global, error) {
	g, err := f.NoticeStore.Global(ctx)
	return admitted(f.deployment, g, err)
}

func (f fencedNotices) DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.Look, error) {
	if _, err := f.Global(ctx); err != nil {
		return nil, err
	}
	return f.NoticeStore.DueLooks(ctx, upTo, limit)
}

func (f fencedFinish) Numbers(ctx context.Context, job core.JobID, n int) (uint32, error) {
	if _, err := f.Global(ctx); err != nil {
		return 0, err
	}
	return f.Store.Numbers(ctx, job, n)
}

// Create makes the runs that are owed, whose messages follow it.
func (f fencedFinish) Create(ctx context.Context, runs []core.Run) []error {
	if _, err := f.Global(ctx); err != nil {
		return all(err, len(runs))
	}
	return f.Store.Create(ctx, runs)
}

// all is one error for each of n.
func all(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

type fencedManage struct {
	people.Store
	deployment string
}

func (f fencedManage) Global(ctx context.Context) (core.Global, error) {
	g, err := f.Store.Global(ctx)
	return admitted(f.deployment, g, err)
}

func (f fencedManage) Numbers(ctx context.Context, job core.JobID, n int) (uint32, error) {
	if _, err := f.Global(ctx); err != nil {
		return 0, err
	}
	return f.Store.Numbers(ctx, job, n)
}

func (f fencedManage) NewJobIDs(ctx context.Context, n int) (core.JobID, error) {
	if _, err := f.Global(ctx); err != nil {
		return 0, err
	}
	return f.Store.NewJobIDs(ctx, n)
}
