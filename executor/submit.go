package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickring/tickring/wire"
)

// Why [Executor.Submit] does not take a run.
var (
	// ErrBusy: the queue is full, or the executor stops. Sent again later, or
	// elsewhere, the run may be taken.
	ErrBusy = errors.New("the executor takes no run now")
	// ErrOpen: a run with this ID waits or runs here, or its result waits for
	// a server.
	ErrOpen = errors.New("the run is here already")
	// ErrReported: a run with this ID has ended here and its result was taken
	// by a server, or without servers by who submitted it.
	ErrReported = errors.New("the run has ended and is reported")
)

// A Result is how a run ended.
type Result struct {
	RunID   int64   `json:"logId,string"`
	Outcome Outcome `json:"code"`
	Message string  `json:"msg"`
	Data    string  `json:"tickringData,omitempty"` // see [Run.SetData]
	// RetryAfter is of a failure, in seconds: see [Snooze]; -1: see [Cancel].
	RetryAfter int64 `json:"tickringRetryAfter,omitempty"`
}

// A Submitted is a run on its way, taken by [Executor.Submit].
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

// Ended is closed when the run has ended.
func (s *Submitted) Ended() <-chan struct{} { return s.ended }

// Reported is closed when a server has taken the result. Without servers, and
// after Drop, it never is.
func (s *Submitted) Reported() <-chan struct{} { return s.reported }

// Result is how the run ended. Call it once Ended is closed.
func (s *Submitted) Result() Result { return s.result }

// Drop ends the run without telling anybody, because another executor has it
// or is to have it: its context ends with cause, and whatever its handler
// returns is forgotten. A run that has ended keeps its result, and false is
// returned.
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

// Kill ends the run as one that somebody killed, and reports it: its context
// ends, or it does not begin. A run that has ended is left alone.
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

// A SubmitOption says more about a run.
type SubmitOption func(*incoming)

// Redelivered says that the run was given to an executor before, which may
// have begun it: [Run.Again] is set.
func Redelivered() SubmitOption { return func(in *incoming) { in.again = true } }

// Submit takes a run that came by another way than HTTP; the order is the body
// that /run has. It returns once the run is journaled and queued. If ctx has a
// deadline the run has it too, beside its job's timeout; nothing else of ctx
// reaches the run.
//
// A run that calls what is not there is taken, and fails at once: whoever
// brought it could tell nobody.
func (e *Executor) Submit(ctx context.Context, order []byte, opts ...SubmitOption) (*Submitted, error) {
	in, err := decodeRun(order)
	if err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
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
		return nil, fmt.Errorf("%w: it is not started", ErrBusy)
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

// refuseSubmitted has a run that is not taken reported as failed.
func (e *Executor) refuseSubmitted(in *incoming, msg string) (*Submitted, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.known(in.LogID) { // it came twice at once
		return nil, ErrOpen
	}
	t := e.newTask(in, nil, key{}, false)
	t.ended = true
	t.cancel(nil)
	e.record(t, msg)
	return in.sub, nil
}

// Log reads whole lines of the log of a run that came by Submit, from line from (1 is the
// first), as many as fit into 500 KB: what /log answers. triggered is when it was sent, as
// its order says. next is the line to go on from, end says that no more will come.
func (e *Executor) Log(run int64, triggered time.Time, from int) (text string, next int, end bool) {
	e.mu.Lock()
	open := e.open[run] != nil
	e.mu.Unlock()
	from = min(max(from, 1), math.MaxInt32)
	res := e.logs.read(wire.LogRequest{LogID: run, LogTime: triggered.UnixMilli(), FromLine: int32(from)}, open)
	return res.Content, max(int(res.ToLine)+1, from), res.End || !open && int(res.ToLine) < from
}
