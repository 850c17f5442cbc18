package wiretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/wire"
)

// Options of an executor.
type Options struct {
	// Dialect it speaks. Unknown counts as B.
	Dialect wire.Dialect
	// App is its appname. Empty: "demo".
	App string
	// Token is sent with what it sends, and demanded of its callers unless
	// empty.
	Token string
	// Admins are the base URLs of admins, with or without /xxl-job-admin at
	// their end. Java tries them in order until one replies 200, Go only the
	// first. See also SetAdmins.
	Admins []string
	// Handlers that it knows; empty: every handler.
	Handlers []string
	// Script says what to do with a run, and wins over the native behaviour;
	// the runs before it are counted in nth, from 0. See also Next, which wins
	// over it. It must not call the executor.
	Script func(r wire.Run, nth int) Action
}

// A Received is one request that the executor got.
type Received struct {
	Path  string
	Run   wire.Run // of /run and /trigger
	JobID int32    // of /run, /trigger, /kill and /idleBeat
	LogID int64    // of /run, /trigger and /log
	Token string
	App   string // of the header
	At    time.Time
}

// An Executor is a fake executor. Its methods may be used by any number of
// goroutines.
type Executor struct {
	opts Options
	addr string // of the listener, kept over Down and Up
	ctx  context.Context
	stop context.CancelFunc
	http *http.Client
	wg   sync.WaitGroup // the sender of callbacks, and the loop of beats

	mu       sync.Mutex
	server   *http.Server  // nil while down
	served   chan struct{} // closed when server has ended
	received []Received
	next     []Action
	runs     int // received at /run
	jobs     map[int32]*job
	times    map[int64]int64 // LogTime by log ID
	logs     map[int64][]string
	admins   []string
	outbox   []wire.CallbackItem // to be called back
	sending  bool                // the sender is at work on what it took
	later    int                 // runs that are accepted and about to be finished
	failed   []wire.CallbackItem // refused or not delivered: Java keeps them
	beating  context.CancelFunc  // nil: no loop
	beatDone chan struct{}
	changed  chan struct{} // closed and made anew at every change
}

// job is what the executor does for one job: the run at work and those behind
// it.
type job struct {
	current int64 // log ID; 0: idle
	queue   []int64
}

// Start starts an executor that ends with the test.
func Start(tb testing.TB, o Options) *Executor {
	tb.Helper()
	e, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(e.Close)
	return e
}

// New starts an executor on a free port of loopback. It must be closed.
func New(o Options) (*Executor, error) {
	if o.Dialect == wire.DialectUnknown {
		o.Dialect = wire.DialectB
	}
	if o.App == "" {
		o.App = "demo"
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Executor{
		opts: o, addr: "127.0.0.1:0", ctx: ctx, stop: stop, admins: slices.Clone(o.Admins),
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}, Timeout: 10 * time.Second},
		jobs: map[int32]*job{}, times: map[int64]int64{}, logs: map[int64][]string{}, changed: make(chan struct{}),
	}
	if err := e.Up(); err != nil {
		stop()
		return nil, err
	}
	e.wg.Go(e.send)
	return e, nil
}

// Close ends the executor without a word to the admins: hanging calls are cut,
// callbacks not sent are lost.
func (e *Executor) Close() {
	e.stop()
	e.StopBeating()
	e.Down()
	e.wg.Wait()
	e.http.CloseIdleConnections()
}

// Down makes the executor unreachable: its port refuses connections and those
// open are cut. What it does goes on.
func (e *Executor) Down() {
	e.mu.Lock()
	server, served := e.server, e.served
	e.server = nil
	e.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close()
	<-served
}

// Up makes it reachable again, at the same address.
func (e *Executor) Up() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		return nil
	}
	ln, err := net.Listen("tcp", e.addr)
	if err != nil {
		return fmt.Errorf("wiretest: %w", err)
	}
	e.addr = ln.Addr().String()
	// Serve reports a connection as new before it returns, and as closed when
	// its goroutine, which also runs the handler, ends.
	var conns sync.WaitGroup
	server := &http.Server{Handler: http.HandlerFunc(e.serve), ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			conns.Done()
		}
	}}
	served := make(chan struct{})
	e.server, e.served = server, served
	go func() { // Down waits for it
		defer close(served)
		_ = server.Serve(ln)
		conns.Wait()
	}()
	return nil
}

// Forget loses all runs without calling back, as a restart does.
func (e *Executor) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.jobs)
	e.outbox, e.failed = nil, nil
	e.change()
}

