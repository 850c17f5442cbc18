package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickring/tickring/wire"
)

// Errors of [Executor.Submit].
var (
	// ErrBusy means that the queue is full or the executor is not running. The run can be submitted later, or to another
	// executor.
	ErrBusy = errors.New("the executor accepts no runs at the moment")
	// ErrOpen means that a run with this ID is waiting or running, or that no server has accepted its result.
	ErrOpen = errors.New("the executor already has the run")
	// ErrReported means that a run with this ID has ended, and a server has accepted its result. Without servers, it means
	// that the caller of Submit received the result.
	ErrReported = errors.New("the run has ended, and its result was reported")
)

// A Result is the result of a run.
type Result struct {
	RunID   int64   `json:"logId,string"`
	Outcome Outcome `json:"code"`
	Message string  `json:"msg"`
	Data    string  `json:"tickringData,omitempty"` // data for child jobs, see [Run.SetData]
	// RetryAfter is the delay in seconds before the retry of a failed run, see [Snooze]. 0: the job's setting applies. -1: no
	// retry, see [Cancel].
	RetryAfter int64 `json:"tickringRetryAfter,omitempty"`
}

// A Submitted is a run that [Executor.Submit] accepted.
type Submitted struct {
	e        *Executor
	t        *task
	ended    chan struct{}
	reported chan struct{}

	// Of Executor.mu, and fixed once ended is closed.
	result  Result
	dropped bool
}

// RunID returns the scheduler's ID of the run.
func (s *Submitted) RunID() int64 { return s.t.wire.LogID }

// Ended returns a channel that is closed when the run has ended.
func (s *Submitted) Ended() <-chan struct{} { return s.ended }

// Reported returns a channel that is closed when a server has accepted the result. The channel is never closed if the executor
// has no servers, or after Drop.
func (s *Submitted) Reported() <-chan struct{} { return s.reported }

// Result returns the result of the run. Call it only after the channel of Ended is closed.
func (s *Submitted) Result() Result { return s.result }

// Drop ends the run without reporting it, because another executor has the run or will receive it. The run's context ends with
// cause, and the result of its handler is ignored. If the run has already ended with a result, Drop keeps the result and
// returns false.
func (s *Submitted) Drop(cause error) bool {
	e := s.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.t.recorded {
		return s.dropped
	}
	s.dropped = true
	if e.dequeue(s.t) {
		s.t.ended = true
		e.record(s.t, cause.Error())
	}
	s.t.cancel(cause)
	return true
}

// Kill ends the run and reports it as killed by a user. A waiting run does not start. The context of a running run is
// cancelled. If the run has ended, Kill does nothing.
func (s *Submitted) Kill() {
	e := s.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.t.recorded {
		return
	}
	if e.dequeue(s.t) {
		e.unbegun(s.t, reasonKill)
		return
	}
	e.cancel(s.t, reasonKill)
}

// A SubmitOption is an option of [Executor.Submit].
type SubmitOption func(*incoming)

// Redelivered sets [Run.Again]. Use it for a run that another executor received before and may have started.
func Redelivered() SubmitOption { return func(in *incoming) { in.again = true } }

// Submit accepts a run that did not arrive by HTTP. The parameter order has the format of the body of /run. Submit returns
// when the run is in the journal and in the queue. A deadline of ctx ends the run, in addition to the job's timeout. Apart
// from its deadline, ctx does not affect the run.
//
// A run that cannot be executed, for example because its handler is unknown, is accepted and fails immediately. The failure is
// reported as the result.
func (e *Executor) Submit(ctx context.Context, order []byte, opts ...SubmitOption) (*Submitted, error) {
	in, err := decodeRun(order)
	if err != nil {
		return nil, fmt.Errorf("read the run: %w", err)
	}
	s := &Submitted{e: e, ended: make(chan struct{}), reported: make(chan struct{})}
	in.sub = s
	in.until, _ = ctx.Deadline()
	for _, o := range opts {
		o(in)
	}
	e.mu.Lock()
	started := e.journal != nil
	open := started && (e.open[in.LogID] != nil || e.journal.has(in.LogID))
	past := e.past.has(in.LogID, time.Now())
	e.mu.Unlock()
	switch {
	case !started:
		return nil, fmt.Errorf("%w: the executor is not started", ErrBusy)
	case open:
		return nil, ErrOpen
	case past:
		return nil, ErrReported
	}
	code, msg := e.accept(in)
	switch code {
	case wire.CodeSuccess:
		return s, nil
	case wire.CodeBusy:
		return nil, fmt.Errorf("%w: %s", ErrBusy, msg)
	}
	return e.refuseSubmitted(in, msg)
}

// refuseSubmitted reports a run that cannot be accepted as failed.
func (e *Executor) refuseSubmitted(in *incoming, msg string) (*Submitted, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known(in.LogID) { // it was submitted twice at once
		return nil, ErrOpen
	}
	t := e.newTask(in, nil, key{}, false)
	t.ended = true
	t.cancel(nil)
	e.record(t, msg)
	return in.sub, nil
}

// Log returns lines of a submitted run's log. The parameter from is the number of the first line to return; the first
// line of the log is 1. Log returns at most 500 KB of complete lines. The parameter triggered is Run.TriggeredAt of the
// run. The result next is the line from which to continue. The result end reports whether no more lines follow.
func (e *Executor) Log(run int64, triggered time.Time, from int) (text string, next int, end bool) {
	e.mu.Lock()
	open := e.open[run] != nil
	e.mu.Unlock()
	from = min(max(from, 1), math.MaxInt32)
	res := e.logs.read(wire.LogRequest{LogID: run, LogTime: triggered.UnixMilli(), FromLine: int32(from)}, open)
	return res.Content, max(int(res.ToLine)+1, from), res.End || !open && int(res.ToLine) < from
}
