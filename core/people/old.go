package people

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// Store has the methods of engine.Nouns that tests of other packages call.
type Store interface {
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error)
	ListJobs(ctx context.Context, app string, after core.JobID, limit int) (jobs []core.Job, next core.JobID, err error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	ListTombstones(ctx context.Context, after core.JobID, limit int) ([]core.Tombstone, error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	ListApps(ctx context.Context) ([]core.App, error)
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)
	Channels(ctx context.Context, names []string) (map[string]core.Channel, error)
	ListChannels(ctx context.Context) ([]core.Channel, error)
	Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) ([]core.Change, error)
	Cleaned(ctx context.Context, job core.JobID) (core.Instant, error)
	Skips(ctx context.Context, job core.JobID, from, to core.Instant) ([]core.Skip, error)
	Scripts(ctx context.Context, job core.JobID) (core.Scripts, error)
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	RecentRuns(ctx context.Context, of store.Recent, from store.RunPlace, limit int) (runs []core.Run, next store.RunPlace, err error)
	LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error)
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
	KeptLog(ctx context.Context, run core.RunID) (core.KeptLog, bool, error)
	Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error)
	OldestMessage(ctx context.Context) (ring.Oldest, error)
	NewJobIDs(ctx context.Context, n int) (core.JobID, error)
	Edges(ctx context.Context) (int64, error)
	CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error
	UpdateJobs(ctx context.Context, updates []manage.Update) []error
	DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error
	PutScripts(ctx context.Context, s core.Scripts) error
	PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error
	DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
	PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error
	DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error
	PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error
	DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error
	RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error
	PutGlobal(ctx context.Context, seen int64, g core.Global) error
	PutChanges(ctx context.Context, changes []core.Change) error
	PutSkips(ctx context.Context, skips []core.Skip) []error
	Advance(ctx context.Context, moves []core.Advance) []error
	RemoveEntries(ctx context.Context, entries []core.DueItem) []error
	Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error)
	PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (core.RunID, error)
	PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error
	ChangeTriggered(ctx context.Context, c operate.Triggered) error
	Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error)
	PutRuns(ctx context.Context, puts []core.RunPut) []error
	DropRuns(ctx context.Context, runs []core.Run) []error
	PutCleaned(ctx context.Context, job core.JobID, upTo core.Instant) error
}
