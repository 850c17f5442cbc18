// Package hook replaces single methods of a store in tests: those whose Do function is set.
package hook

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

type Records struct {
	store.Records
	DoGet   func(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error)
	DoList  func(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error)
	DoWrite func(ctx context.Context, groups ...store.Group) []error
}

func (r Records) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	if r.DoGet != nil {
		return r.DoGet(ctx, keys...)
	}
	return r.Records.Get(ctx, keys...)
}

func (r Records) List(ctx context.Context, kind, after, before string, limit int) ([]store.Record, error) {
	if r.DoList != nil {
		return r.DoList(ctx, kind, after, before, limit)
	}
	return r.Records.List(ctx, kind, after, before, limit)
}

func (r Records) Write(ctx context.Context, groups ...store.Group) []error {
	if r.DoWrite != nil {
		return r.DoWrite(ctx, groups...)
	}
	return r.Records.Write(ctx, groups...)
}

type (
	// JobMap and RunMap are the results of a read by ID.
	JobMap = map[core.JobID]store.Got[*core.Job]
	RunMap = map[core.RunID]store.Got[*core.Run]
)

type Jobs struct {
	store.Jobs
	DoGet func(ctx context.Context, part store.Part, ids []core.JobID) (JobMap, error)
}

func (j Jobs) Get(ctx context.Context, part store.Part, ids []core.JobID) (JobMap, error) {
	if j.DoGet != nil {
		return j.DoGet(ctx, part, ids)
	}
	return j.Jobs.Get(ctx, part, ids)
}

type Runs struct {
	store.Runs
	DoGet  func(ctx context.Context, ids []core.RunID) (RunMap, error)
	DoPut  func(ctx context.Context, puts []store.RunPut) []error
	DoSpan func(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
}

func (r Runs) Get(ctx context.Context, ids []core.RunID) (RunMap, error) {
	if r.DoGet != nil {
		return r.DoGet(ctx, ids)
	}
	return r.Runs.Get(ctx, ids)
}

func (r Runs) Put(ctx context.Context, puts []store.RunPut) []error {
	if r.DoPut != nil {
		return r.DoPut(ctx, puts)
	}
	return r.Runs.Put(ctx, puts)
}

func (r Runs) Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	if r.DoSpan != nil {
		return r.DoSpan(ctx, first, last, limit)
	}
	return r.Runs.Span(ctx, first, last, limit)
}

type Queue struct {
	store.Queue
	DoEnqueue func(ctx context.Context, out []ring.Out) []error
	DoOldest  func(ctx context.Context) (ring.Oldest, error)
}

func (q Queue) Enqueue(ctx context.Context, out []ring.Out) []error {
	if q.DoEnqueue != nil {
		return q.DoEnqueue(ctx, out)
	}
	return q.Queue.Enqueue(ctx, out)
}

func (q Queue) Oldest(ctx context.Context) (ring.Oldest, error) {
	if q.DoOldest != nil {
		return q.DoOldest(ctx)
	}
	return q.Queue.Oldest(ctx)
}

// Unreadable returns runs of which one cannot be decoded.
func Unreadable(of store.Runs, bad core.RunID) store.Runs {
	return Runs{Runs: of, DoGet: func(ctx context.Context, ids []core.RunID) (RunMap, error) {
		found, err := of.Get(ctx, ids)
		if _, is := found[bad]; is {
			found[bad] = store.Got[*core.Run]{Err: errors.New("written by a newer version")}
		}
		return found, err
	}}
}
