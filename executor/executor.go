package executor

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/executor/internal/request"
	"github.com/tickring/tickring/internal/connlimit"
	"github.com/tickring/tickring/wire"
)

// Options of an executor. App is required. Every other field has a default.
type Options struct {
	// App is the name of the executor's app (xxl-job: appname).
	App string
	// Servers are the base URLs of the servers, such as http://host:8080, or http://host:8080/xxl-job-admin for xxl-job. The
	// executor tries them in order until one accepts a request. Without servers, the executor does not register. Results then
	// stay in the journal, except results of [Executor.Submit], which the caller of Submit receives.
	Servers []string
	// Token is the access token of the app. The executor sends it to the servers, and rejects requests to the executor without
	// it. If it is empty, every request is accepted: use this only in tests and closed networks. Declared jobs need a token.
	Token string

	// Listen is the address that ListenAndServe listens on. Empty: ":9999" with a token, "127.0.0.1:9999" without one. Without
	// a token, every client that reaches the port can start runs.
	Listen string
	// Address is the base URL at which servers reach the executor. If it is empty, ListenAndServe builds it from its port and
	// the local IP address that it uses to reach the first server. If you do not use ListenAndServe and have servers, Address
	// is required.
	Address string
	// TLS is the configuration with which ListenAndServe serves HTTPS. nil: it serves HTTP.
	TLS *tls.Config
	// Client sends the requests to the servers. nil: a client that uses no proxy and follows no redirects.
	Client *http.Client

	// Dir is the directory of the journal, and the parent of the default directories of logs and scripts. Only one process can
	// use it at a time. Empty: "executor-data" in the working directory.
	Dir string
	// InMemory disables the journal. A process that dies then loses its runs and its unreported results.
	InMemory bool
	// NoSync lets the operating system decide when the journal is written to disk. The journal then survives the death of the
	// process, but not always a crash of the machine.
	NoSync bool
	// LogDir is the directory of the runs' logs. Empty: "logs" in Dir.
	LogDir string
	// LogWriter receives the logs of all runs instead of log files. Each line begins with the ID of its run. Servers then
	// cannot read logs from the executor.
	LogWriter io.Writer
	// LogRetention is how long log files are kept. 0: 30 days. Negative: forever.
	LogRetention time.Duration
	// LogTail is how many bytes from the end of a run's log are added to the run's message. LogTail is for executors whose
	// logs servers cannot request. 0: none. A message has at most 15,000 characters, and begins with the handler's own text.
	LogTail int
	// FailedLogTail replaces LogTail for runs that did not succeed. 0: LogTail.
	FailedLogTail int
	// LogMax is the maximum size of one run's log in bytes. A longer log is truncated and ends with a note. 0: 10 MiB.
	// Negative: no logs.
	LogMax int64

	// QueueSize is the maximum number of waiting runs of one job. 0: 1,000.
	QueueSize int
	// MaxUnreported is the maximum number of results that wait for a server, and MaxUnreportedBytes the maximum of their total
	// size. If either limit is reached, the executor rejects new runs. 0: 100,000 results and 64 MiB.
	MaxUnreported      int
	MaxUnreportedBytes int64
	// Remember is how long the executor rejects the ID of a run after its end. 0: 1 h.
	Remember time.Duration
	// RememberMax is the maximum number of IDs of ended runs in memory. 0: 200,000.
	RememberMax int

	// Unregistered disables registration at the servers. Use it if runs come from [Executor.Submit], or if the address is
	// configured on the server.
	Unregistered bool
	// Heartbeat is the interval at which the executor registers its address. 0: 30 s.
	Heartbeat time.Duration
	// Idle is how long the worker goroutine of a job waits for a run before it ends. 0: 90 s.
	Idle time.Duration
	// StopGrace is how long Stop waits for running handlers before it cancels their contexts. 0: 30 s. Negative: no wait.
	StopGrace time.Duration
	// CancelGrace is how long the executor waits for a handler to return after it cancelled the handler's context. Then it
	// reports the run as ended, although the handler is still running. 0: 10 s.
	CancelGrace time.Duration
	// CallbackRetry is the maximum delay between attempts to report results. The first delay is 1 s, and each further delay
	// doubles. 0: 30 s.
	CallbackRetry time.Duration
	// RequestTimeout is the timeout of one request to one server. 0: 5 s.
	RequestTimeout time.Duration

	// Scripts allows jobs whose script comes with the run. nil: the executor rejects them.
	Scripts *Scripts

	// Log receives the executor's log messages, but not the logs of runs. nil: slog.Default().
	Log *slog.Logger

	journalMost int64 // size in bytes at which the journal starts a new file
}

