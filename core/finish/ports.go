package finish

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// A Store has the data for ending runs. Reads are strongly consistent. A write returns core.ErrRefused if its condition is not
// met, and core.ErrThrottled if the store has no capacity.
type Store interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// Jobs reads jobs. Callers must not modify the jobs, because they are shared.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	// RunsByID reads at most limit stored runs with IDs from first to last, in ascending order. If first is greater than last,
	// the IDs are from last to first, in descending order.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	// Permits reads the items of concurrency limits by name. The result omits items that are not stored.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// PutPermits stores items of concurrency limits, each on the condition that the stored version V is one lower.
	PutPermits(ctx context.Context, list []core.Permits) []error
	// PutRuns changes stored runs, each on the condition in its RunPut. PutRuns may set RunPut.Seen for runs that it ended.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	// Create stores runs, each on the condition that it is not stored.
	Create(ctx context.Context, runs []core.Run) []error
	// PutJournal stores a journal, on the condition that none with its key is stored, or that the stored version V is lower.
	PutJournal(ctx context.Context, j core.Journal) error
	// Numbers allocates n consecutive run numbers of a job and returns the first.
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	// PutEntries adds entries to the due index. An entry that exists is not an error.
	PutEntries(ctx context.Context, entries []core.DueItem) []error
	// Advance updates the planning fields of jobs. Each update has the condition that the stored Rev, Next and Tail equal
	// the fields of the core.Advance.
	Advance(ctx context.Context, moves []core.Advance) []error
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Global(ctx context.Context) (core.Global, error)
}

// Watch has the data that only the watchdog needs.
type Watch interface {
	// JournalsAt reads at most limit journals of the claims in a minute. JournalsAt returns the journals that follow the
	// parameter after; zero: from the first. The store defines the order.
	JournalsAt(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.Journal, error)
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	PutJournal(ctx context.Context, j core.Journal) error
	// Cursor returns the last minute that the watchdog has scanned; 0: none.
	Cursor(ctx context.Context) (minute int64, err error)
	// MoveCursor sets the cursor to minute, on the condition that the cursor equals seen.
	MoveCursor(ctx context.Context, seen, minute int64) error
	// PutRevisits schedules journals to be read again at a minute. The store keeps the schedule until then.
	PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error
	// Revisits reads the keys of journals that are scheduled for a minute, in pages with the parameters of JournalsAt.
	// DropRevisits deletes the schedule of a minute.
	Revisits(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.JournalKey, error)
	DropRevisits(ctx context.Context, minute int64) error
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	// OpenRuns reads open runs with IDs from first down to last. OpenRuns returns the ID from which to continue; 0: no runs
	// follow. A page may have fewer than limit runs, or none, although runs follow.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
	// OldestMessage returns the backlog of the delay queue, or an upper limit of it.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}

// Ring enqueues the messages of follow-ups.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// A Prober asks executors about their runs.
type Prober interface {
	// Beat returns nil if an address is available. An error with core.CodeUnavailable means that this process could not send
	// the check.
	Beat(ctx context.Context, app *core.App, address string) error
	// Idle reports whether the executor at an address has no running or queued run of the job. Idle returns an error if this
	// is unknown.
	Idle(ctx context.Context, app *core.App, address string, job core.JobID) (bool, error)
	// Kill asks the executor at an address to end all runs of the job. Kill returns nil if the executor accepts the request.
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
	// Limit returns the maximum duration of a run of the function at an address.
	Limit(ctx context.Context, address string) (time.Duration, error)
}
