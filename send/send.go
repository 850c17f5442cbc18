// Package send sends one run to one address. The scheme of the address decides how. The package itself implements "http" (the
// xxl-job protocol) and "call" (plain HTTP endpoints). For "lambda" and "queue", it uses the senders in [Options], such as
// awssend or core/pullqueue. The package returns a conclusion from the response, and never sends a run twice. The package
// keeps no state of runs.
package send

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/wire"
	"github.com/tickring/tickring/wirehttp"
)

// Options of a Sender. A field with its zero value gets the default in its comment.
type Options struct {
	// Policy decides which IP addresses the sender may connect to. The setting App.Allow adds networks for one app.
	Policy safedial.Policy
	// Timeout is the timeout of one send in the xxl-job protocol, to a function or to a queue.
	Timeout time.Duration // default: 3 s
	// CallTimeout is the timeout of a call to a plain HTTP endpoint if its job has no timeout.
	CallTimeout time.Duration // default: 60 s
	// ReportURL is the base URL to which results are reported by `call:` executors that responded with 202, by functions and
	// by queue consumers.
	ReportURL string
	// ReportKey signs report URLs and the payloads of functions and queues; nil: nothing is signed.
	ReportKey Key
	Now       func() time.Time

	// Functions sends to `lambda:` addresses, SQS to SQS queues, and Queues to the queues of this server. A queue of this
	// server has a plain name instead of an ARN. If one of them is nil, its addresses are rejected.
	Functions Functions
	SQS       Queues
	Queues    Queues
	// Commands runs the commands of jobs on this machine; nil: commands are rejected.
	Commands Commands
}

// A Key returns the key that signs reports. A Key returns an error if the key cannot be read.
type Key func(context.Context) ([]byte, error)

// Functions invokes functions.
type Functions interface {
	// Invoke starts a function with a payload, and does not wait for its end. Invoke never starts a function twice.
	Invoke(ctx context.Context, function string, payload []byte) dispatch.Answer
	// Limit returns the maximum duration of an invocation.
	Limit(ctx context.Context, function string) (time.Duration, error)
	// Log reads lines of a run's log. The parameter from is the number of the first line to read; the first line of the
	// log is 1. The result next is the line from which to continue, and the result end reports whether the log is
	// complete.
	Log(ctx context.Context, function string, run *core.Run, from int) (text string, next int, end bool, err error)
}

type Queues interface {
	// Put adds a run to an app's queue. Put never adds a run twice.
	Put(ctx context.Context, app *core.App, queue string, run core.RunID, payload []byte) dispatch.Answer
	// Polled returns nil if the queue may have consumers.
	Polled(ctx context.Context, app *core.App, queue string) error
	// Idle reports whether the queue has no run of the job, waiting or running.
	Idle(ctx context.Context, app *core.App, queue string, job core.JobID) (bool, error)
}

// Commands runs commands of jobs on this machine.
type Commands interface {
	// Run queues a run. The parameter order has the format of the body of /run. Run never starts a run twice.
	Run(ctx context.Context, sh dispatch.SendRequest, order []byte) dispatch.Answer
	// Idle reports whether no command of the job is waiting or running.
	Idle(ctx context.Context, job core.JobID) (bool, error)
	// Kill ends those running commands of the job whose runs are recorded as killed.
	Kill(ctx context.Context, job core.JobID) error
	// Log reads lines of a run's log. The parameter from is the number of the first line to read; the first line of the
	// log is 1. The result next is the line from which to continue, and the result end reports whether the log is
	// complete.
	Log(run *core.Run, from int) (text string, next int, end bool)
}

// A Sender sends runs to executors, checks executors, and sends kill requests. A Sender implements dispatch.Sender,
// finish.Prober and operate.Killer.
type Sender struct {
	o    Options
	wire *wirehttp.Client
	call *caller

	mu    sync.Mutex
	paths map[string]wire.Dialect // the dialect proven by the last answer, by base URL, if two paths were tried

	parsed sync.Map // address: place
	places atomic.Int64
}

// maxConns is the maximum number of connections to one address.
const maxConns = 512

// maxPaths limits paths. A send to an address without an entry can cost two calls.
const maxPaths = 10_000

