package dispatch

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
)

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
