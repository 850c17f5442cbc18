package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/wire"
)

// A Handler executes one run. The run succeeds if it returns nil, and fails with the error's text as the message if it returns
// an error. [Run.SetResult] can set another result. If the handler panics, the run fails, and its log has the stack.
//
// The executor cancels ctx when the job's timeout has passed, the run is killed or replaced, or a stopping executor has waited
// for StopGrace. [context.Cause] returns the reason. The handler should then return soon, because its result is ignored.
type Handler func(ctx context.Context, run *Run) error

// Typed returns a Handler that decodes a run's params from JSON and calls h. Empty params are decoded as the zero value of T.
// The run fails, without a call of h, if the params are not JSON, do not fit T, or have a field that T lacks.
func Typed[T any](h func(ctx context.Context, run *Run, params T) error) Handler {
	return func(ctx context.Context, run *Run) error {
		p, err := ParseParams[T](run)
		if err != nil {
			return err
		}
		return h(ctx, run, p)
	}
}

// ParseParams decodes the params of a run from JSON, by the rules of [Typed].
func ParseParams[T any](run *Run) (T, error) {
	var p T
	if strings.TrimSpace(run.Params) == "" {
		return p, nil
	}
	d := json.NewDecoder(strings.NewReader(run.Params))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, fmt.Errorf("params: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("params: unexpected data after the JSON value")
	}
	return p, nil
}

// A HandlerOption is an option of [Mux.Register].
type HandlerOption func(*registered)

// Init sets f to be called before the first run of each job of the handler. If f fails, the run fails, and the next run calls
// f again. f is also called again if the job was idle for [Options].Idle, or if the job changed to another handler and back.
func Init(f func(ctx context.Context) error) HandlerOption {
	return func(r *registered) { r.init = f }
}

// Destroy sets f to be called after the last run of a job whose Init function succeeded. This happens when the job has been
// idle for [Options].Idle, changes to another handler, or the executor stops. The executor does not call f while a run of the
// job is running. Errors of f are logged.
func Destroy(f func(ctx context.Context) error) HandlerOption {
	return func(r *registered) { r.destroy = f }
}

// RerunAfterCrash makes the executor run a handler's unfinished runs again if the process died. At the next start of the
// process, they start from the beginning, with [Run.Again] set. Without this option, they are reported as failed. The handler
// must be idempotent.
func RerunAfterCrash() HandlerOption {
	return func(r *registered) { r.again = true }
}

type registered struct {
	name    string
	handle  Handler
	init    func(context.Context) error
	destroy func(context.Context) error
	again   bool
}

// A Mux holds handlers by name, and jobs declared in code. Do not change it after you passed it to [New].
type Mux struct {
	handlers map[string]*registered
	jobs     []Job
	errs     []error
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{handlers: map[string]*registered{}} }

// Register adds h under a name, which jobs use to select their handler. [New] returns an error if h is nil, or if the name is
// empty, starts or ends with white space, or is already registered.
func (m *Mux) Register(name string, h Handler, opts ...HandlerOption) {
	switch {
	case name == "" || name != strings.TrimSpace(name):
		m.errs = append(m.errs, fmt.Errorf("handler name %q is empty, or starts or ends with white space", name))
		return
	case h == nil:
		m.errs = append(m.errs, fmt.Errorf("handler %q is nil", name))
		return
	case m.handlers[name] != nil:
		m.errs = append(m.errs, fmt.Errorf("handler %q is registered twice", name))
		return
	}
	r := &registered{name: name, handle: h}
	for _, o := range opts {
		o(r)
	}
	m.handlers[name] = r
}

