package notification

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Reads has the data that notifications need. Reads are strongly consistent.
type Reads interface {
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Global(ctx context.Context) (core.Global, error)
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RunsByID reads at most limit stored runs with IDs from first to last, in ascending order. If first is greater than last,
	// the runs are in descending order, from first down to last.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// OpenRuns reads open runs with IDs from first down to last. OpenRuns returns the ID from which to continue; 0: no runs
	// follow. A page may have fewer than limit runs, or none, although runs follow.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
}

// Ends records in runs that their ends are counted for notifications.
type Ends interface {
	// PutRuns changes stored runs, each on the condition in its RunPut.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
}

// States stores the State items of jobs and channels. Writes return core.ErrRefused and core.ErrThrottled as package core
// documents.
type States interface {
	// Notices reads items by name with strongly consistent reads. The result omits items that are not stored.
	Notices(ctx context.Context, names []string) (map[string]State, error)
	// PutNotices stores items, each on the condition that the stored version V is one lower.
	PutNotices(ctx context.Context, list []State) []error
}

// Looks is the index of the checks of notifications, sorted by time.
type Looks interface {
	// PutLooks adds checks to the index. A check that exists is not an error.
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error
	// DueLooks reads the first limit checks that are due up to a time, sorted by time.
	DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.CheckRequest, error)
	// DropLooks removes checks from the index. A missing check is not an error.
	DropLooks(ctx context.Context, looks []ring.CheckRequest) error
}

// ChannelStore reads channels by name.
type ChannelStore interface {
	Channels(ctx context.Context, names []string) (map[string]core.Channel, error)
}

// Store combines the stores of this package.
type Store interface {
	Reads
	Ends
	States
	Looks
	ChannelStore
}

// Ring enqueues messages that request checks.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// A Sender sends messages to channels. Send sends a message once, without a retry. Its error is a *core.Undelivered.
type Sender interface {
	Send(ctx context.Context, ch core.Channel, m core.Message) error
}

// Logs reads the last lines of a run's log for notifications. If the run has no log, the result is empty.
type Logs interface {
	Tail(ctx context.Context, run *core.Run, lines int) ([]string, error)
}
