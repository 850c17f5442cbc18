package engine

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/people"
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
	f.Dispatch = fencedDispatch{e.Dispatch, deployment}
	f.Finish = fencedFinish{e.Finish, deployment}
	f.Manage = fencedManage{e.Manage, deployment}
	return &f
}

func admitted(deployment string, g core.Global, err error) (core.Global, error) {
	if err == nil {
		err = g.Admits(deployment)
	}
	return g, err
}

type fencedDispatch struct {
	DispatchStore
	deployment string
}

func (f fencedDispatch) Global(ctx context.Context) (core.Global, error) {
	g, err := f.DispatchStore.Global(ctx)
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

func (f fencedFinish) Numbers(ctx context.Context, job core.JobID, n int) (uint32, error) {
	if _, err := f.Global(ctx); err != nil {
		return 0, err
	}
	return f.Store.Numbers(ctx, job, n)
}

// Create creates follow-up runs, whose messages are enqueued after them.
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
