package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/tickring/tickring/core"
)

// Last implements store.Runs. It reads the ends of a job's two ranges of IDs, for all jobs from one state of the file.
func (s runs) Last(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	jobs = slices.Compact(slices.Sorted(slices.Values(jobs)))
	young := map[core.JobID][]core.RunID{}
	for _, id := range s.recent.among(func(id core.RunID) bool { // they may enter the history during the read
		_, asked := slices.BinarySearch(jobs, id.Job())
		return asked
	}) {
		young[id.Job()] = append(young[id.Job()], id)
	}
	found := make(map[core.JobID][]core.Run, len(jobs))
	err := s.read(ctx, func(c *conn) {
		for _, job := range jobs {
			low, high := core.RunRange(job, 0, upTo)
			nlow, nhigh := core.NumberedRange(job)
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
