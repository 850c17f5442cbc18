package engine

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
)

// Fenced wraps e for the processes of one deployment. Each planner pass, dispatch and watchdog check first reads the
// global item; it gets an error unless the data belongs to that deployment. Allocating numbers and creating follow-ups of
// ended runs fail as well: on the queue of an inactive deployment, a message would wait forever and count as sent. Only
// those two cost an extra read. The first planner pass binds unowned data to its deployment, so no other deployment can
// use a copy.
//
// A process keeps acting on data that it read before the fence until its invocation ends. Writes that are correct from any
// deployment are not fenced: ends of runs, the permits that they free, heartbeats and kept logs.
func Fenced(e *Engine, deployment string) *Engine {
	f, s := *e, *e.Store
	s.Deployment = deployment
	f.Store = &s
	f.Tick = fencedTick{e.Tick, deployment}
	f.Dispatch = fencedDispatch{e.Dispatch, deployment}
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
			return g, err // another process bound it first: the next pass reads the owner
		}
		g = bound
	}
	return admitted(f.deployment, g, err)
}

type fencedDispatch struct {
	DispatchStore
	deployment string
}

func (f fencedDispatch) Global(ctx context.Context) (core.Global, error) {
	g, err := f.DispatchStore.Global(ctx)
	return admitted(f.deployment, g, err)
}

// fencedNotices stops a fenced deployment from sending notifications: each notification reads the global item first.
type fencedNotices struct {
	NoticeStore
	deployment string
}

func (f fencedNotices) Global(ctx context.Context) (core.Global, error) {
	g, err := f.NoticeStore.Global(ctx)
	return admitted(f.deployment, g, err)
}

func (f fencedNotices) DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.CheckRequest, error) {
	if _, err := f.Global(ctx); err != nil {
		return nil, err
	}
	return f.NoticeStore.DueLooks(ctx, upTo, limit)
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