// ErrStarted is the error of [Executor.Start] if Start was called before, even if the executor was stopped since.
var ErrStarted = errors.New("executor: an executor starts only once: create a new executor")

// An Executor accepts runs and executes them. An Executor is an [http.Handler] that you can mount at any path, because it uses
// only the last element of a request's path.
type Executor struct {
	o        Options
	mux      *Mux
	log      *slog.Logger
	client   *client
	reporter reporter
	logs     *logs
	journal  *journal
	strays   atomic.Int64

	base    context.Context // of all handlers
	wg      sync.WaitGroup  // of workers
	side    sync.WaitGroup  // of heartbeat, reports and sweeps
	quit    context.CancelFunc
	sideEnd [2]context.CancelFunc // of the heartbeat and the others
	halt    chan struct{}         // closed once workers must end

	mu      sync.Mutex
	state   state
	workers map[int32]*worker
	open    map[int64]*task // queued and running
	past    memory

	// testIdle, if set, is called by a worker between its timer and its end.
	testIdle func(job int32)
	// testEnding, if set, is called by a worker that has decided to end.
	testEnding func(job int32)
}

type state uint8

const (
	stateNew state = iota
	stateStarting
	stateRunning
	stateStopping
)

// New returns an executor for the handlers and jobs in mux. New does not access disk or network. If mux or o are invalid, the
// error names every problem.
func New(mux *Mux, o Options) (*Executor, error) {
	errs := append(slices.Clone(mux.errs), mux.checkJobs()...)
	if strings.TrimSpace(o.App) == "" || len(o.App) > wire.MaxApp {
		errs = append(errs, fmt.Errorf("option App is empty or longer than %d bytes", wire.MaxApp))
	}
	for _, s := range o.Servers {
		if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("option Servers: %q is not an http or https URL", s))
		}
	}
	if o.Address != "" {
		if u, err := url.Parse(o.Address); err != nil || u.Host == "" || len(o.Address) > wire.MaxAddress {
			errs = append(errs, fmt.Errorf("option Address: %q is not a URL of at most %d bytes", o.Address, wire.MaxAddress))
		}
	}
	for _, h := range []string{o.Token, o.App} {
		if strings.ContainsFunc(h, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			errs = append(errs, errors.New("options Token and App are sent as headers and must not contain control characters"))
			break
		}
	}
	if len(mux.jobs) > 0 && (o.Token == "" || len(o.Servers) == 0) {
		errs = append(errs, errors.New("declared jobs require the options Servers and Token"))
	}
	errs = append(errs, o.Scripts.check(o.Token)...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("executor: %w", errors.Join(errs...))
	}

	or(&o.Dir, "executor-data")
	or(&o.LogDir, filepath.Join(o.Dir, "logs"))
	or(&o.LogRetention, 30*24*time.Hour)
	or(&o.LogMax, 10<<20)
	or(&o.QueueSize, 1000)
	or(&o.MaxUnreported, 100_000)
	or(&o.MaxUnreportedBytes, 64<<20)
	or(&o.Remember, time.Hour)
	or(&o.RememberMax, 200_000)
	or(&o.Heartbeat, 30*time.Second)
	or(&o.Idle, 90*time.Second)
	or(&o.StopGrace, 30*time.Second)
	or(&o.CancelGrace, 10*time.Second)
	or(&o.CallbackRetry, 30*time.Second)
	or(&o.RequestTimeout, 5*time.Second)
	or(&o.journalMost, 64<<20)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Client == nil {
		o.Client = request.NewClient(&http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute})
	}
	e := &Executor{o: o, mux: mux, log: o.Log,
		client:   &client{http: o.Client, token: o.Token, app: o.App, timeout: o.RequestTimeout},
		reporter: reporter{kick: make(chan struct{}, 1)},
		logs: &logs{dir: o.LogDir, most: o.LogMax, tail: max(o.LogTail, 0),
			failedTail: max(cmp.Or(o.FailedLogTail, o.LogTail), 0), log: o.Log},
		halt: make(chan struct{}), workers: map[int32]*worker{}, open: map[int64]*task{},
		past: memory{keep: o.Remember, most: o.RememberMax, at: map[int64]int64{}},
	}
	if o.LogMax < 0 || o.LogWriter != nil {
		e.logs.dir = ""
	}
	if o.LogMax >= 0 {
		e.logs.out = o.LogWriter
	}
	for _, s := range o.Servers {
		e.client.servers = append(e.client.servers, &server{base: s})
	}
	return e, nil
}

