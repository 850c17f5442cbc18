package notification

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Reads reads the data of notifications. Reads are strongly consistent.
type Reads interface {
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Global(ctx context.Context) (core.Global, error)
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RunsByID reads the stored runs with first <= ID <= last in ascending order. If last < first, the order is descending.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// OpenRuns reads open runs with first >= ID >= last in descending order. It returns the ID to continue from; 0 is the
	// end. Before the end it may return fewer than limit runs, or none.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
}

// Ends records on a run that its pending notification is counted.
type Ends interface {
	// PutRuns changes stored runs; each RunPut has its condition.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
}

// States stores the items of notifications. Writes return core.ErrRefused and core.ErrThrottled as package core documents.
type States interface {
	// Notices reads items strongly consistently; the result lacks items that are not stored.
	Notices(ctx context.Context, names []string) (map[string]State, error)
	// PutNotices stores items; condition of each: the stored V is one lower.
	PutNotices(ctx context.Context, list []State) []error
}

// Looks is the index of checks, by time.
type Looks interface {
	// PutLooks adds checks to the index; existing ones are not an error.
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error
	// DueLooks reads the first checks up to a time, ordered by time.
	DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.CheckRequest, error)
	// DropLooks removes checks; missing ones are not an error.
	DropLooks(ctx context.Context, looks []ring.CheckRequest) error
}

// ChannelStore reads channels.
type ChannelStore interface {
	Channels(ctx context.Context, names []string) (map[string]core.Channel, error)
}

// Store combines all stores of this package.
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

// Sender sends a message to a channel, once. Its error is a *core.Undelivered.
type Sender interface {
	Send(ctx context.Context, ch core.Channel, m core.Message) error
}

// Logs returns the last lines of a run's log for notifications; none if the run has no log.
type Logs interface {
	Tail(ctx context.Context, run *core.Run, lines int) ([]string, error)
}