// URL is the base URL as an executor of the dialect registers it: with a slash
// at its end for Java, without for Go.
func (e *Executor) URL() string {
	if e.opts.Dialect == wire.DialectGo {
		return "http://" + e.addr
	}
	return "http://" + e.addr + "/"
}

// App is its appname.
func (e *Executor) App() string { return e.opts.App }

// Next sets what is done with the next runs, one action for each.
func (e *Executor) Next(actions ...Action) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next = append(e.next, actions...)
}

// SetAdmins replaces the base URLs of the admins.
func (e *Executor) SetAdmins(bases ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.admins = slices.Clone(bases)
}

// SetLog sets the lines of a run's log.
func (e *Executor) SetLog(logID int64, lines ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.logs[logID] = slices.Clone(lines)
}

// Received gives all requests so far, in the order in which they were read;
// with paths, those at them.
func (e *Executor) Received(paths ...string) []Received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at(paths)
}

func (e *Executor) at(paths []string) []Received {
	var out []Received
	for _, r := range e.received {
		if len(paths) == 0 || slices.Contains(paths, r.Path) {
			out = append(out, r)
		}
	}
	return out
}

// Runs gives the orders to run so far, those that were refused, repeated or
// answered with nonsense included.
func (e *Executor) Runs() []Received { return e.Received(wire.PathRun, wire.PathTrigger) }

// WaitRuns waits until at least n orders to run were received.
func (e *Executor) WaitRuns(ctx context.Context, n int) ([]Received, error) {
	return e.Wait(ctx, n, wire.PathRun, wire.PathTrigger)
}

// Wait waits until at least n requests were received; with paths, at them. On
// error it gives what came.
func (e *Executor) Wait(ctx context.Context, n int, paths ...string) (got []Received, err error) {
	err = e.until(ctx, func() bool { got = e.at(paths); return len(got) >= n })
	if err != nil {
		err = fmt.Errorf("%d of %d requests were received: %w", len(got), n, err)
	}
	return got, err
}

// Busy gives the log IDs of the runs that the executor has accepted and that
// have not ended: at work and queued.
func (e *Executor) Busy() []int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []int64
	for _, j := range e.jobs {
		if j.current != 0 {
			ids = append(append(ids, j.current), j.queue...)
		}
	}
	slices.Sort(ids)
	return ids
}

// until waits for a condition, which is called under the lock.
func (e *Executor) until(ctx context.Context, cond func() bool) error {
	for {
		e.mu.Lock()
		ok, changed := cond(), e.changed
		e.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.ctx.Done():
			return errors.New("the executor is closed")
		}
	}
}

// change wakes those who wait. The caller holds the lock.
func (e *Executor) change() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// serve answers one request.
func (e *Executor) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, wire.MaxBody+1))
	if err != nil {
		return
	}
	got := Received{Path: r.URL.Path, Token: r.Header.Get(wire.HeaderToken), App: r.Header.Get(wire.HeaderApp), At: time.Now()}
	java := e.opts.Dialect != wire.DialectGo
	if java {
		w.Header().Set("Content-Type", "text/html;charset=UTF-8")
	}
	known := []string{wire.PathBeat, wire.PathIdleBeat, e.opts.Dialect.RunPath(), wire.PathKill, wire.PathLog}
	switch {
	case !slices.Contains(known, r.URL.Path) && !java:
		e.record(got)
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost && java:
		e.answer(w, wire.CodeFailure, "invalid request, HttpMethod not support.")
		return
	case !slices.Contains(known, r.URL.Path):
		e.record(got)
		e.answer(w, wire.CodeFailure, "invalid request, uri-mapping("+r.URL.Path+") not found.")
		return
	case e.opts.Token != "" && got.Token != e.opts.Token && java:
		// The Go executor asks for no token.
		e.record(got)
		e.answer(w, wire.CodeFailure, "The access token is wrong.")
		return
	case e.opts.Dialect == wire.DialectD && got.App != e.opts.App:
		e.record(got)
		e.answer(w, wire.CodeFailure, "The appname is wrong.")
		return
	}
	switch r.URL.Path {
	case wire.PathBeat:
		e.record(got)
		e.answer(w, wire.CodeSuccess, "")
	case wire.PathIdleBeat:
		q, err := wire.DecodeIdleBeat(body)
		if err != nil {
			e.answer(w, wire.CodeFailure, err.Error())
			return
		}
		got.JobID = q.JobID
		e.record(got)
		e.idleBeat(w, q.JobID)
	case wire.PathKill:
		q, err := wire.DecodeKill(body)
		if err != nil {
			e.answer(w, wire.CodeFailure, err.Error())
			return
		}
		got.JobID = q.JobID
		e.record(got)
		e.kill(w, q.JobID)
	case wire.PathLog:
		q, err := wire.DecodeLogRequest(body)
		if err != nil {
			e.answer(w, wire.CodeFailure, err.Error())
			return
		}
		got.LogID = q.LogID
		e.record(got)
		e.log(w, q)
	default:
		run, err := wire.DecodeRun(body)
		if err != nil {
			e.refuse(w, 0, "params err")
			return
		}
		run.About = wire.ParseAbout(r.Header.Get(wire.HeaderAttempt), r.Header.Get(wire.HeaderInstant), r.Header.Get(wire.HeaderCause))
		got.Run, got.JobID, got.LogID = run, run.JobID, run.LogID
		e.run(w, r, e.recordRun(got), run)
	}
}

