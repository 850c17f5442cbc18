package tick

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick/lossdetect"
	"github.com/tickring/tickring/core/tick/partition"
)

// A Store holds the data that a pass reads and writes. Writes return core.ErrRefused and core.ErrThrottled as
// package core documents; a slice of results is as long as the slice of arguments.
type Store interface {
	Jobs
	Entries
	lossdetect.Records
	lossdetect.Notes
	lossdetect.Ring
}

// Jobs are the jobs in planning order.
type Jobs interface {
	// Due returns up to limit items of a partition's due index, in order. The items have PlanAt up to upTo and follow after
	// (zero: from the start). The result may be slightly stale. Only an empty result means the end.
	Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error)
	// Scheds reads jobs strongly. A job that is neither found, nor in unread, nor in a core.Unreadable error next to
	// the other results, is deleted.
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	// PutSkips stores skips. A stored skip with this (Job, First, Reason) is only extended.
	PutSkips(ctx context.Context, skips []core.Skip) []error
	// Advance advances jobs; condition: Rev, Next and Tail as read. A Change is stored together with its advance or not
	// at all.
	Advance(ctx context.Context, moves []core.Advance) []error
}

// Entries are the runs that wait in the due index.
type Entries interface {
	// Runs reads runs strongly. A run that is neither found nor in unread does not exist.
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RemoveEntries removes entries from the due index; a missing entry is not an error.
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Leases are the locks of the partitions.
type Leases = partition.LeaseStore

// A Ring accepts messages.
type Ring interface {
	// Enqueue stores messages durably in the delay queue and returns one result for each.
	Enqueue(ctx context.Context, out []ring.Out) []error
}
