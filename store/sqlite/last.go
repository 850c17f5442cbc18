package sqlite

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/tickring/tickring/core"
)

// Last implements store.Runs. It reads the ends of a job's two ranges of IDs, for all jobs from one state of the file. One
// step skips any number of jobs without runs.
func (s runs) Last(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	asked := make(map[core.JobID]bool, len(jobs))
	for _, job := range jobs {
		asked[job] = true
	}
	young := map[core.JobID][]core.RunID{}
	for _, id := range s.recent.among(func(id core.RunID) bool { return asked[id.Job()] }) { // they may enter the history during the read
		young[id.Job()] = append(young[id.Job()], id)
	}
	found := make(map[core.JobID][]core.Run, len(jobs))
	err := s.read(ctx, func(c *conn) {
		next := core.RunID(0) // the history has none from the last that was sought to this one
		for _, job := range slices.Sorted(maps.Keys(asked)) {
			low, high := core.RunRange(job, 0, upTo)
			nlow, nhigh := core.NumberedRange(job)
			if next < low {
				next = core.RunID(c.integer("SELECT coalesce(min(id), 9223372036854775807) FROM history WHERE id >= ?", low))
			}
			if next > nhigh && len(young[job]) == 0 {
				continue
			}
			var list []core.Run
			for _, ends := range [][2]core.RunID{{high, low}, {nhigh, nlow}} {
				seen, took := 0, 0
				for r := range c.span(ends[0], ends[1], 2*n, young[job]) {
					if r.Slot <= upTo {
						list = append(list, *r)
						took++
					}
					if seen++; took == n || seen == 2*n {
						break
					}
				}
			}
			slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(cmp.Compare(b.Slot, a.Slot), cmp.Compare(b.ID, a.ID)) })
			if len(list) > 0 {
				found[job] = list[:min(n, len(list))]
			}
		}
	})
	return found, err
}
