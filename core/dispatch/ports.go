package dispatch

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// A Store holds all that a dispatcher reads and writes. All reads are strongly consistent. The comment or name of each
// write names its condition. The result of each write is success, core.ErrRefused, core.ErrThrottled or unknown.
type Store interface {
	// Jobs reads jobs, which callers must not modify: other callers may get the same pointers. Jobs that cannot be
	// decoded are in the error, a core.Unreadable, next to the other results. Apps does this with core.UnreadableApps.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	// Executors reads all stored executors of each app, live or not.
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)

	// Create stores new runs; condition of each: not stored.
	Create(ctx context.Context, runs []core.Run) []error
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// PutRuns changes stored runs; each put holds its condition.
	PutRuns(ctx context.Context, puts []core.RunPut) []error

	// RunsByID reads up to limit stored runs with first <= ID <= last in ascending order. If first is greater than last, the
	// order is descending.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)

	// Permits reads permits by name; the result lacks names that are not stored.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// PutPermits stores permits; condition of each: the stored V is one lower.
	PutPermits(ctx context.Context, list []core.Permits) []error

	// Source reads the source of a job's script by its hash; found is false if it is not stored.
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)

	// PutLooks schedules checks of the notifications of jobs; repeating one has no effect.
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error

	// PutJournal stores a journal; condition: none is stored, or the stored V is lower.
	PutJournal(ctx context.Context, j core.Journal) error
	// Journals reads journals; the result lacks keys that are not stored.
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
}

// Healths shares between dispatchers which jobs and addresses are slow.
type Healths interface {
	// Healths reads the recently stored entries; the result may be slightly old.
	Healths(ctx context.Context) ([]core.Health, error)
	// PutHealths stores entries; condition of each: none with this Of is stored, or the stored At is earlier.
	PutHealths(ctx context.Context, list []core.Health) []error
}

// Uses shares between dispatchers how often each address of a job was chosen.
type Uses interface {
	// Uses reads the counts of jobs; the result may be slightly old.
	Uses(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Uses, error)
	// PutUses overwrites the stored counts and keeps them for two days.
	PutUses(ctx context.Context, list []core.Uses) []error
}

// A Ring takes requeued messages and checks.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Bury moves a message to the dead-letter queue with the reason.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// A Sender sends one run to one address.
type Sender interface {
	// Send returns when the answer has arrived, at the latest at the deadline of ctx. It never sends twice.
	Send(ctx context.Context, s SendRequest) Answer
	// Beat returns nil if an address is available. An error with core.CodeUnavailable means that this process could not
	// ask.
	Beat(ctx context.Context, app *core.App, address string) error
	// Idle reports whether an address neither runs nor queues a run of the job. If this is unknown, Idle returns an error,
	// with core.CodeUnavailable as for Beat.
	Idle(ctx context.Context, app *core.App, address string, job core.JobID) (bool, error)
}

// A SendRequest is the data of one send. Nothing modifies the values of its pointers.
type SendRequest struct {
	Run     *core.Run
	Job     *core.Job
	App     *core.App
	Address string
	Dialect string // dialect that the executor registered with; empty: unknown
	Params  string
	Source  string // source of the job's script; empty: no script
	// Traceparent identifies the trace span of this send, in the format of W3C Trace Context. Empty: no tracing.
	Traceparent string
}

// An AnswerKind is the conclusion from the response to a send.
type AnswerKind int

const (
	// AnswerUnconfirmed: there was no response after the first byte was sent, or an unreadable one. The executor may have the
	// run.
	AnswerUnconfirmed AnswerKind = iota
	// AnswerAccepted: the executor has the run and reports its result later.
	AnswerAccepted
	// AnswerRepeat: the executor has the run from an earlier send.
	AnswerRepeat
	// AnswerRefused: the executor does not have the run: it rejected the run, or the send failed before the first byte.
	AnswerRefused
	// AnswerBlocked: the executor rejected the run because of the job's block strategy.
	AnswerBlocked
	// AnswerBusy: the executor does not have the run, for a temporary reason.
	AnswerBusy
	// AnswerEnded: the response has the result of the run. Only `call:` executors respond this way.
	AnswerEnded
)

var answerNames = [...]string{AnswerUnconfirmed: "unconfirmed", AnswerAccepted: "accepted", AnswerRepeat: "repeat",
	AnswerRefused: "refused", AnswerBlocked: "blocked", AnswerBusy: "busy", AnswerEnded: "ended"}

// String returns the name of the kind for metrics and traces.
func (k AnswerKind) String() string { return answerNames[k] }

// An Answer is the result of one send.
type Answer struct {
	Kind     AnswerKind
	State    core.State // result of the run, for AnswerEnded
	Reason   core.Reason
	Code     int
	Message  string
	Took     time.Duration
	TimedOut bool   // whether the send got no response within its time limit, so the address is slow
	Ours     bool   // for AnswerBusy: whether this process lacks resources, so the address is not the cause
	Request  string // for AnswerAccepted: the executor's own ID of the run; empty: none
	Log      string // location of the run's log at the executor
	// RetryAfter is the retry delay that a failed run requests with AnswerEnded. 0: the job's setting applies. core.NoRetry
	// forbids a retry.
	RetryAfter time.Duration
}
