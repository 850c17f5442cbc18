// Package server runs tickring on one machine. One process has a store, the use cases and one HTTP mux. A test can
// start a Server as a Go value. A second server with the same data directory waits as a standby until the first server
// has ended.
package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/connlimit"
	"github.com/tickring/tickring/internal/executorhttp"
	"github.com/tickring/tickring/internal/localexec"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/ratelog"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/traces"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
)

type Server struct {
	o     Options
	log   *slog.Logger
	ln    net.Listener
	http  *http.Server
	token string
	// reportURL is the base URL for reports of call: executors.
	reportURL string
	// provider is the identity provider for single sign-on; nil: none. claims maps its claims to users.
	provider *oidc.Provider
	claims   access.Claims
	cert     *certificate // nil: no TLS
	// home is whether executors on this machine do without a token.
	home bool
	// untrusted logs the first request that an unknown proxy forwards.
	untrusted sync.Once
	// handler handles requests: the standby's handler until the data is open.
	handler atomic.Pointer[http.Handler]
	m       *metrics
	traces  *traces.Traces // nil: none are made
	under   underWay
	// hurry ends when a stop is to wait for nothing any more.
	hurry context.Context
	cut   context.CancelFunc

	parts atomic.Pointer[parts] // nil while standing by
	ready chan struct{}
}

// parts holds everything that exists once the server holds the data directory.
type parts struct {
	store   *store.Store
	sender  *send.Sender
	notify  *notify.Sender
	finish  *finish.Finish
	tick    *tick.Ticker
	disp    *dispatch.Dispatcher
	watch   *finish.Watchdog
	dead    *dispatch.Dead
	postRun *postrun.Worker
	manage  *people.People
	access  *access.Access
	reports *report.Reports
	notices *notification.Notices
	reg     *registry.Registry
	probe   *probe.Probe
	tokens  *registry.Tokens
	// refused records the clients that endpoints rejected.
	refused *rejectlog.Trace
	call    *callback.Callback
	pull    *pullqueue.Puller
	// commands runs the commands of jobs; nil: commands were never allowed here.
	commands *localexec.Commands
	// downAt is when the process before this one was last alive; zero if never.
	downAt time.Time
	upAt   time.Time
	outage outage

	aliveMu sync.Mutex
	alive   atomic.Int64 // milliseconds: when the server last recorded that it lives

	stopping  chan struct{} // closed when a stop begins: open pages are let go
	lastPass  atomic.Int64  // milliseconds
	planning  atomic.Bool
	passError atomic.Pointer[string]
	verdict   verdict
}

// New listens at the addresses in the options. It creates the data directory and its admin token if they are missing.
// New returns an error for invalid addresses before it writes to the disk. Run opens the data when no other server
// uses the directory.
func New(o Options) (_ *Server, err error) {
	o.defaults()
	if o.Dir == "" {
		return nil, core.Invalid("data", "", "name the data directory")
	}
	if o.ReportURL != "" && !isBase(o.ReportURL) {
		return nil, core.Invalid("report-url", o.ReportURL,
			"expected a URL such as http://scheduler.example:7700, at which executors reach this server")
	}
	s := &Server{o: o, log: o.Log, ready: make(chan struct{}), m: newMetrics()}
	s.hurry, s.cut = context.WithCancel(context.Background())
	if s.cert, err = newCertificate(o.TLSCert, o.TLSKey, o.Log); err != nil {
		return nil, err
	}
	if s.ln, err = listen(o.Listen); err != nil {
		return nil, err
	}
	s.o.Policy.Own = s.listensAt
	defer func() {
		if err != nil {
			s.ln.Close()
		}
	}()
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, core.Invalid("data", o.Dir, "the directory cannot be created: %s; name a writable directory with --data or TICKRING_DATA",
			reason(err))
	}
	if s.token, err = adminToken(o.Dir, o.Token); err != nil {
		return nil, err
	}
	if o.ReadToken != "" {
		if err := core.CheckToken("TICKRING_READ_TOKEN", o.ReadToken); err != nil {
			return nil, err
		}
		if o.ReadToken == s.token {
			return nil, core.Invalid("TICKRING_READ_TOKEN", "", "same as the admin token, which has all permissions: set another token")
		}
	}
	o.Traces.Salt, o.Traces.Version, o.Traces.Log, o.Traces.Count = s.derived("trace"), o.Version, o.Log, s.m.spansWent
	if s.traces, err = traces.New(o.Traces); err != nil {
		return nil, err
	}
	s.reportURL = o.ReportURL
	if s.reportURL == "" {
		s.reportURL = s.reachable()
	}
	if o.Provider.Set() {
		if s.provider, err = s.providerOf(o.Provider); err != nil {
			return nil, err
		}
	}
	s.home = s.atHome()
	standby := http.Handler(standbyHandler{})
	s.handler.Store(&standby)
	s.http = &http.Server{
		Handler: http.HandlerFunc(s.serve),
		// An answer is begun within 30 s of its request, a long poll included; executors
		// that beat each 30 s find out that their connection is closed before they use it.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 20 * time.Second,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	if s.cert != nil {
		s.http.TLSConfig = s.cert.config()
	}
	s.ln = connlimit.Listen(s.ln, connlimit.FromRlimit(), s.http, o.Log)
	return s, nil
}

