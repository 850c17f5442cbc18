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

	"github.com/tickring/tickring/internal/conns"
	"github.com/tickring/tickring/wire"
)

// Options of an executor. App is needed; everything else has a default.
type Options struct {
	// App is the name of the app (xxl-job: appname) that it belongs to.
	App string
	// Servers are the base URLs of the servers, as xxl-job's executors take
	// them: http://host:8080, or http://host:8080/xxl-job-admin for xxl-job.
	// They are tried in order until one takes a request. Without any, nothing
	// is registered and results stay in the journal, but those of runs that came
	// by [Executor.Submit]: who submitted them has them.
	Servers []string
	// Token is that of the app: it is sent to the servers and demanded of whoever
	// calls; empty demands none, which is for tests and closed networks. Jobs that
	// are declared need it.
	Token string

	// Listen is where ListenAndServe listens. Empty: ":9999" with a token, and
	// without one "127.0.0.1:9999", for whoever reaches it may start runs.
	Listen string
	// Address is the base URL that servers are told. Empty: ListenAndServe
	// makes it of the local IP address from which the first server is reached
	// and the port; without ListenAndServe it must be given if there are
	// servers.
	Address string
	// TLS has ListenAndServe speak HTTPS.
	TLS *tls.Config
	// Client is for what is sent to the servers. nil: one without proxy that
	// follows no redirects.
	Client *http.Client

	// Dir holds the journal, and the logs and scripts unless these have
	// folders of their own. It belongs to one process at a time. Empty:
	// "executor-data" in the working folder.
	Dir string
	// InMemory keeps no journal: a process that dies forgets the runs it had
	// and the results that it had not brought away.
	InMemory bool
	// NoSync leaves it to the system when the journal reaches the disk: a
	// process that dies loses nothing, a machine that does may.
	NoSync bool
	// LogDir holds the runs' logs. Empty: "logs" in Dir.
	LogDir string
	// LogWriter takes the runs' logs instead of files, each line with its run
	// in front. Servers then find no log here.
	LogWriter io.Writer
	// LogRetention is how long logs are kept. 0: 30 days. Negative: for ever.
	LogRetention time.Duration
	// LogTail is how many bytes at the end of a run's log go into its message:
	// for executors that nobody can ask for it. 0: none. Of what a message holds,
	// 15,000 characters, the handler's own text has the first place.
	LogTail int
	// FailedLogTail is LogTail of runs that did not succeed. 0: as LogTail.
	FailedLogTail int
	// LogMax is the largest log of one run in bytes; what is left out is said
	// there. 0: 10 MiB. Negative: no logs.
	LogMax int64

	// QueueSize is how many runs of one job may wait. 0: 1,000.
	QueueSize int
	// MaxUnreported is how many results may wait for a server before new runs
	// are refused, and MaxUnreportedBytes how large they may be together.
	// 0: 100,000 and 64 MiB.
	MaxUnreported      int
	MaxUnreportedBytes int64
	// Remember is how long the ID of an ended run is refused. 0: 1 h.
	Remember time.Duration
	// RememberMax is how many IDs of ended runs are remembered, so that
	// memory is bounded at any rate. 0: 200,000.
	RememberMax int

	// Unregistered keeps the address from the servers: for runs that come by
	// [Executor.Submit], or executors that are listed by hand.
	Unregistered bool
	// Heartbeat is the interval of registrations. 0: 30 s.
	Heartbeat time.Duration
	// Idle is how long a job's worker waits for a run before it ends. 0: 90 s.
	Idle time.Duration
	// StopGrace is how long Stop waits for handlers at work before it cancels
	// their contexts. 0: 30 s. Negative: not at all.
	StopGrace time.Duration
	// CancelGrace is how long a cancelled handler may take to return before
	// the executor goes on without it. 0: 10 s.
	CancelGrace time.Duration
	// CallbackRetry is the longest wait between tries to bring away results
	// that no server takes; the first wait is 1 s. 0: 30 s.
	CallbackRetry time.Duration
	// RequestTimeout bounds one request to one server. 0: 5 s.
	RequestTimeout time.Duration

	// Scripts allows jobs whose script comes with the run. nil: refused.
	Scripts *Scripts

	// Log takes what the executor has to say. nil: slog.Default().
	Log *slog.Logger

	journalMost int64 // bytes after which the journal begins a new file
}

