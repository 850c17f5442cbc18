package notice

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Reads is what a notice is made from. Reads are strong.
type Reads interface {
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	Global(ctx context.Context) (core.Global, error)
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// RunSpan reads the stored runs with first <= ID <= last in that order, or
	// with last < first downwards from first to last.
	RunSpan(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)
	// OpenRuns reads open runs with first >= ID >= last, downwards, and where to go on; 0 is
	// the end. It may return fewer than limit, or none, before the end.
	OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error)
}

// Ends notes of a run that what its end owes is made.
type Ends interface {
	// PutRuns changes stored runs; condition of each as it says.
	PutRuns(ctx context.Context, puts []core.RunPut) []error
}

// States keeps what is known of notices. Answers of writes as core.ErrRefused and
// core.ErrThrottled say.
type States interface {
	// Notices reads items strongly; one that is not stored is not in the answer.
	Notices(ctx context.Context, names []string) (map[string]State, error)
	// PutNotices stores each; condition: the V that is stored is one lower.
	PutNotices(ctx context.Context, list []State) []error
}

// Looks is the index of what is to be looked at, by time.
type Looks interface {
	// PutLooks puts looks into it; one that is there is well.
	PutLooks(ctx context.Context, looks []ring.Look) error
	// DueLooks reads the first of those up to a moment, in the order of time.
	DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.Look, error)
	// DropLooks removes some; one that is not there is well.
	DropLooks(ctx context.Context, looks []ring.Look) error
}

// ChannelStore has where notices go.
type ChannelStore interface {
	Channels(ctx context.Context, names []string) (map[string]core.Channel, error)
}

// Store is all of them.
type Store interface {
	Reads
	Ends
	States
	Looks
	ChannelStore
}

// Ring takes the messages of looks.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
}

// Sender brings a message to a channel, once. Its error is a *core.Undelivered.
type Sender interface {
	Send(ctx context.Context, ch core.Channel, m core.Message) error
}

// Logs has the last lines of the log of a run, for notices; none where it has none.
type Logs interface {
	Tail(ctx context.Context, run *core.Run, lines int) ([]string, error)
}