// providerOf creates the identity provider. The URL to which it redirects browsers never comes from a request.
func (s *Server) providerOf(settings oidc.Settings) (*oidc.Provider, error) {
	if settings.URL == "" {
		if settings.URL = s.o.ReportURL; settings.URL == "" && s.onLoopback() {
			settings.URL = s.URL()
		}
		if settings.URL == "" {
			return nil, core.Invalid("oidc-url", "", "set the URL at which browsers reach this server, or set --report-url: the provider "+
				"redirects browsers to that URL")
		}
	}
	p, err := oidc.New(settings, s.token, oidc.Options{Log: s.log})
	if err == nil {
		s.claims, err = settings.Claims()
	}
	return p, err
}

// reason is the innermost text of an error of the system.
func reason(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	var se *os.SyscallError
	if errors.As(err, &se) {
		return se.Err.Error()
	}
	return err.Error()
}

// URL returns the URL at which programs on this machine reach the server.
func (s *Server) URL() string {
	host, port, _ := net.SplitHostPort(s.ln.Addr().String())
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return s.base(host, port)
}

// base is the URL of the server at one of its hosts.
func (s *Server) base(host, port string) string {
	if s.cert == nil {
		return "http://" + net.JoinHostPort(host, port)
	}
	return "https://" + net.JoinHostPort(s.cert.name(s.listenHost(), host), port)
}

// InClear reports whether tokens cross a network unencrypted: the server has no TLS and is not behind a TLS proxy.
func (s *Server) InClear() bool {
	return s.cert == nil && !s.onLoopback() && !strings.HasPrefix(s.reportURL, "https:")
}

// ReportURL returns the URL to which executors report results.
func (s *Server) ReportURL() string { return s.reportURL }

// Cut makes Run return without waiting for operations in progress, even if the stop has already begun.
func (s *Server) Cut() { s.cut() }

func (s *Server) Token() string { return s.token }

// Ready returns a channel that is closed when the data is open and planning has begun.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Manage returns the operations of users. Call Manage only after the server is ready.
func (s *Server) Manage() *people.People {
	return s.parts.Load().manage
}

// Access returns the checks of logins and permissions. Call Access only after the server is ready.
func (s *Server) Access() *access.Access {
	return s.parts.Load().access
}

// LogInLink returns a one-time login link to print in the terminal, if the server listens on loopback. For another
// server, the link is empty. Call LogInLink only after the server is ready.
func (s *Server) LogInLink() string {
	if !s.onLoopback() {
		return ""
	}
	return s.URL() + console.Root + "once/" + s.Access().Once()
}