func (e *Executor) registers() bool { return len(e.o.Servers) > 0 && !e.o.Unregistered }

func or[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Start reads the journal, and reports or reruns runs that a dead process left. Then the executor accepts, registers and
// reports. If all servers are down, it keeps trying, and Start returns no error. [Executor.ListenAndServe] calls Start.
//
// Start returns an error if another process uses the directory, the address is missing, or Start was called before.
func (e *Executor) Start() error {
	if e.registers() && e.o.Address == "" {
		return errors.New("executor: option Address is required, unless ListenAndServe starts the executor")
	}
	e.mu.Lock()
	if e.state != stateNew {
		e.mu.Unlock()
		return ErrStarted
	}
	e.state = stateStarting
	e.mu.Unlock()
	dir := e.o.Dir
	if e.o.InMemory {
		dir = ""
	}
	j, was, err := openJournal(dir, e.o.NoSync, e.o.journalMost, e.log)
	if err != nil {
		e.mu.Lock()
		if e.state == stateStarting {
			e.state = stateNew
		}
		e.mu.Unlock()
		return fmt.Errorf("executor: %w", err)
	}
	now := time.Now()
	e.mu.Lock()
	for _, p := range was.past {
		e.past.add(p.ID, p.At, now)
	}
	e.mu.Unlock()
	// Before servers learn that these runs have ended, or callers submit them again.
	left := endGroups(was.open, e.o.CancelGrace)
	for id := range left {
		e.log.Error("program of an earlier executor process not ended", "run", id)
	}
	if len(e.o.Servers) == 0 {
		j.forgetSubmitted(&was)
	}
	j.start(func() []remembered {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.past.list(time.Now())
	})
	for _, it := range was.results {
		e.reporter.add(pending{item: it})
	}
	if e.o.Token == "" {
		e.log.Warn("executor has no token: every client that reaches the executor, and every program on this machine, can "+
			"start runs",
			"app", e.o.App)
	}
	if !e.begin(j, was.open, left) {
		j.close()
		return errors.New("executor: the executor was stopped during its start")
	}
	return nil
}

// begin sets the executor running, with everything that a stop ends; it returns false after a stop. left are the open runs
// whose programs go on.
func (e *Executor) begin(j *journal, open []*incoming, left map[int64]bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.state != stateStarting {
		return false
	}
	e.base, e.quit = context.WithCancel(context.Background())
	e.journal, e.state = j, stateRunning
	e.recover(open, left)
	beat, endBeat := context.WithCancel(context.Background())
	rest, endRest := context.WithCancel(context.Background())
	e.sideEnd = [2]context.CancelFunc{endBeat, endRest}
	if len(e.o.Servers) > 0 {
		if e.registers() {
			e.side.Go(func() { e.heartbeat(beat) })
		}
		e.side.Go(func() { e.report(rest) })
		e.side.Go(func() { e.declare(beat) })
	}
	if e.o.LogRetention > 0 {
		e.side.Go(func() { e.sweeps(rest) })
	}
	return true
}

func (e *Executor) sweeps(ctx context.Context) {
	for {
		e.logs.sweep(time.Now(), e.o.LogRetention)
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Hour):
		}
	}
}

