package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickring/tickring/wire"
)

// Reasons why [Executor.Submit] rejects a run.
var (
	// ErrBusy: the queue is full, or the executor stops. The run may be accepted later, or by another executor.
	ErrBusy = errors.New("the executor accepts no runs at the moment")
	// ErrOpen: a run with this ID waits or runs here, or its result waits for a server.
	ErrOpen = errors.New("the executor already has the run")
	// ErrReported: a run with this ID has ended here, and a server (without servers: the caller of Submit) took its result.
	ErrReported = errors.New("the run has ended, and its result was reported")
)

// A Result is the end of a run.
type Result struct {
	RunID   int64   `json:"logId,string"`
	Outcome Outcome `json:"code"`
	Message string  `json:"msg"`
	Data    string  `json:"tickringData,omitempty"` // see [Run.SetData]
	// RetryAfter is the delay in seconds before the retry of a failed run, see [Snooze]; -1: no retry, see [Cancel].
	RetryAfter int64 `json:"tickringRetryAfter,omitempty"`
}

// A Submitted is a run that [Executor.Submit] has accepted.
type Submitted struct {
	e        *Executor
	t        *task
	ended    chan struct{}
	reported chan struct{}

	// Of Executor.mu, and fixed once ended is closed.
	result  Result
	dropped bool
}

// RunID is the scheduler's ID of the run.
func (s *Submitted) RunID() int64 { return s.t.wire.LogID }

// Ended returns a channel that is closed when the run has ended.
func (s *Submitted) Ended() <-chan struct{} { return s.ended }

// Reported returns a channel that is closed when a server has taken the result. Without servers, and after Drop, it is never
// closed.
func (s *Submitted) Reported() <-chan struct{} { return s.reported }

// Result returns the end of the run. Call it after Ended is closed.
func (s *Submitted) Result() Result { return s.result }

// Drop ends the run without a report, because another executor has it or gets it: its context ends with cause, and the
// result of its handler is ignored. A run that has ended keeps its result, and Drop returns false.
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

// Kill ends the run as killed by a user, and reports it: its context ends, or it does not start. A run that has ended is
// left alone.
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

// A SubmitOption adds facts about a run.
type SubmitOption func(*incoming)

// Redelivered marks a run that an executor got before and may have started: it sets [Run.Again].
func Redelivered() SubmitOption { return func(in *incoming) { in.again = true } }

// Submit accepts a run that did not come by HTTP; order is a body as for /run. It returns once the run is journaled and
// queued. If ctx has a deadline, it also applies to the run, beside its job's timeout; nothing else of ctx reaches the
// run.
//
// A run with an unknown handler is accepted, and fails at once, because its caller could not report the rejection.
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

// Log reads the log of a run of Submit, as /log does: as many whole lines as fit into 500 KB, from line from on (1 is the
// first). triggered is when the run was sent, according to its order. next is the line to continue from; end reports that
// no more lines follow.
func (e *Executor) Log(run int64, triggered time.Time, from int) (text string, next int, end bool) {
	e.mu.Lock()
	open := e.open[run] != nil
	e.mu.Unlock()
	from = min(max(from, 1), math.MaxInt32)
	res := e.logs.read(wire.LogRequest{LogID: run, LogTime: triggered.UnixMilli(), FromLine: int32(from)}, open)
	return res.Content, max(int(res.ToLine)+1, from), res.End || !open && int(res.ToLine) < from
}