var (
	_ dispatch.Sender = (*Sender)(nil)
	_ finish.Prober   = (*Sender)(nil)
	_ operate.Killer  = (*Sender)(nil)
)

// New returns a Sender. Call Close to close its connections.
func New(o Options) *Sender {
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sender{
		o:     o,
		wire:  wirehttp.New(wirehttp.ClientOptions{Policy: o.Policy, Timeout: o.Timeout, MaxConnsPerHost: maxConns}),
		call:  newCaller(o),
		paths: map[string]wire.Dialect{},
	}
}

func (s *Sender) Close() {
	s.wire.Close()
	s.call.close()
}

func allowing(ctx context.Context, app *core.App) context.Context {
	if len(app.Allow) == 0 {
		return ctx
	}
	return safedial.WithAllow(ctx, app.Allow)
}

func auth(app *core.App) wirehttp.Auth { return wirehttp.Auth{Token: app.Token, App: app.Name} }

func (s *Sender) Send(ctx context.Context, sh dispatch.SendRequest) dispatch.Answer {
	scheme, target, err := s.place(sh.Address)
	if err != nil {
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: err.Error()}
	}
	if scheme == core.SchemeLocal {
		return s.command(ctx, sh)
	}
	ctx = allowing(ctx, sh.App)
	if scheme == core.SchemeWire {
		return s.run(ctx, target, sh)
	}
	if script := sh.Job.Def.Script; script != nil {
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: core.NoScript(string(script.Kind), sh.Address).Reason.String()}
	}
	key, err := s.signs(ctx)
	if err != nil {
		return dispatch.Answer{Kind: dispatch.AnswerBusy, Message: err.Error()}
	}
	if scheme == core.SchemeCall {
		return s.call.send(ctx, target, sh, key)
	}
	return s.hand(ctx, scheme, target, sh, key)
}

// run sends a run over the xxl-job protocol: at the path where this executor accepted the last one, or else at the path of the
// dialect in which it registered.
func (s *Sender) run(ctx context.Context, target string, sh dispatch.SendRequest) dispatch.Answer {
	r, a := order(sh), auth(sh.App)
	s.mu.Lock()
	a.Dialect = cmp.Or(s.paths[target], wire.ParseDialect(sh.Dialect))
	s.mu.Unlock()
	o := s.wire.Run(ctx, target, a, &r)
	if o.Dialect != wire.DialectUnknown {
		s.mu.Lock()
		if len(s.paths) >= maxPaths {
			clear(s.paths)
		}
		s.paths[target] = o.Dialect
		s.mu.Unlock()
	}
	return answerOf(o)
}

// signs returns the key that signs reports, or nil if there is none. It waits until ctx ends, because a claim without a send is
// wasted.
func (s *Sender) signs(ctx context.Context) ([]byte, error) {
	if s.o.ReportKey == nil {
		return nil, nil
	}
	key, err := s.o.ReportKey(ctx)
	if err != nil {
		return nil, fmt.Errorf("not sent, because the report cannot be signed yet: %w", err)
	}
	return key, nil
}

// order converts a shipment to the run of the xxl-job protocol.
func order(sh dispatch.SendRequest) wire.Run {
	r := wire.Run{
		JobID: int32(sh.Job.Def.ID), Handler: sh.Job.Def.Handler, Params: sh.Params,
		BlockStrategy: blockName(sh.Job.Def.Block), Timeout: int32(sh.Job.Def.Timeout / time.Second),
		LogID: int64(sh.Run.ID), LogTime: core.Millis(sh.Run.SentAt), GlueType: wire.GlueBean,
		GlueUpdated: core.Millis(sh.Job.Def.Created), About: about(sh),
		BroadcastIndex: int32(sh.Run.Shard.Index), BroadcastTotal: int32(max(sh.Run.Shard.Total, 1)),
	}
	if s := sh.Job.Def.Script; s != nil {
		r.GlueType, r.GlueSource, r.GlueUpdated = glueTypes[s.Kind], sh.Source, s.Rev
	}
	return r
}

// glueTypes are the protocol's names for the kinds of scripts.
var glueTypes = map[core.ScriptKind]string{
	core.ScriptShell: wire.GlueShell, core.ScriptPython: wire.GluePython, core.ScriptNodeJS: wire.GlueNodeJS, core.ScriptPHP: wire.GluePHP,
	core.ScriptPowerShell: wire.GluePowerShell, core.ScriptGroovy: wire.GlueGroovy,
}

