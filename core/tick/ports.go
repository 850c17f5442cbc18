package tick

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick/loss"
	"github.com/tickring/tickring/core/tick/parts"
)

// Store is what a pass reads and writes. Writes answer as core.ErrRefused and
// core.ErrThrottled say; a slice of answers is as long as the slice asked.
type Store interface {
	Jobs
	Entries
	loss.Records
	loss.Notes
	loss.Ring
}

// Jobs are the jobs in the order in which they are to be planned.
type Jobs interface {
	// Due reads the due index of a partition in its order: items with PlanAt up
	// to upTo that come after after (zero: from the start), at most limit. It
	// may be a little behind what was written. Fewer than limit does not mean
	// the end; none does.
	Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error)
	// Scheds reads jobs strongly. A job that is neither found nor in unread nor in
	// core.Unreadable, which comes beside the rest of the answer, is gone.
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	// PutSkips stores records of skipped instants; a stored one of the same
	// (Job, First, Reason) is only lengthened.
	PutSkips(ctx context.Context, skips []core.Skip) []error
	// Advance moves jobs on; condition: Rev, Next and Tail as read. A Change is
	// stored with its advance, both or neither.
	Advance(ctx context.Context, moves []core.Advance) []error
}

// Entries are the runs that wait in the due index.
type Entries interface {
	// Runs reads runs strongly. A run that is neither found nor in unread does not exist.
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RemoveEntries takes light entries out of the due index; one that is not there is well.
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Leases are the locks of the partitions.
type Leases = parts.Leases

// Ring takes messages.
type Ring interface {
	// Enqueue puts messages on the ring durably; the answer of each.
	Enqueue(ctx context.Context, out []ring.Out) []error
}
