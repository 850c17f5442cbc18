package manage

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
)

// Store reads and writes the data of changes. Reads are strong. Writes return core.ErrRefused for
// a failed condition and core.ErrThrottled for a throttled table.
type Store interface {
	query.Jobs
	query.Gone
	query.Apps
	query.Runs
	query.Scripts
	query.Channels
	Jobs
	Scripts
	Apps
	Channels
	Executors
	Looks
	Everything
	Plans
}

// Jobs changes jobs.
type Jobs interface {
	// NewJobIDs allocates n consecutive job IDs and returns the first.
	NewJobIDs(ctx context.Context, n int) (core.JobID, error)
	// Edges returns how often a job with children was given a parent, starting at 1.
	Edges(ctx context.Context) (int64, error)
	// CreateJobs stores new jobs with their change records. Conditions of each job: its app is
	// stored, its name is free, and its ID was never used; each of its parents is stored and has fewer than
	// MaxChildren children. CreateJobs also adds the job to the children of its parents. If CreateJobs runs
	// concurrently with DeleteApp, one of the two conflicts.
	CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error
	// UpdateJobs replaces jobs with their change records. Conditions of each job: the stored rev
	// and tail are as seen, and its parents are as in CreateJobs. Seq never decreases, and
	// Def.Children stays.
	UpdateJobs(ctx context.Context, updates []Update) []error
	// DeleteJob replaces a job by its tombstone and removes it from its parents. Condition: its rev equals seen, and it has
	// no children.
	DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error
}

// Update replaces a job on the condition that the stored rev is Seen and its tail SeenTail. An advance changes the tail
// without the rev, and its tail must not be lost.
type Update struct {
	Seen     int64
	SeenTail core.RunID
	// Edges is compared and incremented if a job with children is given a parent. If two
	// such updates have an equal value, one conflicts.
	Edges  int64
	Job    core.Job
	Change core.Change
}

// Scripts stores the scripts of jobs: a source is stored before a job names it, and deleted when
// no job can name it.
type Scripts interface {
	// PutScripts stores the record of a job's scripts on the condition that the stored V is one
	// lower. A record without scripts is deleted.
	PutScripts(ctx context.Context, s core.Scripts) error
	// PutSource stores a source by its hash and time, and replaces an equal one.
	PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error
	// DropSource deletes a source that was stored before a time; a newer one stays.
	DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error
	// OpenRuns reads open runs with first >= ID >= last in descending order. It returns the ID to continue from; 0 is the
	// end. Before the end it may return fewer than limit runs, or none.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
}

// Apps changes apps.
type Apps interface {
	// PutApp stores an app on the condition that its rev equals seen (0: it does not exist).
	PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error
	// DeleteApp deletes an app without jobs on the condition that its rev equals seen.
	DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error
}

// Looks schedules checks for overdue runs.
type Looks interface {
	// PutLooks schedules checks; one that is already scheduled is not an error.
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error
}

type Channels interface {
	// PutChannel stores a channel on the condition that its rev equals seen (0: it does not exist).
	PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error
	// DeleteChannel deletes a channel on the condition that its rev equals seen.
	DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error
}

// Notifier sends to channels.
type Notifier interface {
	// Takes returns why this server cannot send to a channel, or nil.
	Takes(ctx context.Context, ch core.Channel) error
	// Test sends a test message once. Its error is a *core.Undelivered.
	Test(ctx context.Context, ch core.Channel) error
}

type Executors interface {
	// RemoveExecutor deletes a registration on the condition that its last heartbeat equals seen. A
	// missing one is not an error.
	RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error
}

// Everything changes the global item.
type Everything interface {
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
	// PutChanges stores records; equal subject, ID, verb and New make one record.
	PutChanges(ctx context.Context, changes []core.Change) error
}

// Plans stores the planning of a change.
type Plans interface {
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Advance(ctx context.Context, moves []core.Advance) []error
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Ring sends messages.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Finisher ends runs that were not sent; *finish.Finish implements it.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// EndRow forgets the consecutive failures of a job up to a time.
	EndRow(ctx context.Context, job core.JobID, upTo time.Time) error
}