// about returns the facts about a run that tickring adds to the protocol.
func about(sh dispatch.SendRequest) wire.About {
	r := sh.Run
	return wire.About{Attempt: r.Attempt, Instant: int64(r.At), Cause: string(r.Cause), Traceparent: sh.Traceparent}
}

func blockName(b core.Block) string {
	switch b {
	case core.BlockDiscardLater:
		return "DISCARD_LATER"
	case core.BlockCoverEarly:
		return "COVER_EARLY"
	}
	return wire.BlockSerial
}

func answerOf(o wirehttp.Outcome) dispatch.Answer {
	a := dispatch.Answer{Code: o.Code, Message: o.Msg, Took: o.Took}
	if a.Message == "" && o.Err != nil {
		a.Message = o.Err.Error()
	}
	switch o.Kind {
	case wirehttp.Accepted:
		a.Kind = dispatch.AnswerAccepted
	case wirehttp.Repeat:
		a.Kind = dispatch.AnswerRepeat
	case wirehttp.RefusedPassing:
		a.Kind, a.Ours = dispatch.AnswerBusy, safedial.OwnWant(o.Err)
	case wirehttp.BeforeFirstByte:
		a.Kind = dispatch.AnswerRefused
	case wirehttp.Refused:
		a.Kind = dispatch.AnswerRefused
		if o.Verdict == wire.VerdictBlockStrategy {
			a.Kind = dispatch.AnswerBlocked
		}
	default:
		a.Kind = dispatch.AnswerUnconfirmed
		if a.TimedOut = errors.Is(o.Err, context.DeadlineExceeded); o.Err != nil {
			a.Message = o.Err.Error()
		}
	}
	return a
}

// unasked marks an error as unavailable if a local shortage prevented the request, because it proves nothing about the address.
func unasked(err error) error {
	if !safedial.OwnWant(err) {
		return err
	}
	return &core.Error{Code: core.CodeUnavailable, Reason: core.Say("request not sent: %v", err), Err: err}
}

// errOf is nil for an accepted call, otherwise why it was not.
func errOf(o wirehttp.Outcome) error {
	switch {
	case o.Kind == wirehttp.Accepted:
		return nil
	case o.Msg != "":
		return fmt.Errorf("answered %d: %s", o.Code, wire.TruncateMessage(o.Msg))
	case o.Err != nil:
		return unasked(o.Err)
	}
	return fmt.Errorf("answered %d", o.Code)
}

// AskClock checks whether an address is available, as Beat does. For an executor of the xxl-job protocol, it also returns the
// executor's clock if the response has the time.
func (s *Sender) AskClock(ctx context.Context, app *core.App, address string) (core.Clock, error) {
	scheme, target, err := s.place(address)
	if err != nil {
		return core.Clock{}, err
	}
	if scheme != core.SchemeWire {
		return core.Clock{}, s.Beat(ctx, app, address)
	}
	begun := time.Now()
	o := s.wire.Beat(allowing(ctx, app), target, auth(app))
	return core.ClockOf(o.Date, begun, o.Took), errOf(o)
}

// Beat returns nil if an address is available. A `call:` address is available if it accepts a connection, and a queue if it
// may have consumers. A function always counts as available. The error has the code core.CodeUnavailable if this server could
// not send the check.
func (s *Sender) Beat(ctx context.Context, app *core.App, address string) error {
	scheme, target, err := s.place(address)
	if err != nil {
		return err
	}
	ctx = allowing(ctx, app)
	switch scheme {
	case core.SchemeLocal:
		return nil
	case core.SchemeWire:
		return errOf(s.wire.Beat(ctx, target, auth(app)))
	case core.SchemeCall:
		return unasked(s.call.reach(ctx, target))
	}
	if scheme == core.SchemeLambda {
		return nil
	}
	return s.queuesOf(target).Polled(ctx, app, target)
}

