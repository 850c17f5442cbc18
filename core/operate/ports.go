package operate

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
)

// Store reads and writes the data of actions on runs. Writes return core.ErrRefused for a failed
// condition and core.ErrThrottled for a throttled table.
type Store interface {
	query.Jobs
	query.Gone
	query.Apps
	query.Runs
	Triggers
	Open
	Notes
	Cleaner
}

// Triggers stores the runs that users ask for.
type Triggers interface {
	// Numbers allocates n numbers of a job and returns the first.
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	// PutKey binds an idempotency key of a job to a run until a day after the run has ended. It
	// returns the run that the key is bound to, perhaps an earlier one. If that run is not
	// stored, the binding lasts a day.
	PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error)
	// PutTriggered stores a run and its due index entry together, on the condition that the run
	// does not exist.
	PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error
	// ChangeTriggered stores the change of a waiting run, its entries and the change record
	// together, on the condition of its Put.
	ChangeTriggered(ctx context.Context, c Triggered) error
}

// Triggered is a change of a waiting run. Drop is removed from the due index and Entry is added;
// an entry in both stays. A run with Params keeps non-nil Params.
type Triggered struct {
	Put    core.RunPut // a Retime
	Drop   []core.DueItem
	Entry  core.DueItem
	Change core.Change
}

// Open reads and changes open runs.
type Open interface {
	// OpenRuns reads open runs with first >= ID >= last in descending order. It returns the ID to continue from; 0 is the
	// end. Before the end it may return fewer than limit runs, or none.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
	// Waiting reads open runs of a job without an owner, in descending order from below an ID. It includes all queued and
	// released runs. Fewer than limit runs mean the end.
	Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error)
	// PutRuns changes stored runs, each on its own condition.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Notes stores change records and the progress of Heal.
type Notes interface {
	// PutChanges stores records; equal subject, ID, verb and New make one record.
	PutChanges(ctx context.Context, changes []core.Change) error
	// PutGlobal replaces the global item on the condition that its rev equals seen.
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
}

// Reports returns how far reports have counted.
type Reports interface {
	// Counted returns a time: runs that ended before it are final in the reports.
	Counted(ctx context.Context) (core.Instant, error)
}

// DeadLetters stores the messages that could not be dispatched, for users.
type DeadLetters interface {
	// Letters reads up to limit messages, newest first, after the given ID (empty: from the
	// newest).
	Letters(ctx context.Context, after string, limit int) ([]core.Letter, error)
	// DropLetter removes a message; a removed one is not an error.
	DropLetter(ctx context.Context, id string) error
}

// Ring sends messages.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Finisher ends runs that were not sent; *finish.Finish implements it.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// SkipShards records unclaimed shards of a broadcast as cancelled.
	SkipShards(ctx context.Context, whole *core.Run, ids []core.RunID, message string) error
	// Mend closes a broadcast whose shards have all ended.
	Mend(ctx context.Context, whole *core.Run) error
}

// Killer asks an executor to end all runs of a job. Kill is called in parallel for several
// addresses, and limits its own time.
type Killer interface {
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
}