// Run serves until ctx ends. Then Run stops planning, releases the server's leases, waits up to Options.Drain for
// sends and callbacks, and returns nil.
func (s *Server) Run(ctx context.Context) error {
	if s.o.Hold {
		s.log.Warn(onHold.String())
	}
	serveErr := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		if s.cert != nil {
			serveErr <- s.http.ServeTLS(s.ln, "", "")
		} else {
			serveErr <- s.http.Serve(s.ln)
		}
	})
	defer wg.Wait()
	defer s.http.Close()

	lock, err := sqlite.TryLock(s.o.Dir)
	if errors.Is(err, sqlite.ErrLocked) {
		fmt.Fprintf(s.o.Notice, "standing by: %s uses %s; this server takes over when the other one ends\n", s.other(ctx), s.o.Dir)
		s.log.Info("standing by", "data", s.o.Dir)
		if lock, err = sqlite.WaitLock(ctx, s.o.Dir); err != nil {
			if ctx.Err() != nil {
				return nil
			}
		}
		if err == nil {
			fmt.Fprintf(s.o.Notice, "the other server has ended: this server uses %s from now on\n", s.o.Dir)
		}
	}
	if err != nil {
		return err
	}
	s.ownFiles()
	box, made, err := secretbox.File(ctx, s.o.SecretKeyFile) // with the lock, so that one of two servers makes it
	if err != nil {
		return errors.Join(err, lock.Release())
	}
	data, err := sqlite.Open(ctx, sqlite.Options{Lock: lock, Synchronous: s.o.Synchronous, Secrets: box})
	if err != nil {
		return err
	}
	if err := s.begin(ctx, data); err != nil {
		data.Close()
		return err
	}
	if err := os.WriteFile(filepath.Join(s.o.Dir, EndpointFile), []byte(s.URL()+"\n"), 0o600); err != nil {
		s.log.Warn("endpoint file not written: the CLI requires TICKRING_ENDPOINT", "err", err)
	}
	p := s.parts.Load()
	if s.o.Opened != nil {
		err = s.o.Opened(ctx, s)
	}
	telling, stop := context.WithCancel(ctx)
	var notes sync.WaitGroup
	notes.Go(func() { s.tellLocked(telling, data, made) }) // beside the runs: it reads all jobs
	switch {
	case err != nil:
	case s.o.Hold:
		fmt.Fprintln(s.o.Notice, onHold)
		close(s.ready)
		select {
		case <-ctx.Done():
		case err = <-serveErr:
		}
		close(p.stopping)
	default:
		notes.Go(func() { s.tellOutage(telling, p) })
		err = s.work(ctx, serveErr)
	}
	stop()
	notes.Wait()
	s.traces.Close(s.hurry)
	s.stopCommands(p, time.Now().Add(s.o.Drain)) // if work has not stopped them
	p.sender.Close()
	p.notify.Close()
	if cerr := data.Close(); err == nil {
		err = cerr
	}
	return err
}

