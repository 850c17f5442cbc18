package query

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// Names maps each job number to app/name. Deleted jobs are included until their records are removed.
func (q *Queries) Names(ctx context.Context, jobs []core.JobID) (map[core.JobID]string, error) {
	names := make(map[core.JobID]string, len(jobs))
	for some := range slices.Chunk(jobs, budget.AtOnce) {
		found, _, err := store.Split(q.store.Jobs.Get(ctx, store.Whole, some))
		if err != nil {
			return nil, core.Retryable(err)
		}
		var gone []core.JobID
		for _, id := range some {
			if j := found[id]; j != nil {
				names[id] = j.Def.App + "/" + j.Def.Name
			} else {
				gone = append(gone, id)
			}
		}
		if len(gone) == 0 {
			continue
		}
		tombs, err := q.store.Tombstones(ctx, gone)
		if err != nil {
			return nil, core.Retryable(err)
		}
		for id, t := range tombs {
			names[id] = t.App + "/" + t.Name
		}
	}
	return names, nil
}
