package sqlite

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// of is the recent rows of some jobs, in no order.
func (o *recent) of(jobs map[core.JobID]bool) map[core.JobID][]core.RunID {
	list := map[core.JobID][]core.RunID{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		if job := r.id.Job(); jobs[job] {
			list[job] = append(list[job], r.id)
		}
	}
	return list
}

// LastRuns implements query.Store. It reads the ends of a job's two ranges of IDs, for all jobs from one state of the file.
// One step skips any number of jobs without runs.
func (s *Store) LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	asked := make(map[core.JobID]bool, len(jobs))
	for _, job := range jobs {
		asked[job] = true
	}
	young := s.recent.of(asked) // first: they may enter the history during the read
	found := make(map[core.JobID][]core.Run, len(jobs))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		names, err := c.Prepare("SELECT id FROM history WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?")
		if err != nil {
			return err
		}
		run, err := c.Prepare("SELECT " + runColumns + " FROM runs WHERE key = ?")
		if err != nil {
			return err
		}
		behind, err := c.Prepare("SELECT id FROM history WHERE id >= ? ORDER BY id LIMIT 1")
		if err != nil {
			return err
		}
		next := core.RunID(0) // the history has none from the last that was sought to this one
		var list []core.Run
		for _, job := range slices.Sorted(maps.Keys(asked)) {
			list = list[:0]
			low, high := core.RunRange(job, 0, upTo)
			nlow, nhigh := core.NumberedRange(job)
			if next < low {
				next = math.MaxInt64
				behind.BindInt64(1, int64(low))
				if err := rows(behind, func(st *sqlite.Stmt) error {
					next = core.RunID(st.ColumnInt64(0))
					return nil
				}); err != nil {
					return err
				}
			}
			if next > nhigh && len(young[job]) == 0 {
				continue
			}
			for _, span := range [][2]core.RunID{{low, high}, {nlow, nhigh}} {
				ids := make([]core.RunID, 0, 2*n)
				names.BindInt64(1, int64(span[0]))
				names.BindInt64(2, int64(span[1]))
				names.BindInt64(3, int64(2*n))
				if err := rows(names, func(st *sqlite.Stmt) error {
					ids = append(ids, core.RunID(st.ColumnInt64(0)))
					return nil
				}); err != nil {
					return err
				}
				for _, id := range young[job] {
					if span[0] <= id && id <= span[1] {
						ids = append(ids, id)
					}
				}
				slices.SortFunc(ids, func(a, b core.RunID) int { return cmp.Compare(b, a) })
				ids = slices.Compact(ids)
				for took, i := 0, 0; i < len(ids) && i < 2*n && took < n; i++ {
					run.BindInt64(1, key(ids[i]))
					if err := rows(run, func(st *sqlite.Stmt) error {
						var r core.Run
						if err := s.scanRun(st, &r); err != nil || r.Slot > upTo {
							return err
						}
						list = append(list, r)
						took++
						return nil
					}); err != nil {
						return err
					}
				}
			}
			slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(cmp.Compare(b.Slot, a.Slot), cmp.Compare(b.ID, a.ID)) })
			if len(list) > 0 {
				found[job] = slices.Clone(list[:min(n, len(list))])
			}
		}
		return nil
	})
	return found, err
}
