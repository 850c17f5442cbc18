package query

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Store is the storage that queries read. All reads are strongly consistent.
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
	// Jobs reads jobs by ID. Callers must not change the returned jobs, because other callers can share them. For
	// unreadable jobs, Jobs and ListJobs return a core.Unreadable as the error, together with the readable jobs.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	// JobIDs maps the names of an app's jobs to job IDs. Names without a job are not in the result.
	JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error)
	// ListJobs reads jobs of one app, or of all apps if app is empty, in the order of job IDs. next is the ID after
	// which the caller continues; 0 means the end. Before the end, ListJobs can return fewer than limit jobs, or no
	// jobs.
	ListJobs(ctx context.Context, app string, after core.JobID, limit int) (jobs []core.Job, next core.JobID, err error)
}

// Gone reads the records of deleted jobs.
type Gone interface {
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	// ListTombstones reads tombstones in the order of job IDs. A result with fewer than limit tombstones means the
	// end.
	ListTombstones(ctx context.Context, after core.JobID, limit int) ([]core.Tombstone, error)
}

// Apps reads the apps, the executors of the apps, and the item with the state of the whole deployment.
type Apps interface {
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	ListApps(ctx context.Context) ([]core.App, error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)
}

type Channels interface {
	// Channels reads channels by name. Channels that do not exist are not in the result.
	Channels(ctx context.Context, names []string) (map[string]core.Channel, error)
	ListChannels(ctx context.Context) ([]core.Channel, error)
}

// Records reads change records and skip records.
type Records interface {
	// Changes reads change records with an ID of at most last, newest first. If job is not 0, Changes reads only
	// records of this job. Otherwise, if app is not empty, it reads only records of this app and its jobs. The order
	// of records with equal IDs does not change.
	Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) ([]core.Change, error)
	// Cleaned reads the scheduled time up to which users may have removed planned runs of a job; 0: none.
	Cleaned(ctx context.Context, job core.JobID) (core.Instant, error)
	// Skips reads the skip records of a job that overlap the time span.
	Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error)
}

type Scripts interface {
	// Scripts reads the record of the earlier versions of a job's script. If no record is stored, the result has no
	// versions.
	Scripts(ctx context.Context, job core.JobID) (core.Scripts, error)
	// Source reads a script source of a job by hash; false if the source is not stored.
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)
}

// Recent and RunPlace are the filter and the position of RecentRuns.
type (
	Recent   = store.Recent
	RunPlace = store.RunPlace
)

// FailedJobs is the list of a store.
type FailedJobs = store.FailedJobs

// Runs reads runs and related records.
type Runs interface {
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RunsByID reads the stored runs with IDs from first to last, both included. The order is ascending or, if last
	// is lower than first, descending.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// RecentRuns reads runs from a position on, in the order of their creation, newest first, and returns the next
	// position. A slow call can return fewer than limit runs, or no runs. A store that cannot filter by state or due
	// time also returns runs that do not match.
	RecentRuns(ctx context.Context, of Recent, from RunPlace, limit int) (runs []core.Run, next RunPlace, err error)
	// LastRuns reads the newest runs of jobs with due times up to upTo, at most n runs for each job, newest first.
	// Jobs without runs are not in the result. If a job has more than n runs with due times after upTo, the result
	// can lack runs of this job.
	LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error)
	// Permits reads the state of concurrency limits by name.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// Journals reads journals by key. Journals that are not stored are not in the result.
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	// KeptLog reads the kept log of a run; false if no log is kept.
	KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error)
	// Entries reads the due-index entries of a job's waiting runs.
	Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error)
}

// Ring reads the state of the delay queue.
type Ring interface {
	// OldestMessage returns the due time, possibly estimated, of the oldest message in the delay queue.
	OldestMessage(ctx context.Context) (ring.Oldest, error)
}
