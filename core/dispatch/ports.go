package dispatch

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// A Store has all data that a dispatcher reads and writes. All reads are strongly consistent. Each write has a condition,
// which its comment or its argument names. A write returns nil, core.ErrRefused, core.ErrThrottled, or another error, after
// which its result is unknown.
type Store interface {
	// Jobs reads jobs. Callers must not modify the jobs, because they are shared. Jobs that cannot be decoded are in the
	// error, a core.Unreadable, and all others are still returned. Apps returns such apps in a core.UnreadableApps.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	// Executors reads all stored executors of each app, including expired ones.
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)

	// Create stores new runs, each on the condition that it is not stored.
	Create(ctx context.Context, runs []core.Run) []error
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// PutRuns changes stored runs, each on the condition in its RunPut.
	PutRuns(ctx context.Context, puts []core.RunPut) []error

	// RunsByID reads at most limit stored runs with IDs from first to last, in ascending order. If first is greater than last,
	// the IDs are from last to first, in descending order.
	RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)

	// Permits reads the items of concurrency limits by name. The result omits items that are not stored.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// PutPermits stores items of concurrency limits, each on the condition that the stored version V is one lower.
	PutPermits(ctx context.Context, list []core.Permits) []error

	// Source reads the source of a job's script by its hash. The result found is false if the source is not stored.
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)

	// PutLooks schedules checks of the notifications of jobs. Scheduling a check again has no effect.
	PutLooks(ctx context.Context, looks []ring.CheckRequest) error

	// PutJournal stores a journal, on the condition that none with its key is stored, or that the stored version V is lower.
	PutJournal(ctx context.Context, j core.Journal) error
	// Journals reads journals by key. The result omits journals that are not stored.
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
}

// Healths shares between dispatchers which jobs and addresses are slow.
type Healths interface {
	// Healths reads the entries that were stored recently. The result may be slightly out of date.
	Healths(ctx context.Context) ([]core.Health, error)
	// PutHealths stores entries, each on the condition that no entry with its Of is stored, or that the stored At is earlier.
	PutHealths(ctx context.Context, list []core.Health) []error
}

// Uses shares between dispatchers how often each address of a job was chosen.
type Uses interface {
	// Uses reads the counts of jobs. The result may be slightly out of date.
	Uses(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Uses, error)
	// PutUses replaces the stored counts of jobs, and keeps the new counts for two days.
	PutUses(ctx context.Context, list []core.Uses) []error
}

// A Ring enqueues messages on the delay queue.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Bury moves a message to the dead-letter queue, with a reason.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// A Sender sends one run to one address.
type Sender interface {
	// Send sends a run, and returns when the response has arrived or the deadline of ctx has passed. Send never sends the run
	// twice.
	Send(ctx context.Context, s SendRequest) Answer
	// Beat returns nil if an address is available. An error with core.CodeUnavailable means that this process could not send
	// the check.
	Beat(ctx context.Context, app *core.App, address string) error
	// Idle reports whether the executor at an address has no running or queued run of the job. Idle returns an error if this
	// is unknown. An error with core.CodeUnavailable means that this process could not send the question.
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
