package operate

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// Store is what is read and written to act on runs; answers of writes as
// core.ErrRefused and core.ErrThrottled say.
type Store interface {
	ask.Jobs
	ask.Gone
	ask.Apps
	ask.Runs
	Triggers
	Open
	Notes
	Cleaner
}

// Triggers are runs that people ask for.
type Triggers interface {
	// Numbers draws n numbers of a job; the first of them.
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	// PutKey binds an idempotency key of a job to a run until a day after the run
	// has ended, and answers the run it is bound to, which is another where it was
	// bound before. Where no such run is stored it binds for a day.
	PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error)
	// PutTriggered stores a run with its entry in the due index, both or none;
	// condition: no item.
	PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error
	// ChangeTriggered changes a run that waits, with its entries and the change
	// record, all or none; condition: that of its Put.
	ChangeTriggered(ctx context.Context, c Triggered) error
}

// Triggered is a waiting run as it becomes. Drop leaves the due index, Entry comes
// into it; Entry counts where it is in both. A run that has Params never becomes one
// without.
type Triggered struct {
	Put    core.RunPut // a Retime
	Drop   []core.DueItem
	Entry  core.DueItem
	Change core.Change
}

// Open is what people end.
type Open interface {
	// OpenRuns reads open runs with first >= ID >= last, downwards, and where to go on; 0 is
	// the end. It may return fewer than limit, or none, before the end.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
	// Waiting reads open runs of a job that no process has, from below an ID downwards: all
	// that are queued or were given back are among them. Fewer than limit: none is left.
	Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error)
	// PutRuns changes stored runs; condition of each as it says.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Notes keep what was done, and how far a walk has come.
type Notes interface {
	// PutChanges stores records; one of the same subject, ID, verb and New is there once.
	PutChanges(ctx context.Context, changes []core.Change) error
	// PutGlobal replaces the item that concerns everything; condition: its rev is seen.
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
}

// Reports say what they have counted.
type Reports interface {
	// Counted is up to when runs that ended are in a report for good, or in none ever.
	Counted(ctx context.Context) (core.Instant, error)
}

// DeadLetters are the messages that could not be dispatched, kept for people.
type DeadLetters interface {
	// Letters reads them, newest first, after the one of an ID (empty: from the
	// newest on), at most limit.
	Letters(ctx context.Context, after string, limit int) ([]core.Letter, error)
	// DropLetter removes one; one that is gone is well.
	DropLetter(ctx context.Context, id string) error
}

// Ring takes what is sent.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Finisher ends runs that were not sent; *finish.Finish does.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// SkipShards records shards of a broadcast that nobody has claimed yet as cancelled.
	SkipShards(ctx context.Context, whole *core.Run, ids []core.RunID, message string) error
	// Mend closes a broadcast whose shards have all ended.
	Mend(ctx context.Context, whole *core.Run) error
}

// Killer asks an executor to end all runs of a job. It is called for several
// addresses at a time, and bounds its own time.
type Killer interface {
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
}