func (e *Executor) record(r Received) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.received = append(e.received, r)
	e.change()
}

// recordRun records a run and decides what to do with it.
func (e *Executor) recordRun(r Received) Action {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.received = append(e.received, r)
	e.times[r.LogID] = r.Run.LogTime
	nth := e.runs
	e.runs++
	e.change()
	if len(e.next) > 0 {
		a := e.next[0]
		e.next = e.next[1:]
		return a
	}
	if e.opts.Script != nil {
		return e.opts.Script(r.Run, nth)
	}
	return Action{}
}

func (e *Executor) run(w http.ResponseWriter, r *http.Request, a Action, run wire.Run) {
	if a.gate != nil {
		select {
		case <-a.gate:
		case <-r.Context().Done():
			return
		case <-e.ctx.Done():
			return
		}
	}
	if a.delay > 0 {
		timer := time.NewTimer(a.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		case <-e.ctx.Done():
			return
		}
	}
	switch a.kind {
	case refuse:
		e.refuseWith(w, run.LogID, a.code, a.text)
	case status:
		w.WriteHeader(a.code)
		_, _ = io.WriteString(w, a.text)
	case garbage:
		e.take(run)
		_, _ = io.WriteString(w, a.text)
	case cut:
		e.take(run)
		panic(http.ErrAbortHandler)
	case hang:
		e.take(run)
		select {
		case <-r.Context().Done():
		case <-e.ctx.Done():
		}
		panic(http.ErrAbortHandler)
	default:
		if refusal := e.take(run); refusal != "" {
			e.refuse(w, run.LogID, refusal)
			return
		}
		if !a.finish {
			e.answer(w, wire.CodeSuccess, "")
			return
		}
		// The answer leaves before the callback does, and whoever has the
		// answer may rely on Flush to wait for the callback.
		e.finishLater(1)
		e.answer(w, wire.CodeSuccess, "")
		_ = http.NewResponseController(w).Flush()
		e.Finish(run.LogID, a.code, a.text)
		e.finishLater(-1)
	}
}

// finishLater counts the runs that are about to be finished.
func (e *Executor) finishLater(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.later += n
	e.change()
}

// take accepts a run as an executor of the dialect does, or says why not.
func (e *Executor) take(run wire.Run) (refusal string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	isGo := e.opts.Dialect == wire.DialectGo
	if len(e.opts.Handlers) > 0 && !slices.Contains(e.opts.Handlers, run.Handler) {
		if isGo {
			return "Task not registered"
		}
		return "job handler [" + run.Handler + "] not found."
	}
	j := e.jobs[run.JobID]
	if j == nil {
		j = &job{}
		e.jobs[run.JobID] = j
	}
	switch {
	case j.current == 0:
		j.current = run.LogID
	case isGo && run.BlockStrategy == wire.BlockCover:
		// The cancelled function returns, and that is a success to it.
		e.end(j.current, wire.CodeSuccess, "")
		j.current = run.LogID
	case isGo:
		return wire.MsgGoRunning
	case run.BlockStrategy == wire.BlockDiscard:
		return wire.MsgBlockStrategy + "：Discard Later"
	case run.BlockStrategy == wire.BlockCover:
		e.killAll(j, wire.MsgBlockStrategy+"：Cover Early")
		j.current = run.LogID
	case slices.Contains(j.queue, run.LogID):
		// Of the run at work Java does not know the ID any more: a second
		// order for it is queued and runs again.
		return fmt.Sprintf("%s, logId:%d", wire.MsgRepeatTrigger, run.LogID)
	default:
		j.queue = append(j.queue, run.LogID)
	}
	e.change()
	return ""
}

