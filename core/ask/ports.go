package ask

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Store is what questions read. All reads are strong.
type Store interface {
	Jobs
	Gone
	Apps
	Records
	Scripts
	Runs
	Ring
	Channels
}

// Jobs are the jobs as they stand.
type Jobs interface {
	// Jobs answers what others may have been answered too: it is read only. What it
	// and ListJobs find and cannot understand they name in core.Unreadable, beside the
	// rest of their answer.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	// JobIDs finds jobs of an app by name; those that are not there are not in the answer.
	JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error)
	// ListJobs reads jobs in the order of their numbers, of one app or (empty) all, and
	// the number to go on behind; 0 is the end. It may find fewer than limit, or none,
	// before the end.
	ListJobs(ctx context.Context, app string, after core.JobID, limit int) (jobs []core.Job, next core.JobID, err error)
}

// Gone is what is left of jobs that were deleted.
type Gone interface {
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	// ListTombstones reads tombstones in the order of their numbers; fewer than
	// limit is the end.
	ListTombstones(ctx context.Context, after core.JobID, limit int) ([]core.Tombstone, error)
}

// Apps are the apps, their executors, and the item that concerns everything.
type Apps interface {
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	ListApps(ctx context.Context) ([]core.App, error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)
}

type Channels interface {
	// Channels reads channels by name; those that are not there are not in the answer.
	Channels(ctx context.Context, names []string) (map[string]core.Channel, error)
	ListChannels(ctx context.Context) ([]core.Channel, error)
}

// Records say what was changed, and what was skipped.
type Records interface {
	// Changes reads the change records of a job (or with job 0 of an app and
	// its jobs; with both empty of everything) whose ID is at most last, newest first:
	// those of one ID in an order that stays.
	Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) ([]core.Change, error)
	// Cleaned reads the instant up to which planned runs of a job may have been removed by
	// somebody; 0: none was.
	Cleaned(ctx context.Context, job core.JobID) (core.Instant, error)
	// Skips reads the skipped records of a job that reach into the span.
	Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error)
}

type Scripts interface {
	// Scripts reads the record of a job's scripts; one without a version was never stored.
	Scripts(ctx context.Context, job core.JobID) (core.Scripts, error)
	// Source reads a source of a job by its hash; false: it is not kept.
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)
}

// RunPlace is one in the runs by when they were made: behind what was made from a millisecond on,
// and where a row is named behind that too, by the store's own count; such a store makes none
// before one that is there. The zero value is the place before the newest, and as that to go on
// from the end.
type RunPlace struct{ Before, Row int64 }

// Recent says which runs are asked for by when they were made: those of one app or (empty) all, in
// some states or (empty) any, with a slot from one instant to another; zero leaves each open.
type Recent struct {
	App      string
	States   []core.State
	From, To core.Instant
}

// FailedJobs is the list of jobs that may be failing, kept by a store in which reading the last runs of all jobs costs too much
// for a page. The last chain of a job that is not on the list did not fail, unless the store could not list the job.
type FailedJobs interface {
	// FailedJobs returns when each job on the list was listed.
	FailedJobs(ctx context.Context) (map[core.JobID]time.Time, error)
	// ForgetFailed removes recovered jobs from the list, except jobs that were listed again since. Callers wait until a job has
	// been listed for ten minutes.
	ForgetFailed(ctx context.Context, jobs map[core.JobID]time.Time) error
}

// Runs are the runs, and what waits for its time.
type Runs interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RunSpan reads the stored runs with first <= ID <= last in that order, or
	// with last < first downwards from first to last.
	RunSpan(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// RecentRuns reads runs, the one that was made last first, from a place on; and the place to
	// go on from. A call that has looked long enough answers fewer runs than limit, or none; one
	// that cannot tell states or slots apart answers others too.
	RecentRuns(ctx context.Context, of Recent, from RunPlace, limit int) (runs []core.Run, next RunPlace, err error)
	// LastRuns reads the newest runs of jobs with a slot up to an instant, at most n of each,
	// the newest first; one that has none is not in the answer. Of those that wait for a later
	// slot a store may pass over no more than n of each.
	LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error)
	// Permits reads items of permits; one that is not stored is not in the answer.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// Journals reads journals; one that is not stored is not in the answer.
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	// KeptLog is what is kept of a run's log; false: nothing is.
	KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error)
	// Entries reads the light entries of a job.
	Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error)
}

// Ring says what is on its way.
type Ring interface {
	// OldestMessage says how far the ring is behind, or more.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}
