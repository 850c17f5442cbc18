package budget

import (
	"context"

	"github.com/tickring/tickring/core"
)

// OpenRuns calls the function each with every open run of a job, until the function returns false. Triggered runs and retries
// come before scheduled runs, and newer runs before older ones. OpenRuns returns true if it passed all open runs to the
// function.
//
// A store without an index of open runs searches only a limited number of runs in one call. OpenRuns then makes another call
// only if the function more returns true. If more is nil, it makes another call.
func OpenRuns(ctx context.Context, job core.JobID,
	read func(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error),
	more func() bool, each func(*core.Run) bool) (all bool, err error) {
	all = true
	var spans [2][2]core.RunID
	spans[0][0], spans[0][1] = core.NumberedRange(job)
	spans[1][0], spans[1][1] = core.RunRange(job, 0, core.Horizon)
	for _, span := range spans {
		for next := span[1]; next != 0; {
			var runs []core.Run
			if runs, next, err = read(ctx, next, span[0], OpenAtOnce); err != nil {
				return false, err
			}
			for i := range runs {
				if !each(&runs[i]) {
					return false, nil
				}
			}
			if next != 0 && len(runs) < OpenAtOnce && (more == nil || !more()) {
				all = false
				break
			}
		}
	}
	return all, nil
}
