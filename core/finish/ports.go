package finish

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Store is what the end of a run reads and writes. Reads are strong; answers
// of writes as core.ErrRefused and core.ErrThrottled say.
type Store interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// Jobs answers what others may have been answered too: it is read only.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	// RunSpan reads the stored runs with first <= ID <= last in that order, or
	// with last < first downwards from first to last.
	RunSpan(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	// Permits reads items of permits; one that is not stored is not in the answer.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// PutPermits stores each; condition: the V that is stored is one lower.
	PutPermits(ctx context.Context, list []core.Permits) []error
	// PutRuns changes stored runs; condition of each as it says. It may set Seen of
	// those that it ended, in puts.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	// Create puts runs; condition of each: no item.
	Create(ctx context.Context, runs []core.Run) []error
	// Numbers draws n numbers from a job's counter; the first of them.
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	// PutEntries puts light entries into the due index; one that is there is well.
	PutEntries(ctx context.Context, entries []core.DueItem) []error
	// Advance moves jobs on; condition: Rev, Next and Tail as read.
	Advance(ctx context.Context, moves []core.Advance) []error
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Global(ctx context.Context) (core.Global, error)
}

// Watch is what the watchdog reads and writes besides.
type Watch interface {
	// JournalsAt reads journals of a minute of claims in an order of the store's,
	// those after one of that minute (zero: from the first), at most limit.
	JournalsAt(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.Journal, error)
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	PutJournal(ctx context.Context, j core.Journal) error
	// Cursor reads the last minute that the watchdog has walked; 0 none yet.
	Cursor(ctx context.Context) (minute int64, err error)
	// MoveCursor sets it; condition: it is seen.
	MoveCursor(ctx context.Context, seen, minute int64) error
	// PutRevisits asks for journals to be read again at a minute; they stay until
	// then, however old they are.
	PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error
	// Revisits reads what was asked for a minute, in an order and pages as
	// JournalsAt does; DropRevisits forgets it.
	Revisits(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.JournalKey, error)
	DropRevisits(ctx context.Context, minute int64) error
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	// OpenRuns reads open runs with first >= ID >= last, downwards, and where to go on; 0 is
	// the end. It may return fewer than limit, or none, before the end.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
	// OldestMessage says how far the ring is behind, or more.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}

// Ring takes the messages of follow-ups.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Prober asks executors what they do.
type Prober interface {
	// Beat is nil when something answers at the address; an error of
	// core.CodeUnavailable says that it could not be asked.
	Beat(ctx context.Context, app *core.App, address string) error
	// Idle reports whether the executor neither runs nor queues a run of the
	// job; an error when it cannot be known.
	Idle(ctx context.Context, app *core.App, address string, job core.JobID) (bool, error)
	// Kill asks the executor to end all runs of the job; nil where it took that.
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
	// Limit is how long a run at the address, a function, can last.
	Limit(ctx context.Context, address string) (time.Duration, error)
}