// Names returns the names of the registered handlers, sorted.
func (m *Mux) Names() []string {
	names := make([]string, 0, len(m.handlers))
	for n := range m.handlers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// An Outcome is the result code of a run.
type Outcome int

// The outcomes.
const (
	Success Outcome = wire.CodeSuccess
	Failure Outcome = wire.CodeFailure
	Timeout Outcome = wire.CodeTimeout
)

// A Run is one run of a job, as passed to its handler. You can create a Run to test a handler; its log is then discarded.
type Run struct {
	ID      int64  // the scheduler's ID of the run (xxl-job: logId)
	JobID   int32  // the scheduler's ID of the job
	Handler string // the name of the handler; empty for scripts
	Params  string

	// ScheduledAt is the scheduled time of the run, in UTC. A retry has the scheduled time of its first attempt. A manual run
	// has the time for which a user requested the run. ScheduledAt is zero if the scheduler does not send it; xxl-job's admin
	// does not.
	ScheduledAt time.Time
	// TriggeredAt is when the scheduler sent the run, by the scheduler's clock.
	TriggeredAt time.Time

	// ShardIndex is the number of the shard in a broadcast, from 0 to ShardTotal-1. In other runs, ShardIndex is 0 and
	// ShardTotal is 1.
	ShardIndex, ShardTotal int

	// Attempt is the number of the attempt in the run's retry chain; the first attempt is 1. Attempt is 0 if the scheduler
	// does not send it; xxl-job's admin does not.
	Attempt int

	// Cause is why the run exists: "schedule", "misfire", "manual", "api", "parent", "retry", or another cause of a newer
	// server. Cause is empty if the scheduler does not send it; xxl-job's admin does not.
	Cause string

	// Traceparent is the trace span that sent the run, in the format of W3C Trace Context. Use it as the parent of the
	// handler's spans. Traceparent is empty if the scheduler creates no traces.
	Traceparent string

	// Timeout is the timeout of the job; 0 if the job has none. The handler's context has the matching deadline.
	Timeout time.Duration

	// Again reports whether the run may have started before: in a process that died, or in one that released the run.
	Again bool

	log     *runLog
	journal *journal // of the programs that it has started; nil: there is none

	mu      sync.Mutex
	outcome Outcome
	message string
	data    string
	logger  *slog.Logger
}

// Printf writes a line to the run's log, after the current time.
func (r *Run) Printf(format string, args ...any) {
	r.log.line(fmt.Sprintf(format, args...))
}

// Logger returns a logger that writes to the run's log, in the format of [slog.TextHandler].
func (r *Run) Logger() *slog.Logger {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logger == nil {
		r.logger = slog.New(slog.NewTextHandler(r.Output(), nil))
	}
	return r.logger
}

// Output returns a writer that appends bytes unchanged to the run's log, such as the output of another program. The writer is
// safe for concurrent use.
func (r *Run) Output() io.Writer { return r.log }

// SetResult sets the result of the run if the handler returns nil. The last call takes precedence. A returned error, a panic,
// a kill and the job's timeout override it. The message is truncated at 50,000 characters; schedulers store at most 15,000.
func (r *Run) SetResult(o Outcome, message string) {
	r.mu.Lock()
	r.outcome, r.message = o, message
	r.mu.Unlock()
}

// A retryError is the handler's decision about its retry: after a number of seconds, or never.
type retryError struct {
	after int64
	err   error
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

// Snooze returns an error with which a handler postpones its run. The run fails as snoozed, and tickring retries it after d,
// rounded up to a second. d is 1 s to 24 h. The retry does not count as one of the job's retries, and ignores the job's retry
// delay. A retry chain has at most 101 attempts, including the first. xxl-job's admin treats the run as failed.
func Snooze(d time.Duration) error {
	if d <= 0 || d > 24*time.Hour {
		return fmt.Errorf("the snooze duration is %s; allowed: 1s to 24h", short(d))
	}
	return &retryError{int64((d + time.Second - 1) / time.Second), fmt.Errorf("snoozed for %s", short(d))}
}

// short formats d without zero units: 1h, not 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	for _, unit := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, unit) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Cancel returns an error with which a handler fails its run without a retry, for the reason err. The error overrides the
// job's retry settings.
func Cancel(err error) error {
	if err == nil {
		err = errors.New("the handler cancelled the run")
	}
	return &retryError{wire.NeverRetry, err}
}

// MaxData is the maximum length in bytes of the data that [Run.SetData] accepts.
const MaxData = wire.MaxData

// SetData sets the data for child jobs of the run's job: tickring replaces {{parent.data}} in their params by it. The last
// call takes precedence. The data is sent whether the run succeeds or fails, but not if the run is killed or times out.
// xxl-job's admin ignores the data.
//
// SetData returns an error and keeps the previous data if data is longer than [MaxData] bytes or is not UTF-8.
func (r *Run) SetData(data string) error {
	switch {
	case len(data) > MaxData:
		return fmt.Errorf("the data has %d bytes; at most %d are allowed", len(data), MaxData)
	case !utf8.ValidString(data):
		return errors.New("the data is not UTF-8")
	}
	r.mu.Lock()
	r.data = data
	r.mu.Unlock()
	return nil
}

// epoch is the start of the time in tickring's run IDs.
var epoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// An incoming run is a run as a scheduler sent it.
type incoming struct {
	wire.Run

	// Set by Submit.
	sub   *Submitted
	until time.Time // zero: no deadline
	again bool

	groups []group // from the journal: programs that it has started
}

// decodeRun reads a run as a queue or the journal has it, or the body of /run.
func decodeRun(order []byte) (*incoming, error) {
	w, err := wire.DecodeRun(order)
	if err != nil {
		return nil, err
	}
	return &incoming{Run: w}, nil
}

// instant returns the scheduled time of the run, in seconds since the Unix epoch; 0 if it is unknown. An old server does
// not send the header, but the ID of a scheduled run is jobId<<32 | seconds. An ID with bit 31 set is a counter instead.
func (in *incoming) instant() int64 {
	switch {
	case in.About.Instant > 0:
		return in.About.Instant
	case in.LogID>>32 == int64(in.JobID) && in.LogID&(1<<31) == 0:
		return epoch.Unix() + in.LogID&(1<<31-1)
	}
	return 0
}

func newRun(w *incoming, log *runLog, again bool) *Run {
	r := &Run{
		ID: w.LogID, JobID: w.JobID, Handler: w.Handler, Params: w.Params,
		ShardIndex: int(w.BroadcastIndex), ShardTotal: max(int(w.BroadcastTotal), 1),
		Attempt: w.About.Attempt, Cause: w.About.Cause, Traceparent: w.About.Traceparent,
		Timeout: time.Duration(max(w.Timeout, 0)) * time.Second, Again: again, log: log,
	}
	if w.LogTime > 0 {
		r.TriggeredAt = time.UnixMilli(w.LogTime).UTC()
	}
	if s := w.instant(); s > 0 {
		r.ScheduledAt = time.Unix(s, 0).UTC()
	}
	return r
}

// truncateMessage bounds a result's message as executors do.
func truncateMessage(s string) string {
	const most = 50_000
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i]
		}
		n++
	}
	return s
}

// oneLine limits a text to one line of a log.
func oneLine(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(lineBreaks.Replace(s), "\uFFFD")
}

var lineBreaks = strings.NewReplacer("\r", `\r`, "\n", `\n`)
