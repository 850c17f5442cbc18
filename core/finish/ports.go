package finish

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Store reads and writes the data of ending runs. Reads are strong. Writes return core.ErrRefused
// for a failed condition and core.ErrThrottled for a throttled table.
type Store interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// Jobs may return shared jobs: callers must not change them.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	// RunsByID reads the stored runs with first <= ID <= last in ascending order. If last < first, the order is descending.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	// Permits reads items of permits and omits the ones that are not stored.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// PutPermits stores each item on the condition that the stored V is one lower.
	PutPermits(ctx context.Context, list []core.Permits) []error
	// PutRuns changes stored runs, each on its own condition. It may set Seen in puts for runs
	// that it ended.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	// Create puts each run on the condition that it does not exist.
	Create(ctx context.Context, runs []core.Run) []error
	// PutJournal stores a journal on the condition that none is stored, or the stored V is lower.
	PutJournal(ctx context.Context, j core.Journal) error
	// Numbers allocates n numbers from a job's counter and returns the first.
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	// PutEntries puts light entries into the due index; an existing entry is not an error.
	PutEntries(ctx context.Context, entries []core.DueItem) []error
	// Advance moves jobs on, on the condition that Rev, Next and Tail are as read.
	Advance(ctx context.Context, moves []core.Advance) []error
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Global(ctx context.Context) (core.Global, error)
}

// Watch reads and writes the data that only the watchdog needs.
type Watch interface {
	// JournalsAt reads up to limit journals of a minute of claims after the given one (zero: from
	// the first). The store chooses the order.
	JournalsAt(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.Journal, error)
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	PutJournal(ctx context.Context, j core.Journal) error
	// Cursor returns the last minute that the watchdog has scanned, or 0 before the first scan.
	Cursor(ctx context.Context) (minute int64, err error)
	// MoveCursor sets the cursor to minute on the condition that its value equals seen.
	MoveCursor(ctx context.Context, seen, minute int64) error
	// PutRevisits schedules journals to be read again at a minute. The store keeps them until
	// then, whatever their age.
	PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error
	// Revisits reads the journals that are scheduled for a minute, paged like JournalsAt.
	// DropRevisits deletes them.
	Revisits(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.JournalKey, error)
	DropRevisits(ctx context.Context, minute int64) error
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	// OpenRuns reads open runs with first >= ID >= last in descending order. It returns the ID to continue from; 0 is the
	// end. Before the end it may return fewer than limit runs, or none.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
	// OldestMessage returns how far the ring is behind, or a higher estimate.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}

// Ring takes the messages of follow-ups.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Prober asks executors about their runs.
type Prober interface {
	// Beat returns nil if the address answers. An error of core.CodeUnavailable means that the
	// question could not be sent.
	Beat(ctx context.Context, app *core.App, address string) error
	// Idle reports whether the executor neither runs nor queues a run of the job. It returns an error if this is unknown.
	Idle(ctx context.Context, app *core.App, address string, job core.JobID) (bool, error)
	// Kill asks the executor to end all runs of the job. It returns nil if the executor accepts.
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
	// Limit returns how long a run of the function at the address can last.
	Limit(ctx context.Context, address string) (time.Duration, error)
}
