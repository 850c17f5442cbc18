package manage

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
)

// Store is the storage that Manage reads and changes. Reads are strongly consistent. Writes return core.ErrRefused if
// their condition is false, and core.ErrThrottled if the store is overloaded.
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
	// Edges returns a counter that grows with each change that gives a parent to a job with children. The counter
	// starts at 1.
	Edges(ctx context.Context) (int64, error)
	// CreateJobs stores new jobs with their change records. For each job, the app must be stored, the name must be
	// free, and the ID must never have been used. Each parent of the job must be stored and have fewer than
	// core.MaxChildren children. CreateJobs also adds the job to the children of its parents. If CreateJobs and
	// DeleteApp run at the same time for one app, one of them fails.
	CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error
	// UpdateJobs replaces stored jobs and stores the change records. For each job, the stored Rev and Tail must equal
	// Update.Seen and Update.SeenTail. Each parent of the job must be stored and have fewer than core.MaxChildren
	// children. Seq never decreases, and Def.Children does not change.
	UpdateJobs(ctx context.Context, updates []Update) []error
	// DeleteJob replaces a job with the tombstone t, and removes the job from the children of its parents. The stored
	// Rev must equal seen, and the job must have no children.
	DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error
}

// Update replaces a job on the condition that the stored Rev equals Seen and the stored Tail equals SeenTail. Tail is
// compared too, because a core.Advance changes Tail without changing Rev.
type Update struct {
	Seen     int64
	SeenTail core.RunID
	// Edges is set to the result of Jobs.Edges if the update gives a parent to a job with children. The store rejects
	// the update if the counter has changed, and otherwise increments the counter.
	Edges  int64
	Job    core.Job
	Change core.Change
}

// Scripts stores the scripts of jobs. A source is stored before a job uses it, and deleted when no job can use it.
type Scripts interface {
	// PutScripts stores the record of a job's scripts on the condition that the stored V is one lower than s.V. A
	// record without scripts is deleted.
	PutScripts(ctx context.Context, s core.Scripts) error
	// PutSource stores a source with the time at. If the source is already stored, only the time changes.
	PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error
	// DropSource deletes the source with the hash if the source was stored before the given time.
	DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error
	// OpenRuns reads open runs with IDs from first down to last, both included. next is the ID from which the caller
	// continues; 0 means the end. Before the end, OpenRuns can return fewer than limit runs, or no runs.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
}

// Apps changes apps.
type Apps interface {
	// PutApp stores an app on the condition that the stored Rev equals seen. If seen is 0, the app must not exist.
	PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error
	// DeleteApp deletes an app on the condition that the stored Rev equals seen and the app has no jobs.
	DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error
}

// Looks schedules checks for overdue runs.
type Looks interface {
	// PutLooks schedules checks. A check that is already scheduled is not an error.
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error
}

type Channels interface {
	// PutChannel stores a channel on the condition that the stored Rev equals seen. If seen is 0, the channel must
	// not exist.
	PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error
	// DeleteChannel deletes a channel on the condition that the stored Rev equals seen.
	DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error
}

// Notifier sends messages to channels.
type Notifier interface {
	// Takes returns an error if this server cannot send messages to a channel.
	Takes(ctx context.Context, ch core.Channel) error
	// Test sends one test message without a retry. If the send fails, the error is a *core.Undelivered.
	Test(ctx context.Context, ch core.Channel) error
}

type Executors interface {
	// RemoveExecutor deletes the registration of an executor on the condition that the last stored heartbeat equals
	// seen. If the registration does not exist, RemoveExecutor returns nil.
	RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error
}

// Everything changes the item with the state of the whole deployment, and stores change records.
type Everything interface {
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
	// PutChanges stores change records. Records with equal app, job, ID, verb and New are stored only once.
	PutChanges(ctx context.Context, changes []core.Change) error
}

// Plans stores the results of planning a changed job.
type Plans interface {
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Advance(ctx context.Context, moves []core.Advance) []error
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Ring sends messages to the delay queue.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Finisher closes runs that were not sent. *finish.Finish implements the interface.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// EndRow deletes the counted consecutive failures of a job up to the time upTo.
	EndRow(ctx context.Context, job core.JobID, upTo time.Time) error
}
