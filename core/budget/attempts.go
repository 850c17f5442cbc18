package budget

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
)

// LastAttempts reads the last stored attempt of each retry chain. The parameter firsts lists the first run of each chain. The
// results are in the order of firsts. The result is the zero Run if no attempt is stored.
func LastAttempts(ctx context.Context, firsts []core.RunID,
	read func(ctx context.Context, runs []core.RunID) (map[core.RunID]core.Run, []core.RunID, error)) ([]core.Run, error) {
	last, at := make([]core.Run, len(firsts)), slices.Clone(firsts)
	for todo := slices.Clone(firsts); len(todo) > 0; {
		var next []core.RunID
		for some := range Chunks(todo, AtOnce) {
			runs, unread, err := read(ctx, some)
			if err := core.Unread(unread, err); err != nil {
				return nil, err
			}
			for i, id := range at {
				if r, is := runs[id]; is {
					if last[i], at[i] = r, r.Then; r.Then != 0 {
						next = append(next, r.Then)
					}
				}
			}
		}
		todo = next
	}
	return last, nil
}
