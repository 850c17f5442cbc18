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

// A Handler does the work of one run. nil is success; an error is a failure with its text as the message. [Run.SetResult]
// sets more. A panic is a failure with its stack in the run's log.
//
// ctx ends when the job's timeout passes, when the run is killed or replaced, and when a stopping executor has waited long
// enough; [context.Cause] returns the reason. The handler should then return soon: its result does not count.
type Handler func(ctx context.Context, run *Run) error

// Typed returns a Handler with JSON params. Empty params are the zero T. The run fails without a call of h if the params
// are not JSON, do not fit T, or have a field that T lacks.
func Typed[T any](h func(ctx context.Context, run *Run, params T) error) Handler {
	return func(ctx context.Context, run *Run) error {
		p, err := ParseParams[T](run)
		if err != nil {
			return err
		}
		return h(ctx, run, p)
	}
}

// ParseParams reads the params of a run as JSON, by the rules of [Typed].
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

// A HandlerOption changes how a handler is treated.
type HandlerOption func(*registered)

// Init sets f to be called before the first run of a job. It is called again after the job's worker has ended because it
// had no runs, or after the job changed to another handler and back. If f fails, the run fails; the next run calls f
// again. Each job has its own call.
func Init(f func(ctx context.Context) error) HandlerOption {
	return func(r *registered) { r.init = f }
}

// Destroy sets f to be called when a worker whose Init succeeded ends or changes to another handler, and none of its runs is
// still running. An error is logged.
func Destroy(f func(ctx context.Context) error) HandlerOption {
	return func(r *registered) { r.destroy = f }
}

// RerunAfterCrash reruns the runs that were waiting or running when the process died. They start from the beginning at the next
// start of the process, with [Run.Again] set. Without this option, they are reported as failed. The handler must be idempotent.
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

// A Mux holds handlers by name, and jobs declared in code. It may be filled until it is passed to [New].
type Mux struct {
	handlers map[string]*registered
	jobs     []Job
	errs     []error
}

// NewMux returns an empty Mux.
func NewMux() *Mux { return &Mux{handlers: map[string]*registered{}} }

// Register adds a handler under the name that jobs call it by. [New] returns an error for a nil handler, and for a name
// that is empty, has white space at its ends or is already registered.
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

// Names returns the names of the handlers, sorted.
func (m *Mux) Names() []string {
	names := make([]string, 0, len(m.handlers))
	for n := range m.handlers {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// An Outcome is how a run ended.
type Outcome int

// The outcomes.
const (
	Success Outcome = wire.CodeSuccess
	Failure Outcome = wire.CodeFailure
	Timeout Outcome = wire.CodeTimeout
)

// A Run is one run of a job, as its handler sees it. You can create a Run to test a handler; its log is discarded.
type Run struct {
	ID      int64  // the scheduler's ID of the run, its logId
	JobID   int32  // the job's number
	Handler string // the name that the job calls; empty for scripts
	Params  string

	// ScheduledAt is the scheduled time of the run, in UTC. A retry has the scheduled time of the first attempt; a manual run
	// has the second that it was requested for. It is zero if the scheduler does not send it, like xxl-job's admin.
	ScheduledAt time.Time
	// TriggeredAt is when the scheduler sent the run, by its clock.
	TriggeredAt time.Time

	// ShardIndex counts from 0 to ShardTotal-1 in a broadcast; otherwise they
	// are 0 and 1.
	ShardIndex, ShardTotal int

	// Attempt counts from 1 in a retry chain; 0 if the scheduler does not send it, like xxl-job's admin.
	Attempt int

	// Cause is why the run exists: "schedule", "misfire", "manual", "api", "parent", "retry", or a later addition.
	// It is empty if the scheduler does not send it, like xxl-job's admin.
	Cause string

	// Traceparent is the span that sent the run, in the format of W3C Trace Context: the parent for the handler's own spans.
	// It is empty if the scheduler creates no traces.
	Traceparent string

	// Timeout is the timeout of the job; 0 if the job has none. The context has the deadline.
	Timeout time.Duration

	// Again reports that another process had this run before and died, or released it.
	Again bool

	log     *runLog
	journal *journal // of the programs that it has started; nil: there is none

	mu      sync.Mutex
	outcome Outcome
	message string
	data    string
	logger  *slog.Logger
}

// Printf writes a line to the run's log, with the time before it.
func (r *Run) Printf(format string, args ...any) {
	r.log.line(fmt.Sprintf(format, args...))
}

// Logger writes to the run's log, in the form of [slog.TextHandler].
func (r *Run) Logger() *slog.Logger {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.logger == nil {
		r.logger = slog.New(slog.NewTextHandler(r.Output(), nil))
	}
	return r.logger
}

// Output writes unchanged bytes to the run's log, for example the output of another program. Several goroutines may use
// it.
func (r *Run) Output() io.Writer { return r.log }

// SetResult sets how the run ends if the handler returns nil; the last call counts. An error, a panic, a kill and the
// job's timeout take precedence. The message is truncated at 50,000 characters; schedulers keep 15,000.
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

// Snooze returns an error with which a handler postpones its run. The run fails as snoozed, and tickring retries it after
// d (1 s to 24 h, rounded up to a second). The job's retry settings do not matter, and no retry is used up; a retry chain
// has at most 101 attempts. xxl-job's admin treats it as any failure.
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

// Cancel returns an error with which a handler fails its run for good, with err as the reason: tickring does not retry it,
// regardless of the job's retry settings.
func Cancel(err error) error {
	if err == nil {
		err = errors.New("the handler cancelled the run")
	}
	return &retryError{wire.NeverRetry, err}
}

// MaxData is the maximum length in bytes of the data that a run passes on.
const MaxData = wire.MaxData

// SetData sets the data that the run passes to the runs that follow it: tickring replaces {{parent.data}} in the params of
// child jobs. The last call counts. The data goes with any result that the handler returns; a run that was killed or timed
// out passes nothing. xxl-job's admin ignores it.
//
// It returns an error, and keeps the earlier data, if data is longer than [MaxData] bytes or is not UTF-8.
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