// begin creates the use cases on an open store and opens the endpoints. On a copy it first advances the ID counters.
func (s *Server) begin(ctx context.Context, data *store.Store) error {
	o := &s.o
	p := &parts{store: data, upAt: time.Now().UTC(), stopping: make(chan struct{})}
	boot := rand.Text()[:10]
	var nonces atomic.Int64
	a := wiring.New(data, wiring.Options{Plan: o.Plan, Log: ratelog.Of(s.log), Expiry: o.Expiry, Behind: o.Behind,
		TimeoutGrace: o.TimeoutGrace,
		AllowNoToken: s.letsIn, Closed: func(r *core.Run) {
			s.m.closed(r)
			s.traces.Closed(r)
			if o.Closed != nil {
				o.Closed(r)
			}
		}})
	p.finish, p.pull = a.Finish, a.Puller(pullqueue.Options{Waiters: min(1000, connlimit.FromRlimit()/2)})
	runner, err := s.commands(p)
	if err != nil {
		return err
	}
	p.sender = send.New(send.Options{Queues: sentTo{p.pull}, Commands: runner, Policy: o.Policy, Timeout: o.SendTimeout,
		CallTimeout: o.CallTimeout, ReportURL: s.reportURL, ReportKey: s.reportKey, Functions: o.Functions, SQS: o.SQS})
	p.probe = probe.New(data, p.sender, o.ProbeEvery/2)
	p.notify = notify.New(notify.Options{Policy: o.Policy, Topics: o.Topics})
	p.tick = a.Ticker(tick.Options{
		// The server holds the lock on the directory, so leases of this name belong to a dead process or itself: it takes them at
		// once.
		ID: "serve", LeaseFor: o.LeaseFor})
	p.call = a.Callback(callback.Options{TokenFor: time.Second}) // reading it for each callback costs 2.4% at 1,000 runs a second
	p.disp = a.Dispatcher(s.traces.Sender(counted{asks{p.sender, p.probe}, &s.under, p.call.Sent}), dispatch.Options{
		Nonce: func() string { return fmt.Sprintf("%s-%d", boot, nonces.Add(1)) },
		// The server holds the lock on the directory: no owner of another process lives.
		OwnerDead:  func(owner string) bool { return !strings.HasPrefix(owner, boot+"-") },
		Invocation: o.Invocation, JournalEvery: o.JournalEvery, BackoffMin: o.BackoffMin, BackoffMax: o.BackoffMax,
		CallTimeout: o.CallTimeout,
		Sent:        func(r *core.Run, at time.Time, a *dispatch.Answer) { s.sent(p, r, at, a) },
	})
	p.dead = a.Dead()
	p.reports = a.Reports(report.Options{Zone: o.ReportZone, PassFor: o.ReportFor})
	lane := o.PostRun
	lane.Made = s.m.log
	told := o.Notices
	if told.Link == "" {
		told.Link = s.reportURL + console.Root + "runs/" + notification.RunInLink
	}
	told.Went = s.m.notice
	p.notices = a.Notices(p.notify, told)
	lane.Notices = p.notices
	p.postRun = a.Lane(p.sender, lane)
	p.watch = a.Watchdog(asks{p.sender, p.probe}, finish.WatchOptions{IdleGap: o.IdleGap, LostAfter: o.LostAfter})
	p.access = a.Access(s.token, access.Options{Claims: s.claims})
	p.manage = a.People(p.sender, people.Options{
		Ask: query.Options{KeepRuns: o.KeepRuns, Reachable: p.sender.Reachable}, Manage: manage.Options{ResumeAhead: o.ResumeAhead,
			Command: o.Commands.Check, Notifier: p.notify}})
	p.tokens = a.Tokens(registry.TokensOptions{})
	p.refused = rejectlog.New(rejectlog.Options{Log: s.log, Longest: o.RefusedWait,
		Waiting: waitingFor(connlimit.FromRlimit()),
		Count:   func(endpoint, reason string) { s.m.refused.WithLabelValues(endpoint, reason).Inc() }})
	p.reg = a.Registry(registry.Options{BeatWrite: o.BeatWrite, Allowed: executorhttp.Allowed(o.Policy), Came: a.Finish.WakeApp})

	if o.Restored {
		if err := s.restore(ctx, p, a.Restorer(restore.Options{})); err != nil {
			return err
		}
	}
	if !o.Hold { // the copy does not change
		if err := s.wake(ctx, p); err != nil {
			return err
		}
	}
	s.parts.Store(p)
	h := s.routes(p)
	s.handler.Store(&h)
	if p.commands == nil {
		return nil
	}
	return p.commands.Start(ctx)
}

// commands creates the executor of commands. Without allowed commands, it only ends commands that an earlier process left.
func (s *Server) commands(p *parts) (send.Commands, error) {
	dir := filepath.Join(s.o.Dir, "commands")
	if _, err := os.Stat(dir); s.o.Hold || s.o.Commands == nil && err != nil {
		return nil, nil
	}
	c, err := localexec.New(localexec.Options{Allowed: s.o.Commands, Most: s.o.CommandsMost, Dir: dir, Log: s.log,
		StopGrace: max(s.o.Drain-3*time.Second, s.o.Drain/2), Queue: p.pull, Store: p.store, Finish: p.finish})
	if err == nil {
		p.commands = c
	}
	return c, err
}

