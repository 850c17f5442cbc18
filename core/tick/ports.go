package tick

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick/lossdetect"
	"github.com/tickring/tickring/core/tick/partition"
)

// A Store has the data that a pass reads and writes. Writes return core.ErrRefused and core.ErrThrottled as package core
// documents. A method that takes a slice returns one result for each element.
type Store interface {
	Jobs
	Entries
	lossdetect.Records
	lossdetect.Notes
	lossdetect.Ring
}

// Jobs are the jobs in the order in which they must be planned.
type Jobs interface {
	// Due returns at most limit items of a partition's due index, in order. Due returns the items that follow the parameter
	// after and whose PlanAt is not later than upTo. If after is zero, it begins with the first item. The result may be
	// slightly out of date. Only an empty result means that no items follow.
	Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error)
	// Scheds reads jobs with strongly consistent reads. The result unread lists jobs that could not be read now. Jobs that
	// cannot be decoded are in the error, a core.Unreadable. Any other missing job is deleted.
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	// PutSkips stores skips. If a skip with this Job, First and Reason is stored, PutSkips only extends it.
	PutSkips(ctx context.Context, skips []core.Skip) []error
	// Advance updates the planning fields of jobs. Each update has the condition that the stored Rev, Next and Tail equal
	// the fields of the core.Advance. A core.Change in a core.Advance is stored if, and only if, the core.Advance is
	// stored.
	Advance(ctx context.Context, moves []core.Advance) []error
}

// Entries are the runs in the due index.
type Entries interface {
	// Runs reads runs with strongly consistent reads. The result unread lists runs that could not be read now. Any other
	// missing run does not exist.
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RemoveEntries removes entries from the due index. A missing entry is not an error.
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Leases are the leases of the partitions.
type Leases = partition.LeaseStore

// A Ring is the delay queue.
type Ring interface {
	// Enqueue stores messages durably in the delay queue. Enqueue returns one result for each message.
	Enqueue(ctx context.Context, out []ring.Out) []error
}
