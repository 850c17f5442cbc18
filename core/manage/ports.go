package manage

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// Store is what people's changes read and write. Reads are strong; answers of
// writes as core.ErrRefused and core.ErrThrottled say.
type Store interface {
	ask.Jobs
	ask.Gone
	ask.Apps
	ask.Runs
	ask.Scripts
	ask.Channels
	Jobs
	Scripts
	Apps
	Channels
	Executors
	Looks
	Everything
	Plans
}

// Jobs is how jobs are changed.
type Jobs interface {
	// NewJobIDs draws n numbers; the first of them.
	NewJobIDs(ctx context.Context, n int) (core.JobID, error)
	// Edges says how often a job that has children was given a parent; from 1 on.
	Edges(ctx context.Context) (int64, error)
	// CreateJobs stores new jobs with their change records; condition of each:
	// its app is stored, no job of that app and name, none of that number, now or
	// before; the jobs that it comes after are stored, and list it from then on, which is
	// refused where one has MaxChildren. Of this and a DeleteApp at once one is refused.
	CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error
	// UpdateJobs replaces jobs with their change records; condition of each: the
	// stored rev and tail are as seen, the jobs that it comes after as of CreateJobs. Seq
	// never goes back, and Def.Children stays.
	UpdateJobs(ctx context.Context, updates []Update) []error
	// DeleteJob removes a job, leaving its tombstone, also from the lists of those that it
	// comes after; condition: rev is seen, and none comes after it.
	DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error
}

// Update replaces a job; condition: the stored rev is Seen, and its tail
// SeenTail: an advance does not move rev, and the tail that it set must not be
// lost.
type Update struct {
	Seen     int64
	SeenTail core.RunID
	// Edges is compared, and raised, where a job that has children is given a parent: of
	// two such updates that read the same, one is refused.
	Edges  int64
	Job    core.Job
	Change core.Change
}

// Scripts is how the scripts of jobs are stored: a source before a job names it, and gone
// when none can.
type Scripts interface {
	// PutScripts stores the record of a job's scripts; condition: the V that is stored is one
	// lower. One that names nothing removes it.
	PutScripts(ctx context.Context, s core.Scripts) error
	// PutSource stores a source by its hash at a moment, over what is there.
	PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error
	// DropSource removes a source that was stored before a moment, and leaves another.
	DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error
	// OpenRuns reads open runs with first >= ID >= last, downwards, and where to go on; 0 is
	// the end. It may return fewer than limit, or none, before the end.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
}

// Apps is how apps are changed.
type Apps interface {
	// PutApp stores an app; condition: its rev is seen (0: no such app).
	PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error
	// DeleteApp removes an app that has no job; condition: rev is seen.
	DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error
}

// Looks has jobs looked at later, whether they are overdue.
type Looks interface {
	// PutLooks asks for that; one that is asked for is well.
	PutLooks(ctx context.Context, looks []ring.Look) error
}

type Channels interface {
	// PutChannel stores a channel; condition: its rev is seen (0: no such channel).
	PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error
	// DeleteChannel removes a channel; condition: rev is seen.
	DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error
}

// Notifier sends to channels. Without one none is taken.
type Notifier interface {
	// Takes says why nothing here can send to a channel, whatever its form; nil if it can.
	Takes(ctx context.Context, ch core.Channel) error
	// Test sends a test message, once. Its error is a *core.Undelivered.
	Test(ctx context.Context, ch core.Channel) error
}

type Executors interface {
	// RemoveExecutor removes that registration; condition: its last heartbeat is seen. One that
	// is not there is well.
	RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error
}

// Everything is how the item that concerns everything is changed.
type Everything interface {
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
	// PutChanges stores records; one of the same subject, ID, verb and New is there once.
	PutChanges(ctx context.Context, changes []core.Change) error
}

// Plans is what a change plans, and what it drops from the plan.
type Plans interface {
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Advance(ctx context.Context, moves []core.Advance) []error
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
}

// Ring takes what is due at once.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Finisher ends runs that were not sent; *finish.Finish does.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// EndRow forgets the failures in a row of a job up to a time.
	EndRow(ctx context.Context, job core.JobID, upTo time.Time) error
}