// sent counts the answer to a send.
func (s *Server) sent(p *parts, r *core.Run, at time.Time, a *dispatch.Answer) {
	k := a.Kind
	s.m.sent(r, at, k)
	p.outage.sent(r, at, k)
	if sent, counts := sendOf(a); counts {
		p.probe.Sent(r.App, r.Address, sent)
	}
	if s.o.Sent != nil && (k == dispatch.AnswerAccepted || k == dispatch.AnswerUnconfirmed || k == dispatch.AnswerRepeat) {
		s.o.Sent(r, at)
	}
}

// wake records that the server lives, and the outage before.
func (s *Server) wake(ctx context.Context, p *parts) error {
	before, err := p.store.LastAlive(ctx)
	if err == nil {
		err = p.store.Alive(ctx, p.upAt)
	}
	if err != nil {
		return fmt.Errorf("store the heartbeat of the server: %w", err)
	}
	p.downAt = before
	p.outage.from, p.outage.to = core.InstantOf(before), core.InstantOf(p.upAt)
	p.alive.Store(p.upAt.UnixMilli())
	if before.IsZero() || p.upAt.Sub(before) <= s.o.OutageAfter {
		return nil
	}
	return registry.NoteOutage(ctx, p.store, before, p.upAt, s.o.Expiry)
}

// stopCommands ends the running commands before until.
func (s *Server) stopCommands(p *parts, until time.Time) {
	if p.commands == nil {
		return
	}
	ctx, cancel := context.WithDeadline(s.hurry, until)
	defer cancel()
	if err := p.commands.Stop(ctx); err != nil {
		s.log.Error("commands not ended cleanly", "err", err)
	}
}

// reportKey signs the URLs at which calls report.
func (s *Server) reportKey(context.Context) ([]byte, error) { return s.derived("report"), nil }

// derived is a secret for one purpose; it follows the admin token.
func (s *Server) derived(purpose string) []byte {
	m := hmac.New(sha256.New, []byte(s.token))
	m.Write([]byte(purpose))
	return m.Sum(nil)
}

// tellLocked names the apps, channels and jobs whose secrets the key file does not decrypt, as after a restore without it.
func (s *Server) tellLocked(ctx context.Context, data *store.Store, made bool) {
	var names []string
	apps, _ := data.ListApps(ctx)
	for i := range apps {
		if _, is := errors.AsType[*core.Locked](apps[i].Err); is {
			names = append(names, "app "+apps[i].Name)
		}
	}
	channels, _ := data.ListChannels(ctx)
	for i := range channels {
		if channels[i].Locked() != nil {
			names = append(names, "channel "+channels[i].Name)
		}
	}
	for next, more := core.JobID(0), true; more; {
		jobs, after, err := data.Jobs.List(ctx, "", next, budget.AtOnce)
		for _, j := range jobs {
			if _, is := errors.AsType[*core.Locked](j.Err); is {
				names = append(names, "job "+j.Is.Name())
			}
		}
		next, more = after, err == nil && after != 0
	}
	slices.Sort(names)
	if more := len(names) - 20; more > 0 {
		names = append(names[:20], fmt.Sprintf("and %d more", more))
	}
	if len(names) == 0 {
		return
	}
	file := "the key file " + s.o.SecretKeyFile
	if made {
		file += ", which did not exist and was created,"
	}
	fmt.Fprintf(s.o.Notice, "%s does not decrypt the secrets of %s: add the earlier key to the file, or set the secrets again\n", file,
		strings.Join(names, ", "))
	s.log.Warn("secrets not decrypted", "file", s.o.SecretKeyFile, "records", strings.Join(names, ", "))
}

// adminToken returns the given token, or the one stored in the directory, which it creates if it is missing.
func adminToken(dir, given string) (string, error) {
	if given != "" {
		return given, core.CheckToken("TICKRING_ADMIN_TOKEN", given)
	}
	path := filepath.Join(dir, TokenFile)
	b, err := os.ReadFile(path)
	if token := strings.TrimSpace(string(b)); token != "" {
		return token, core.CheckToken(path, token)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", core.Invalid("data", path, "the admin token cannot be read: %s", reason(err))
	}
	token := rand.Text()
	if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
		return "", core.Invalid("data", dir, "the directory cannot be written: %s; name a writable directory with --data or TICKRING_DATA",
			reason(err))
	}
	return token, nil
}