// killAll ends all runs of j as Java does. The caller holds the lock.
func (e *Executor) killAll(j *job, why string) {
	if j.current != 0 {
		e.end(j.current, wire.CodeFailure, why+" [job running, killed.]")
	}
	for _, id := range j.queue {
		e.end(id, wire.CodeFailure, why+" [job not executed, in the job queue, killed.]")
	}
	j.current, j.queue = 0, nil
}

// end puts a result into the outbox. The caller holds the lock.
func (e *Executor) end(logID int64, code int, msg string) {
	e.outbox = append(e.outbox, wire.CallbackItem{LogID: logID, LogTime: e.times[logID], Code: code, Msg: msg})
	e.change()
}

// Finish ends a run and calls back, in the background; the next queued run of
// its job is at work then. A run that the executor does not have is called
// back all the same, which is how to send duplicates and strays.
func (e *Executor) Finish(logID int64, code int, msg string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.jobs {
		if j.current == logID {
			j.current = 0
			if len(j.queue) > 0 {
				j.current, j.queue = j.queue[0], j.queue[1:]
			}
			break
		}
	}
	e.end(logID, code, msg)
}

func (e *Executor) idleBeat(w http.ResponseWriter, jobID int32) {
	e.mu.Lock()
	j := e.jobs[jobID]
	busy := j != nil && j.current != 0
	e.mu.Unlock()
	switch {
	case !busy:
		e.answer(w, wire.CodeSuccess, "")
	case e.opts.Dialect == wire.DialectGo:
		e.answer(w, wire.CodeFailure, "Task is busy")
	default:
		e.answer(w, wire.CodeFailure, "job thread is running or has trigger queue.")
	}
}

func (e *Executor) kill(w http.ResponseWriter, jobID int32) {
	e.mu.Lock()
	j := e.jobs[jobID]
	busy := j != nil && j.current != 0
	isGo := e.opts.Dialect == wire.DialectGo
	switch {
	case busy && isGo:
		e.end(j.current, wire.CodeSuccess, "")
		j.current = 0
	case busy:
		e.killAll(j, "scheduling center kill job.")
	}
	e.mu.Unlock()
	if isGo && !busy {
		e.answer(w, wire.CodeFailure, "Task kill err")
		return
	}
	e.answer(w, wire.CodeSuccess, "")
}

func (e *Executor) log(w http.ResponseWriter, q wire.LogRequest) {
	e.mu.Lock()
	lines, ok := e.logs[q.LogID]
	e.mu.Unlock()
	res := wire.LogResult{FromLine: q.FromLine}
	from := max(int(q.FromLine), 1)
	switch {
	case !ok:
		res.Content, res.End = "readLog fail, logFile not exists", true
	case from <= len(lines):
		res.ToLine = int32(len(lines))
		res.Content = strings.Join(lines[from-1:], "\n") + "\n"
	case e.opts.Dialect == wire.DialectC, e.opts.Dialect == wire.DialectD:
		// No new lines: toLineNum stays 0.
	default:
		res.ToLine = int32(len(lines))
	}
	if e.opts.Dialect == wire.DialectGo {
		res.End = true
	}
	_, _ = w.Write(wire.AppendLogReply(nil, e.opts.Dialect, wire.CodeSuccess, "", res))
}

// answer writes an envelope as the dialect does.
func (e *Executor) answer(w http.ResponseWriter, code int, msg string) {
	var body string
	switch {
	case msg != "", e.opts.Dialect == wire.DialectGo:
		body = fmt.Sprintf(`{"code":%d,"msg":%s}`, code, jsonText(msg))
	case code == wire.CodeSuccess && (e.opts.Dialect == wire.DialectC || e.opts.Dialect == wire.DialectD):
		body = fmt.Sprintf(`{"code":%d,"msg":"Success"}`, code)
	default:
		body = fmt.Sprintf(`{"code":%d}`, code) // Gson leaves out what is null
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = io.WriteString(w, body)
}

// refuse answers a run with code 500.
func (e *Executor) refuse(w http.ResponseWriter, logID int64, msg string) {
	e.refuseWith(w, logID, wire.CodeFailure, msg)
}

// refuseWith answers a run with a code; Go does so in the shape of a callback.
func (e *Executor) refuseWith(w http.ResponseWriter, logID int64, code int, msg string) {
	if e.opts.Dialect == wire.DialectGo {
		e.mu.Lock()
		item := wire.CallbackItem{LogID: logID, LogTime: e.times[logID], Code: code, Msg: msg}
		e.mu.Unlock()
		_, _ = w.Write(wire.AppendCallback(nil, wire.DialectGo, []wire.CallbackItem{item}))
		return
	}
	e.answer(w, code, msg)
}

func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // of a string there is none
	}
	return string(b)
}
