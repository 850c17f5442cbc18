package store

import (
	"context"

	"github.com/tickring/tickring/core"
)

// Runs stores runs. Reads are strongly consistent.
type Runs interface {
	Get(ctx context.Context, ids []core.RunID) (map[core.RunID]Got[*core.Run], error)
	// Put makes each write completely or not at all, and returns an error for each: nil, core.ErrRefused if its condition is
	// not met, core.ErrThrottled, or an unknown result.
	Put(ctx context.Context, puts []RunPut) []error
	// Span reads the stored runs with IDs from first to last, both included. The order is ascending or, if last is lower
	// than first, descending.
	Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// Open reads open runs with IDs from first down to last, both included. With waiting, it reads only runs that have no
	// owner, including all queued and released runs. next is the ID from which the caller continues; 0 means the end. Before
	// the end, Open can return fewer than limit runs, or no runs.
	Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) (runs []core.Run, next core.RunID, err error)
	// Recent reads runs from a position on, in the order of their creation, newest first, and returns the next position. A
	// slow call can return fewer than limit runs, or no runs. A store that cannot filter by state or due time also returns
	// runs that do not match.
	Recent(ctx context.Context, of Recent, from RunPlace, limit int) (runs []core.Run, next RunPlace, err error)
	// Last reads the newest runs of jobs with due times up to upTo, at most n runs for each job, newest first. Jobs without
	// runs are not in the result. If a job has more than n runs with due times after upTo, the result can lack runs of it.
	Last(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error)
	// Began passes the runs that began at or after from and before to to the function each, every run once, in batches. A run
	// begins in the minute of its claim, or at its end if it was never claimed. The runs have at least the fields that a
	// report counts. If the store sorts runs by job, Began may stop when ctx ends: until is then the last complete job, and a
	// further call with this job as behind continues after it. Otherwise until is 0. A behind of 0 starts with the first job.
	Began(ctx context.Context, from, to core.Instant, behind core.JobID, each func([]core.Run)) (until core.JobID, err error)
}

// RunPut is one write. Exactly one of Create, Change and Drop is set.
type RunPut struct {
	Create *core.Run    // the run must not be stored
	Change *core.RunPut // a conditional write of a stored run
	// Drop removes a run, as it was read, with its kept log. The run must be closed and have no pending follow-ups. A missing
	// run is not an error.
	Drop *core.Run
	// Leave and Enter remove and add entries of the due index with the write. An entry that is in both stays.
	Leave []core.DueItem
	Enter *core.DueItem
	// Changes are change records that are stored if, and only if, the write is made.
	Changes []core.Change
}

// ID returns the run of the write.
func (p *RunPut) ID() core.RunID {
	switch {
	case p.Create != nil:
		return p.Create.ID
	case p.Change != nil:
		return p.Change.ID
	}
	return p.Drop.ID
}

// RunPlace is a position in the list of all runs, newest first. The position follows the runs that were created at or
// after Before, in milliseconds since 1970. If the store counts rows, Row is the exact row at the position. If it lists runs
// by journals, Row is the number of runs before the position, of the minute that Before ends. As an argument, the zero
// RunPlace is the start of the list. As the returned next position, it means the end of the list.
type RunPlace struct{ Before, Row int64 }

// Recent is a filter for runs: by app, by states, and by due time from From to To. Zero fields do not filter.
type Recent struct {
	App      string
	States   []core.State
	From, To core.Instant
}