// ErrStarted is what Start gives the second time, also after Stop.
var ErrStarted = errors.New("executor: it was started before; make a new one")

// An Executor takes runs and works on them. It is an [http.Handler]; the paths
// are judged by their last element, so it may be mounted anywhere.
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
	halt    chan struct{}         // closed once workers are to end

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

// New makes an executor of handlers and options. It touches neither disk nor
// network. The error names everything that is wrong.
func New(mux *Mux, o Options) (*Executor, error) {
	errs := append(slices.Clone(mux.errs), mux.checkJobs()...)
	if strings.TrimSpace(o.App) == "" || len(o.App) > wire.MaxApp {
		errs = append(errs, fmt.Errorf("option App is empty or longer than %d bytes", wire.MaxApp))
	}
	for _, s := range o.Servers {
		if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, fmt.Errorf("option Servers: %q is no http or https URL", s))
		}
	}
	if o.Address != "" {
		if u, err := url.Parse(o.Address); err != nil || u.Host == "" || len(o.Address) > wire.MaxAddress {
			errs = append(errs, fmt.Errorf("option Address: %q is no URL of at most %d bytes", o.Address, wire.MaxAddress))
		}
	}
	for _, h := range []string{o.Token, o.App} {
		if strings.ContainsFunc(h, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			errs = append(errs, errors.New("options Token and App go into headers and must hold no control characters"))
			break
		}
	}
	if len(mux.jobs) > 0 && (o.Token == "" || len(o.Servers) == 0) {
		errs = append(errs, errors.New("jobs are declared, which needs the options Servers and Token"))
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
		o.Client = &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
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

// Start reads the journal, deals with what a process that died has left, and
// begins to take runs, to register and to report. Servers that are down are no
// error: it goes on trying. It is not needed before [Executor.ListenAndServe].
//
// An error means that the folder is in use by another process, that the
// address is missing, or that the executor was started before.
func (e *Executor) Start() error {
	if e.registers() && e.o.Address == "" {
		return errors.New("executor: option Address is needed to register without ListenAndServe")
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
		e.past.add(p.id, p.at, now)
	}
	e.mu.Unlock()
	// Before anybody hears that their runs have ended, or brings them again.
	left := endGroups(was.open, e.o.CancelGrace)
	for id := range left {
		e.log.Error("A program that a process which died has left cannot be ended.", "run", id)
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
		e.log.Warn("The executor has no token: whoever reaches it, and every program on this machine, can start runs.", "app", e.o.App)
	}
	if !e.begin(j, was.open, left) {
		j.close()
		return errors.New("executor: it was stopped while it started")
	}
	return nil
}

// begin has the executor run, with all that a stop will end; false if it was
// stopped already. left are the open runs whose programs go on.
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
	t := time.NewTicker(time.Hour)
	defer t.Stop()
	for {
		e.logs.sweep(time.Now(), e.o.LogRetention)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Stop ends the executor in order: runs that still arrive are refused so that
// the scheduler sends them again, the address is removed from the servers,
// runs that wait are reported as not executed, those at work may go on for
// StopGrace, then their contexts end and CancelGrace later they are reported
// as ended; last, results are brought away as far as a server takes them. What
// none takes is in the journal for the next start.
//
// When ctx ends Stop leaves out whatever waiting is left, and says so.
// Stopping twice is no error; a Stop during Start has Start give up, and does
// not wait for it.
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
	grace := time.NewTimer(max(e.o.StopGrace, 0))
	defer grace.Stop()
	var err error
	select {
	case <-ended:
	case <-grace.C:
	case <-ctx.Done():
	}
	e.mu.Lock()
	for _, w := range e.workers {
		e.cancel(w.cur, reasonStop)
	}
	e.mu.Unlock()
	last := time.NewTimer(e.o.CancelGrace + time.Second)
	defer last.Stop()
	select {
	case <-ended:
	case <-ctx.Done():
		// What ends within a moment is not given up.
		short := time.NewTimer(min(e.o.CancelGrace, time.Second))
		select {
		case <-ended:
		case <-short.C:
		}
		short.Stop()
	case <-last.C:
	}
	select {
	case <-ended:
	default:
		err = errors.New("executor: handlers did not return; their runs are reported as ended")
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
		e.log.Error("Results of runs are lost: no server took them, and there is no journal.", "results", left)
	default:
		e.log.Warn("Results of runs are left in the journal for the next start.", "results", left, "folder", e.o.Dir)
	}
	e.journal.close()
	removed()
	e.o.Client.CloseIdleConnections()
	return err
}

// unregister removes the address from the servers, beside what else a stop
// does, for those that do not answer must not use up its time. removed waits
// for that: since the begin no longer than two servers may take to answer.
func (e *Executor) unregister(ctx context.Context) (removed func()) {
	if !e.registers() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	most := time.NewTimer(2 * e.o.RequestTimeout)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.client.toOne(ctx, wire.PathRegistryRemove, wire.AppendRegistration(nil, e.registration())); err != nil {
			e.log.Warn("The address could not be removed; the servers forget it by themselves.", "address", e.o.Address, "error", err)
		}
	}()
	return func() {
		select {
		case <-done:
		case <-most.C:
		}
		most.Stop()
		cancel()
		<-done
	}
}

