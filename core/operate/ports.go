package operate

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
)

// A Store has the data for operations on runs. A write returns core.ErrRefused if its condition is not met, and
// core.ErrThrottled if the store has no capacity.
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

// Triggers stores the runs that users trigger.
type Triggers interface {
	// Numbers allocates n consecutive run numbers of a job and returns the first.
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	// PutKey binds an idempotency key of a job to a run, until a day after the end of the run. If the key is already bound,
	// PutKey returns the bound run instead. If the run is never stored, the binding lasts a day.
	PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error)
	// PutTriggered stores a run and its due index entry, both or neither, on the condition that the run is not stored.
	PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error
	// ChangeTriggered stores all parts of a Triggered or none, on the condition of its Put.
	ChangeTriggered(ctx context.Context, c Triggered) error
}

// A Triggered is a change of a waiting trigger. Put changes the run, the entries in Drop are removed from the due index, and
// Entry is added. An entry that is in Drop and is also Entry stays. If the run has Params, the new Params must not be nil.
type Triggered struct {
	Put    core.RunPut // new due time, params and addresses of the run
	Drop   []core.DueItem
	Entry  core.DueItem
	Change core.Change
}

// Open reads and changes open runs.
type Open interface {
	// OpenRuns reads open runs with IDs from first down to last. OpenRuns returns the ID from which to continue; 0: no runs
	// follow. A page may have fewer than limit runs, or none, although runs follow.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
	// Waiting reads open runs of a job that have no owner, with IDs lower than below, in descending order. Waiting includes
	// all queued and released runs. Fewer than limit runs mean that no runs follow.
	Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error)
	// PutRuns changes stored runs, each on the condition in its RunPut.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Notes stores change records and the progress of Heal.
type Notes interface {
	// PutChanges stores change records. Records with equal subject, ID, verb and New are stored once.
	PutChanges(ctx context.Context, changes []core.Change) error
	// PutGlobal replaces the global item, on the condition that the stored Rev equals seen.
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
}

// Reports returns the progress of the reports.
type Reports interface {
	// Counted returns a time. Runs that ended earlier are finally counted in the reports.
	Counted(ctx context.Context) (core.Instant, error)
}

// DeadLetters is the dead-letter queue: messages that could not be dispatched.
type DeadLetters interface {
	// Letters reads at most limit messages, newest first. The parameter after is the ID of the last message of the previous
	// page; empty: begin with the newest message.
	Letters(ctx context.Context, after string, limit int) ([]core.Letter, error)
	// DropLetter deletes a message. A missing message is not an error.
	DropLetter(ctx context.Context, id string) error
}

// Ring enqueues messages on the delay queue.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// A Finisher ends runs that were not sent. *finish.Finish implements it.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// SkipShards records shards of a broadcast that no dispatcher has claimed as cancelled.
	SkipShards(ctx context.Context, whole *core.Run, ids []core.RunID, message string) error
	// Mend closes a broadcast if all its shards have ended.
	Mend(ctx context.Context, whole *core.Run) error
}

// A Killer asks executors to end runs.
type Killer interface {
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
}