// Idle reports whether an executor has no running or queued run of the job.
func (s *Sender) Idle(ctx context.Context, app *core.App, address string, job core.JobID) (bool, error) {
	scheme, target, err := s.place(address)
	if err != nil {
		return false, err
	}
	switch scheme {
	case core.SchemeWire:
	case core.SchemeLocal:
		return s.o.Commands.Idle(ctx, job)
	case core.SchemeQueue:
		return s.queuesOf(target).Idle(ctx, app, target, job)
	default:
		return false, fmt.Errorf("%s executors cannot report running jobs", scheme)
	}
	o := s.wire.IdleBeat(allowing(ctx, app), target, auth(app), int32(job))
	switch o.Kind {
	case wirehttp.Accepted:
		return true, nil
	case wirehttp.Refused:
		return false, nil
	}
	return false, errOf(o)
}

// Kill asks an executor to end all runs of a job.
func (s *Sender) Kill(ctx context.Context, app *core.App, address string, job core.JobID) error {
	scheme, target, err := s.parse(address)
	if err != nil {
		return err
	}
	switch scheme {
	case core.SchemeWire:
	case core.SchemeLocal:
		if _, _, err := s.place(address); err != nil {
			return err
		}
		return s.o.Commands.Kill(ctx, job)
	case core.SchemeQueue:
		return nil // consumers check the record before and during a run
	case core.SchemeLambda:
		return core.Errorf(core.CodeRefused,
			"a Lambda invocation cannot be stopped from outside: the kill is recorded and takes effect when the function fails or times out")
	default:
		return core.Errorf(core.CodeRefused,
			"'%s:' executors cannot be asked to stop a run; the kill is recorded and takes effect when the run fails", scheme)
	}
	return errOf(s.wire.Kill(allowing(ctx, app), target, auth(app), int32(job)))
}

// Log reads lines of a run's log from its executor. The parameter from is the number of the first line to read; the first
// line of the log is 1. The result next is the line from which to continue, and the result end reports whether the log is
// complete. An xxl-job executor returns all remaining lines. If its response is too large, the error has the code
// core.CodeTooLarge.
func (s *Sender) Log(ctx context.Context, app *core.App, run *core.Run, from int) (text string, next int, end bool, err error) {
	scheme, target, err := s.parse(run.Address)
	if err != nil || run.SentAt.IsZero() {
		return "", from, true, core.Errorf(core.CodeNotFound, "run %d has no log, because it was not sent to an executor", run.ID)
	}
	if scheme == core.SchemeLambda {
		if err := s.Reachable(run.Address); err != nil {
			return "", from, true, core.Errorf(core.CodeUnavailable, "the log of run %d is in CloudWatch Logs: %v", run.ID, err)
		}
		return s.o.Functions.Log(ctx, target, run, max(from, 1))
	}
	if scheme == core.SchemeLocal && s.o.Commands != nil {
		if text, next, end = s.o.Commands.Log(run, max(from, 1)); text != "" || from > 1 || run.State.Open() {
			return text, next, end && !run.State.Open(), nil
		}
	}
	if scheme == core.SchemeLocal && !run.State.Open() && from <= 1 { // it is on the disk no more: words in its place, as executors have
		return strings.TrimRight(run.Message, "\n") + "\n", max(from, 1), true, nil
	}
	if scheme != core.SchemeWire {
		if run.State.Open() {
			return "", from, false, nil
		}
		if from > 1 {
			return "", from, true, nil
		}
		return strings.TrimRight(run.Message, "\n") + "\n", 2, true, nil
	}
	if from > math.MaxInt32 { // executors count lines as int32
		return "", from, !run.State.Open(), nil
	}
	res, o := s.wire.Log(allowing(ctx, app), target, auth(app), wire.LogRequest{LogID: int64(run.ID), LogTime: core.Millis(run.SentAt),
		FromLine: int32(max(from, 1))})
	if o.Kind != wirehttp.Accepted {
		if errors.Is(o.Err, wirehttp.ErrTooLarge) {
			return "", from, false, core.Errorf(core.CodeTooLarge, "the executor at %s returned more of the log than one answer can hold: %v",
				run.Address, o.Err)
		}
		return "", from, false, core.Errorf(core.CodeUnavailable, "the executor at %s did not return the log: %v", run.Address, errOf(o))
	}
	next = min(max(int(res.ToLine)+1, from), math.MaxInt32)
	return res.Content, next, res.End || !run.State.Open() && int(res.ToLine) < from, nil
}
