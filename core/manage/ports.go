package manage

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Store is what people's changes and questions read and write. Reads are
// strong; answers of writes as core.ErrRefused and core.ErrThrottled say.
type Store interface {
	// Jobs answers what others may have been answered too: it is read only. What it,
	// Scheds and ListJobs find and cannot understand they name in core.Unreadable,
	// beside the rest of their answer.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Scheds(ctx context.Context, jobs []core.JobID) (found map[core.JobID]core.Sched, unread []core.JobID, err error)
	// JobIDs finds jobs of an app by name; those that are not there are not in the answer.
	JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error)
	// ListJobs reads jobs in the order of their numbers, of one app or (empty) all, and
	// the number to go on behind; 0 is the end. It may find fewer than limit, or none,
	// before the end.
	ListJobs(ctx context.Context, app string, after core.JobID, limit int) (jobs []core.Job, next core.JobID, err error)
	// NewJobIDs draws n numbers; the first of them.
	NewJobIDs(ctx context.Context, n int) (core.JobID, error)
	// CreateJobs stores new jobs with their change records; condition of each:
	// its app is stored, no job of that app and name, none of that number, now or
	// before. Of this and a DeleteApp at once one is refused.
	CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error
	// UpdateJobs replaces jobs with their change records; condition of each: the
	// stored rev and tail are as seen. Seq never goes back.
	UpdateJobs(ctx context.Context, updates []Update) []error
	// DeleteJob removes a job, leaving its tombstone; condition: rev is seen.
	DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	// ListTombstones reads tombstones in the order of their numbers; fewer than
	// limit is the end.
	ListTombstones(ctx context.Context, after core.JobID, limit int) ([]core.Tombstone, error)

	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	ListApps(ctx context.Context) ([]core.App, error)
	// PutApp stores an app; condition: its rev is seen (0: no such app).
	PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error
	// DeleteApp removes an app that has no job; condition: rev is seen.
	DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
	// PutChanges stores records; one of the same subject, ID, verb and New is there once.
	PutChanges(ctx context.Context, changes []core.Change) error
	// Changes reads the change records of a job (or with job 0 of an app and
	// its jobs; with both empty of everything), newest first.
	Changes(ctx context.Context, app string, job core.JobID, limit int) ([]core.Change, error)

	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RunSpan reads the stored runs with first <= ID <= last in that order, or
	// with last < first downwards from first to last.
	RunSpan(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// RecentRuns reads runs of one app or (empty) all, newest first, made before
	// the given millisecond (0: now); the millisecond to go on from.
	RecentRuns(ctx context.Context, app string, before int64, limit int) (runs []core.Run, next int64, err error)
	// Skips reads the skipped records of a job that reach into the span.
	Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error)
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	// PutTriggered stores a run with its entry in the due index, both or none;
	// condition: no item.
	PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error
	// ChangeTriggered changes a run that waits, with its entries and the change
	// record, all or none; condition: planned, owner empty, not maybeSent, until
	// is Seen.
	ChangeTriggered(ctx context.Context, c Triggered) error
	// PutKey binds an idempotency key of a job to a run until a day after the run
	// has ended, and answers the run it is bound to, which is another where it was
	// bound before. Where no such run is stored it binds for a day.
	PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error)
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
	// Entries reads the light entries of a job.
	Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error)
	// MarkKilled notes who kills a run; condition: open.
	MarkKilled(ctx context.Context, run core.RunID, by string, atMillis int64) error
	Advance(ctx context.Context, moves []core.Advance) []error
	// OpenRuns reads the claimed and still open runs of a job, oldest first.
	OpenRuns(ctx context.Context, job core.JobID, limit int) ([]core.Run, error)
	// OldestMessage says how far the ring is behind, or more.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}

// Update replaces a job; condition: the stored rev is Seen, and its tail
// SeenTail: an advance does not move rev, and the tail that it set must not be
// lost.
type Update struct {
	Seen     int64
	SeenTail core.RunID
	Job      core.Job
	Change   core.Change
}

// Triggered is a waiting run as it becomes: of Run its At, Slot, Params,
// Addresses and Until are stored, and SentAt is emptied. Drop leaves the due
// index, Entry comes into it; Entry counts where it is in both. A run that has
// Params never becomes one without.
type Triggered struct {
	Seen   time.Time
	Run    core.Run
	Drop   []core.DueItem
	Entry  core.DueItem
	Change core.Change
}

// Ring takes what is due at once.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Killer asks an executor to end all runs of a job. It is called for several
// addresses at a time, and bounds its own time.
type Killer interface {
	Kill(ctx context.Context, app *core.App, address string, job core.JobID) error
}
