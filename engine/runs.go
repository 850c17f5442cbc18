package engine

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// The ports of runs and messages, over store.Runs and store.Queue.

func (n *Nouns) OldestMessage(ctx context.Context) (ring.Oldest, error) {
	return n.Store.Queue.Oldest(ctx)
}

func (n *Nouns) Runs(ctx context.Context, ids []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	got, err := n.Store.Runs.Get(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	found := make(map[core.RunID]core.Run, len(got))
	var unread []core.RunID
	for id, g := range got {
		switch {
		case g.Err == nil:
			found[id] = *g.Is
		case errors.Is(g.Err, core.ErrThrottled):
			unread = append(unread, id)
		default:
			return nil, nil, g.Err
		}
	}
	return found, unread, nil
}

func (n *Nouns) Create(ctx context.Context, runs []core.Run) []error { return n.CreateRuns(ctx, runs) }

func (n *Nouns) PutRuns(ctx context.Context, changes []core.RunPut) []error {
	return n.ChangeRuns(ctx, changes)
}

func (n *Nouns) DropRuns(ctx context.Context, runs []core.Run) []error {
	puts := make([]store.RunPut, len(runs))
	for i := range runs {
		puts[i].Drop = &runs[i]
	}
	return n.Store.Runs.Put(ctx, puts)
}

func (n *Nouns) PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error {
	return n.Store.Runs.Put(ctx, []store.RunPut{{Create: &run, Enter: &entry}})[0]
}

func (n *Nouns) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	return n.Store.Runs.Put(ctx, []store.RunPut{{Change: &c.Put, Leave: c.Drop, Enter: &c.Entry, Changes: []core.Change{c.Change}}})[0]
}

func (n *Nouns) RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	return n.Store.Runs.Span(ctx, first, last, limit)
}

func (n *Nouns) OpenRuns(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, core.RunID, error) {
	return n.Store.Runs.Open(ctx, first, last, false, limit)
}

func (n *Nouns) Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error) {
	return n.WaitingRuns(ctx, job, below, limit)
}

func (n *Nouns) RecentRuns(ctx context.Context, of store.Recent, from store.RunPlace, limit int) ([]core.Run, store.RunPlace, error) {
	return n.Store.Runs.Recent(ctx, of, from, limit)
}

func (n *Nouns) LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, each int) (map[core.JobID][]core.Run, error) {
	return n.Store.Runs.Last(ctx, jobs, upTo, each)
}