// Stop stops the executor in these steps:
//
//   - It rejects new runs, so that the scheduler sends them again, and removes its address from the servers.
//   - It reports runs in its queues as not executed.
//   - It waits for running handlers, at most [Options].StopGrace, and then cancels their contexts.
//   - After [Options].CancelGrace, it reports the runs of handlers that did not return as ended.
//   - It reports the remaining results. Results that no server accepts stay in the journal for the next start.
//
// When ctx ends, Stop skips the remaining waits. Stop returns an error if handlers did not return. A second Stop does nothing
// and returns nil. If Start is in progress, Stop cancels it and returns without waiting.
func (e *Executor) Stop(ctx context.Context) error {
	e.mu.Lock()
	if e.state != stateRunning {
		e.state = stateStopping
		e.mu.Unlock()
		return nil
	}
	e.state = stateStopping
	e.mu.Unlock()

	e.sideEnd[0]()
	removed := e.unregister(ctx)

	e.mu.Lock()
	for _, w := range e.workers {
		e.emptyQueue(w, reasonStop)
	}
	e.mu.Unlock()
	close(e.halt)
	ended := make(chan struct{})
	go func() {
		e.wg.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-time.After(max(e.o.StopGrace, 0)):
	case <-ctx.Done():
	}
	e.mu.Lock()
	for _, w := range e.workers {
		e.cancel(w.cur, reasonStop)
	}
	e.mu.Unlock()
	select {
	case <-ended:
	case <-ctx.Done():
		// A handler that ends within a moment is not abandoned.
		select {
		case <-ended:
		case <-time.After(min(e.o.CancelGrace, time.Second)):
		}
	case <-time.After(e.o.CancelGrace + time.Second):
	}
	select {
	case <-ended:
	default:
		err = errors.New("executor: some handlers did not return; the runs of these handlers are reported as ended")
		e.giveUp()
	}
	e.quit()

	e.sideEnd[1]()
	e.side.Wait()
	if len(e.o.Servers) > 0 {
		most := callbackItems
		e.reporter.waiting, e.reporter.refused = append(e.reporter.waiting, e.reporter.refused...), nil
		for tries := 0; e.reporter.wait() <= 0 && tries < 3 && ctx.Err() == nil; {
			var failed error
			if most, failed = e.sendBatch(ctx, most); failed != nil {
				if tries++; !errors.Is(failed, errRefused) {
					break
				}
			}
		}
	}
	switch left := e.journal.unreported(); {
	case left == 0 || len(e.o.Servers) == 0:
	case e.o.InMemory:
		e.log.Error("results of runs lost: no server accepted the results, and the executor has no journal", "results", left)
	default:
		e.log.Warn("results of runs left in the journal for the next start", "results", left, "folder", e.o.Dir)
	}
	e.journal.close()
	removed()
	e.o.Client.CloseIdleConnections()
	return err
}

// unregister removes the address from the servers in parallel with the rest of the stop, so that slow servers do not use
// up its time. removed waits for that, up to the time in which two servers can answer, counted from the start.
func (e *Executor) unregister(ctx context.Context) (removed func()) {
	if !e.registers() {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*e.o.RequestTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.client.toOne(ctx, wire.PathRegistryRemove, wire.AppendRegistration(nil, e.registration())); err != nil {
			e.log.Warn("address not removed from the servers: it expires there without heartbeats", "address", e.o.Address, "error", err)
		}
	}()
	return func() {
		<-done
		cancel()
	}
}

// Strays returns the number of handlers that are still running although their runs have ended. Such a handler ignored the
// cancellation of its context.
func (e *Executor) Strays() int { return int(e.strays.Load()) }

