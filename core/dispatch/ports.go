package dispatch

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Store is what a dispatch reads and writes. All reads are strong; every write
// has its condition in its name or comment, and one of the four answers that
// core.ErrRefused and core.ErrThrottled tell apart.
type Store interface {
	// Jobs answers what others may have been answered too: it is read only. What it
	// cannot understand it names in core.Unreadable, beside the rest of the answer, as
	// Apps does in core.UnreadableApps.
	Jobs(ctx context.Context, jobs []core.JobID) (found map[core.JobID]*core.Job, unread []core.JobID, err error)
	Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error)
	Apps(ctx context.Context, names []string) (found map[string]core.App, unread []string, err error)
	// Executors reads those of each app that are stored, live or not.
	Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error)
	Global(ctx context.Context) (core.Global, error)

	// Create puts runs; condition of each: no item.
	Create(ctx context.Context, runs []core.Run) []error
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
	// PutRuns changes stored runs; condition of each as it says.
	PutRuns(ctx context.Context, puts []core.RunPut) []error

	// RunSpan reads the stored runs with first <= ID <= last in that order, or
	// downwards where first is the greater, at most limit.
	RunSpan(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error)

	// Permits reads items of permits; one that is not stored is not in the answer.
	Permits(ctx context.Context, names []string) (map[string]core.Permits, error)
	// PutPermits stores each; condition: the V that is stored is one lower.
	PutPermits(ctx context.Context, list []core.Permits) []error

	// Source reads the source of a script of a job by its hash; false: it is not kept.
	Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error)

	// PutLooks has the notices of jobs looked at later; one that is asked for is well.
	PutLooks(ctx context.Context, looks []ring.Look) error

	// PutJournal stores a journal; condition: none stored, or its V is lower.
	PutJournal(ctx context.Context, j core.Journal) error
	// Journals reads journals; one that is not stored is not in the answer.
	Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error)
}

// Healths are what dispatchers tell each other of slow jobs and addresses.
type Healths interface {
	// Healths reads those that were put recently; it may be a little behind.
	Healths(ctx context.Context) ([]core.Health, error)
	// PutHealths stores them; condition of each: none of the same Of is stored, or
	// its At is earlier.
	PutHealths(ctx context.Context, list []core.Health) []error
}

// Uses are what dispatchers tell each other of how often they chose each address of a job.
type Uses interface {
	// Uses reads those of jobs; it may be a little behind.
	Uses(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Uses, error)
	// PutUses stores them over what is there, for two days.
	PutUses(ctx context.Context, list []core.Uses) []error
}

// Ring takes what is put back, and checks.
type Ring interface {
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Bury puts a message among the dead letters with the reason.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// Sender sends one run to one address.
type Sender interface {
	// Send returns when the answer is there, or by the deadline of ctx. It
	// never sends twice.
	Send(ctx context.Context, s Shipment) Answer
	// Beat asks an address whether it is there; nil is yes, and an error of
	// core.CodeUnavailable that it could not be asked.
	Beat(ctx context.Context, app *core.App, address string) error
	// Idle asks an address whether it neither runs nor queues a run of the job; an
	// error when it cannot be known, of core.CodeUnavailable as of Beat.
	Idle(ctx context.Context, app *core.App, address string, job core.JobID) (bool, error)
}

// Shipment is one send. The pointers are read only.
type Shipment struct {
	Run     *core.Run
	Job     *core.Job
	App     *core.App
	Address string
	Dialect string // of the executor there, as its registration told; empty where it did not
	Params  string
	Source  string // of the job's script, where it has one
	// Traceparent is the span of this send, as W3C Trace Context writes it; empty
	// where no traces are made.
	Traceparent string
}

// AnswerKind is what a send proved.
type AnswerKind int

const (
	// AnswerUnconfirmed: no answer after the first byte, or garbage.
	AnswerUnconfirmed AnswerKind = iota
	// AnswerAccepted: the executor has the run; its end is reported later.
	AnswerAccepted
	// AnswerRepeat: "repeate trigger": it has the run from an earlier send.
	AnswerRepeat
	// AnswerRefused: proven not taken, or an error before the first byte.
	AnswerRefused
	// AnswerBlocked: refused by the job's own block strategy.
	AnswerBlocked
	// AnswerBusy: proven not taken, for a passing reason.
	AnswerBusy
	// AnswerEnded: the answer is the result (call:).
	AnswerEnded
)

var answerNames = [...]string{AnswerUnconfirmed: "unconfirmed", AnswerAccepted: "accepted", AnswerRepeat: "repeat",
	AnswerRefused: "refused", AnswerBlocked: "blocked", AnswerBusy: "busy", AnswerEnded: "ended"}

// String is its name in metrics and traces.
func (k AnswerKind) String() string { return answerNames[k] }

// Answer is what came back from a send.
type Answer struct {
	Kind     AnswerKind
	State    core.State // of AnswerEnded
	Reason   core.Reason
	Code     int
	Message  string
	Took     time.Duration
	TimedOut bool   // no answer within the time of a send: the address is slow
	Ours     bool   // of AnswerBusy: want of what a send takes here, which says nothing of the address
	Request  string // of AnswerAccepted: what the other side calls the run, empty if nothing
	Log      string // and where it writes
	// RetryAfter is of AnswerEnded, a failure: the word of who failed on its retry (finish.Result).
	RetryAfter time.Duration
}
