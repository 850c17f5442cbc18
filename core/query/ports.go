package query

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Store is the storage that queries read. All reads are strong.
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

// Jobs reads the current jobs.
type Jobs interface {
	// Jobs can share its result with other callers, so the result is read-only. Jobs and ListJobs return unreadable
	// jobs as core.Unreadable, along with their other results.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	// JobIDs finds jobs of an app by name; missing jobs are not in the result.
	JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error)
	// ListJobs reads jobs of one app, or all if app is empty, ordered by number. It also returns the number to
	// continue after; 0 is the end. It can return fewer than limit, or none, before the end.
	ListJobs(ctx context.Context, app string, after core.JobID, limit int) (jobs []core.Job, next core.JobID, err error)
}

// Gone reads the traces of deleted jobs.
type Gone interface {
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	// ListTombstones reads tombstones ordered by job number; fewer than limit means the end.
	ListTombstones(ctx context.Context, after core.JobID, limit int) ([]core.Tombstone, error)
}

// Apps reads the apps, their executors, and the global item.
type Apps interface {
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	ListApps(ctx context.Context) ([]core.App, error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)
}

type Channels interface {
	// Channels reads channels by name; missing channels are not in the result.
	Channels(ctx context.Context, names []string) (map[string]core.Channel, error)
	ListChannels(ctx context.Context) ([]core.Channel, error)
}

// Records reads the records of changes and of skipped times.
type Records interface {
	// Changes reads the change records of a job, of an app and its jobs if job is 0, or of everything if app is empty
	// too. It returns IDs up to last, newest first; records with equal IDs keep one order.
	Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) ([]core.Change, error)
	// Cleaned reads the scheduled time up to which users may have removed planned runs of a job; 0: none.
	Cleaned(ctx context.Context, job core.JobID) (core.Instant, error)
	// Skips reads the skip records of a job that overlap the span.
	Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error)
}

type Scripts interface {
	// Scripts reads the script record of a job; a record without versions was never stored.
	Scripts(ctx context.Context, job core.JobID) (core.Scripts, error)
	// Source reads a script source of a job by hash; false if it is not kept.
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)
}

// RunPlace is a position in the runs ordered by creation, newest first: after the runs created at or after the
// millisecond Before. If the store counts rows, Row is the exact row there; such a store never inserts rows before
// existing ones. The zero value is the start, and as next position the end.
type RunPlace struct{ Before, Row int64 }

// Recent filters runs ordered by creation: by app, by states, and by due time from From to To. Zero fields do not
// filter.
type Recent struct {
	App      string
	States   []core.State
	From, To core.Instant
}

// FailedJobs is a store's list of jobs that may be failing. A store has it if reading the last runs of all jobs costs too
// much for a page. The last chain of a job that is not on the list did not fail, unless the store could not list the job.
type FailedJobs interface {
	// FailedJobs returns when each job on the list was listed.
	FailedJobs(ctx context.Context) (map[core.JobID]time.Time, error)
	// ForgetFailed removes recovered jobs from the list, except jobs that were listed again since. Callers wait until a job has
	// been listed for ten minutes.
	ForgetFailed(ctx context.Context, jobs map[core.JobID]time.Time) error
}

// Runs reads runs and waiting entries.
type Runs interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RunsByID reads the stored runs with first <= ID <= last in ascending order. If last < first, the order is descending.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// RecentRuns reads runs from a position on, newest first by creation, and returns the next position. A slow call
	// can return fewer than limit, or none. A store that cannot filter by state or due time returns other runs too.
	RecentRuns(ctx context.Context, of Recent, from RunPlace, limit int) (runs []core.Run, next RunPlace, err error)
	// LastRuns reads the newest runs of jobs with due times up to upTo, at most n for each job, newest first. Jobs
	// without runs are not in the result. A store may skip at most n runs with later due times for each job.
	LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error)
	// Permits reads the stored items of permits.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// Journals reads the stored journals.
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	// KeptLog reads the kept log of a run; false if there is none.
	KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error)
	// Entries reads the entries of a job's waiting runs in the due index.
	Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error)
}

// Ring reads the status of the delay queue.
type Ring interface {
	// OldestMessage returns an upper bound of how late the delay queue is.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}