// Strays is how many handlers go on though their runs were ended: by a timeout,
// a kill, a newer run or a stop that they do not heed.
func (e *Executor) Strays() int { return int(e.strays.Load()) }

// Unreported is how many results no server took yet.
func (e *Executor) Unreported() int {
	e.mu.Lock()
	j := e.journal
	e.mu.Unlock()
	if j == nil {
		return 0
	}
	return j.unreported()
}

// ListenAndServe listens, starts, and serves until ctx ends; then it stops by
// the rules of [Executor.Stop] and returns. nil means that it ended in order.
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

// listenAt is where to listen. Without a token and a word of the user's that is this
// machine only, which is refused where a server on another one would be told so.
func (e *Executor) listenAt() (string, error) {
	switch {
	case e.o.Listen != "":
		return e.o.Listen, nil
	case e.o.Token != "":
		return ":9999", nil
	}
	for _, s := range e.o.Servers {
		if from, to := route(s); e.o.Address == "" && (from == "" || from != to) {
			return "", fmt.Errorf("executor: it has no token, so it would listen on this machine only, where the server %s does not reach it: "+
				"give it the app's token (Options.Token, --app-token), or say where to listen for whoever comes (Options.Listen, --listen :9999)", s)
		}
	}
	return "127.0.0.1:9999", nil
}

// Serve is ListenAndServe on a listener that is open; it closes it.
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
	ln = conns.Listen(ln, conns.Most(), srv, e.log)
	failed := make(chan error, 1)
	go func() {
		if e.o.TLS != nil {
			failed <- srv.ServeTLS(ln, "", "")
		} else {
			failed <- srv.Serve(ln)
		}
	}()
	e.log.Info("The executor serves.", "app", e.o.App, "address", e.o.Address, "handlers", e.mux.Names())
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		failed <- err
	}
	// It answers until it has stopped: those who still come must hear why.
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

// findAddress makes a base URL for who listens at addr.
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

// route is the address from which a server is reached, and its own, which the
// system's routes tell without a packet; empty where it has none.
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

// localIP is the address from which the first server is reached; else that of an
// interface.
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
