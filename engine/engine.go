// Package engine defines the storage interfaces of all use cases, gathered in one struct. An engine (sqlite,
// dynamo) implements them, and enginetest tests each engine. The package decides nothing about runs.
package engine

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/store"
)

// Engine is one open store with its queues.
type Engine struct {
	Store    *store.Store
	Tick     tick.Store
	Leases   tick.Leases
	Dispatch DispatchStore
	Finish   FinishStore
	Watch    WatchStore
	Registry registry.Store
	Manage   people.Store
	Ring     Ring
	Queue    store.Queue
	Health   Healths
	Uses     Uses            // nil if one process dispatches everything: it has no other process to notify
	Pull     pullqueue.Store // queues that executors pull from; nil if they use SQS
	Dead     operate.DeadLetters
	PostRun  postrun.Store
	Notices  NoticeStore
	Upkeep   Maintenance
	Secrets  store.Secrets // nil if secrets are not encrypted
	Records  store.Records
	Jobs     store.Jobs
	Runs     store.Runs
	// ByJournal reports that runs have no index by time: lists and reports find only the runs that journals name.
	ByJournal bool
	// Writes grows with each commit, so that a page can skip reading data that did not change. It is nil if no process learns
	// of every commit.
	Writes func() uint64
	// Newest returns the key of this hour's newest journal, zero if there is none. For an engine without Writes it is the
	// cheapest sign that something was sent.
	Newest func(ctx context.Context) (core.JournalKey, error)
	// Failed lists the jobs that may be failing; nil if reading the last runs of every job is fast.
	Failed store.FailedJobs
	// Close stops the engine and releases its files.
	Close func() error
}

// FinishStore and WatchStore are for the users of Engine.Finish and Engine.Watch, which do not use Engine.Store yet.
type FinishStore interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	PutPermits(ctx context.Context, list []core.Permits) []error
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	Create(ctx context.Context, runs []core.Run) []error
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	PutEntries(ctx context.Context, entries []core.DueItem) []error
	Global(ctx context.Context) (core.Global, error)
}

type WatchStore interface {
	JournalsAt(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.Journal, error)
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	OldestMessage(ctx context.Context) (ring.Oldest, error)
	Cursor(ctx context.Context) (minute int64, err error)
	MoveCursor(ctx context.Context, seen, minute int64) error
	PutJournal(ctx context.Context, j core.Journal) error
	PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error
	DropRevisits(ctx context.Context, minute int64) error
	Revisits(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.JournalKey, error)
}

// NoticeStore is the storage that notifications are created from.
type NoticeStore interface {
	notification.Reads
	notification.Ends
	notification.States
	notification.Looks
	notification.ChannelStore
}

// Ring is the sending side of the queues of runs, slow runs, checks and post-run work.
type Ring interface {
	// Enqueue stores messages durably. Runs, runs of the slow queue, checks and post-run work each have their own queue. It
	// returns nil, core.ErrThrottled or an unknown result for each message.
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Bury moves a message to the dead-letter queue with the reason, so that a message that can never be dispatched is not
	// lost.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// DispatchStore is for the users of Engine.Dispatch, which do not use Engine.Store yet.
type DispatchStore interface {
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)
	Create(ctx context.Context, runs []core.Run) []error
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	PutPermits(ctx context.Context, list []core.Permits) []error
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error
	PutJournal(ctx context.Context, j core.Journal) error
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
}

// Healths and Uses are for the users of Engine.Health and Engine.Uses.
type Healths interface {
	Healths(ctx context.Context) ([]core.Health, error)
	PutHealths(ctx context.Context, list []core.Health) []error
}

type Uses interface {
	Uses(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Uses, error)
	PutUses(ctx context.Context, list []core.Uses) []error
}

// Asks reports whether a planner pass may still look up a run of a retry chain. The parameters next and tail are the
// job's Next and Tail, run is the run, and first is the first run of its chain.
func Asks(next core.Instant, tail, run, first core.RunID) bool {
	if tail != 0 && (tail == run || tail == first) {
		return true
	}
	at, planned := run.Planned()
	return planned && next != 0 && at >= next
}

// Maintenance removes expired records, and records that the scheduler is alive.
type Maintenance interface {
	// Sweep is documented at store.Store.
	Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error)
	// Alive records that the scheduler is alive at the time `now`.
	Alive(ctx context.Context, now time.Time) error
	// LastAlive returns the time that the last call of Alive recorded; zero if Alive was never called.
	LastAlive(ctx context.Context) (time.Time, error)
}