// Unreported returns the number of results that no server has accepted.
func (e *Executor) Unreported() int {
	e.mu.Lock()
	j := e.journal
	e.mu.Unlock()
	if j == nil {
		return 0
	}
	return j.unreported()
}

// ListenAndServe starts the executor and serves HTTP requests until ctx ends. Then it stops as [Executor.Stop] does, and
// returns the error of the stop.
func (e *Executor) ListenAndServe(ctx context.Context) error {
	listen, err := e.listenAt()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("executor: listen (Options.Listen): %w", err)
	}
	return e.Serve(ctx, ln)
}

// listenAt returns the address to listen on. Without Listen and Token it is local only, and an error if a server on
// another machine would get that address.
func (e *Executor) listenAt() (string, error) {
	switch {
	case e.o.Listen != "":
		return e.o.Listen, nil
	case e.o.Token != "":
		return ":9999", nil
	}
	for _, s := range e.o.Servers {
		if from, to := route(s); e.o.Address == "" && (from == "" || from != to) {
			return "", fmt.Errorf("executor: without a token, the executor listens only on this machine, where the server %s "+
				"cannot reach it: set the app's token (Options.Token, --app-token), or accept every client with a "+
				"listen address (Options.Listen, --listen :9999)", s)
		}
	}
	return "127.0.0.1:9999", nil
}

// Serve does what [Executor.ListenAndServe] does, but with the listener ln, which it closes.
func (e *Executor) Serve(ctx context.Context, ln net.Listener) error {
	if e.o.Address == "" {
		e.o.Address = e.findAddress(ln.Addr())
	}
	if err := e.Start(); err != nil {
		ln.Close()
		return err
	}
	srv := &http.Server{
		Handler: e, TLSConfig: e.o.TLS, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
	}
	ln = connlimit.Listen(ln, connlimit.FromRlimit(), srv, e.log)
	failed := make(chan error, 1)
	go func() {
		if e.o.TLS != nil {
			failed <- srv.ServeTLS(ln, "", "")
		} else {
			failed <- srv.Serve(ln)
		}
	}()
	e.log.Info("executor started", "app", e.o.App, "address", e.o.Address, "handlers", e.mux.Names())
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		failed <- err
	}
	// It answers until the executor has stopped: clients that still come must get the reason.
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(e.o.StopGrace, 0)+2*e.o.CancelGrace+3*e.o.RequestTimeout)
	defer cancel()
	stopErr := e.Stop(bound)
	quick, cancel2 := context.WithTimeout(bound, 3*time.Second)
	defer cancel2()
	if srv.Shutdown(quick) != nil {
		srv.Close()
	}
	if ended := <-failed; err == nil && !errors.Is(ended, http.ErrServerClosed) {
		err = ended
	}
	return errors.Join(err, stopErr)
}

// findAddress builds the base URL of a listener at addr.
func (e *Executor) findAddress(addr net.Addr) string {
	scheme := "http"
	if e.o.TLS != nil {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String()
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = e.localIP()
	}
	if p, err := strconv.Atoi(port); err == nil && p == map[string]int{"http": 80, "https": 443}[scheme] {
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		return scheme + "://" + host
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// route returns the local address that reaches a server, and the server's address, from the system's routes without
// sending a packet. Both are empty if there is no route.
func route(server string) (from, to string) {
	u, err := url.Parse(server)
	if err != nil {
		return "", ""
	}
	c, err := net.DialTimeout("udp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")), time.Second)
	if err != nil {
		return "", ""
	}
	defer c.Close()
	from, _, _ = net.SplitHostPort(c.LocalAddr().String())
	to, _, _ = net.SplitHostPort(c.RemoteAddr().String())
	return from, to
}

// localIP returns the address that reaches the first server, or else the address of an interface.
func (e *Executor) localIP() string {
	for _, s := range e.o.Servers {
		if from, _ := route(s); from != "" {
			return from
		}
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.1"
}
