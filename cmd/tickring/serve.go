package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/localexec"
	"github.com/tickring/tickring/internal/oidc"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/notify/awsnotify"
	"github.com/tickring/tickring/send/awssend"
	"github.com/tickring/tickring/server"
	"github.com/tickring/tickring/store"
)

type ServeCmd struct {
	Listen       string        `help:"Address to listen on, such as 0.0.0.0:7700 for executors on other machines; port 0 picks a free port." default:"127.0.0.1:7700" placeholder:"HOST:PORT"`
	Demo         bool          `help:"Run a demo: 14 sample jobs and their executors in this process, with a separate data directory."`
	Allow        []string      `help:"Network in which executors are allowed, such as 203.0.113.0/24, in addition to this machine and private networks. Executors in other networks are rejected." placeholder:"CIDR"`
	DenyPrivate  bool          `help:"Reject executors on this machine and in private networks, unless --allow or the app's 'allow' field contains their address."`
	AllowNoToken bool          `xor:"token" help:"Accept executors from any address if their app has no token (default: only from this machine, and only if the server listens on loopback)."`
	RequireToken bool          `xor:"token" help:"Reject all executors whose app has no token, even executors on this machine. Set this flag if the server is behind a proxy."`
	TrustedProxy []string      `name:"trusted-proxy" help:"Address or network of a reverse proxy, such as 127.0.0.1 or 10.0.0.0/8, whose X-Forwarded-For header contains the client's address. Repeat for several (default: none)." placeholder:"CIDR"`
	ReportURL    string        `name:"report-url" help:"URL at which 'call:' executors reach this server to report results (default: the URL of --listen; for 0.0.0.0, the first network address of this machine)." placeholder:"URL"`
	ReportZone   string        `name:"report-zone" help:"Time zone in which the days of reports start and end, such as Europe/Berlin (default: UTC)." placeholder:"ZONE"`
	RunURL       string        `name:"run-url" help:"URL for links to runs in notifications; {run} is replaced by the run ID (default: the console of this server, at --report-url)." placeholder:"URL"`
	TLSCert      string        `name:"tls-cert" and:"tls" help:"PEM file with the certificate and its chain, to serve HTTPS. The server reloads the file when it changes." placeholder:"FILE"`
	TLSKey       string        `name:"tls-key" and:"tls" help:"PEM file with the private key of --tls-cert." placeholder:"FILE"`
	CommandsUser []string      `help:"Operating system user that jobs may run commands as on this machine. Repeat for several (default: jobs cannot run commands)." placeholder:"USER"`
	CommandsDir  []string      `help:"Directory in which commands of jobs may run, including its subdirectories. Repeat for several." placeholder:"FOLDER"`
	CommandsMost int           `help:"Maximum number of commands of jobs that run at the same time; further commands wait." default:"10" placeholder:"N"`
	OIDC         OIDCFlags     `embed:"" prefix:"oidc-"`
	Restored     bool          `help:"Start from a backup in the data directory: the server advances the ID counters and finds the runs that were being sent. The server then stays on hold: it answers requests, but plans, sends and checks no runs."`
	StartNow     bool          `help:"With --restored: plan and send runs at once. Set it only if the original server has stopped for good, and for one start only."`
	SecretKey    string        `name:"secret-key-file" help:"File with the key that encrypts stored secrets (default: the path of the data directory with the suffix .key). The server creates the file if it does not exist." placeholder:"FILE"`
	Drain        time.Duration `help:"Maximum time that a stopping server waits for sends, calls and reports to finish. A second signal ends the server at once." default:"10s" placeholder:"DURATION"`
	LogLevel     string        `help:"Lowest level of JSON log lines on standard error: debug, info, warn or error." enum:"debug,info,warn,error" default:"warn"`
	Tune         []string      `hidden:"" help:"NAME=DURATION, for tests."`
}

type OIDCFlags struct {
	Issuer     string   `help:"Issuer URL of an OpenID Connect provider for logins to the console." placeholder:"URL"`
	ClientID   string   `name:"client-id" help:"Client ID at the provider. Set the secret with TICKRING_OIDC_CLIENT_SECRET or --oidc-client-secret-file; without a secret, the server is a public client." placeholder:"ID"`
	SecretFile string   `name:"client-secret-file" help:"File with the client secret of --oidc-client-id." placeholder:"FILE"`
	URL        string   `help:"URL at which browsers reach this server (default: --report-url; for a server on loopback, the URL of --listen)." placeholder:"URL"`
	Name       string   `help:"Name of the provider, shown on the login button as 'Log in with NAME'." placeholder:"NAME"`
	Scope      []string `help:"Scope to request in addition to openid. Repeat for several, or set TICKRING_OIDC_SCOPES (default: profile and email)." placeholder:"SCOPE"`
	NameClaim  string   `help:"Claim that contains the user name (default: preferred_username)." placeholder:"CLAIM"`
	RoleClaim  string   `help:"Claim whose values --oidc-role maps to roles (default: an admin assigns roles)." placeholder:"CLAIM"`
	Role       []string `sep:"none" help:"Role of users whose --oidc-role-claim has this value, such as devs=shop:editor or ops=admin. Repeat for several, or set TICKRING_OIDC_ROLES to a list separated by ';'." placeholder:"VALUE=ROLE"`
}

// settings returns the settings of the flags, or else of the environment.
func (f *OIDCFlags) settings(e *Env) (oidc.Settings, error) {
	s := oidc.Environment(e.env)
	for into, v := range map[*string]string{&s.Issuer: f.Issuer, &s.ClientID: f.ClientID, &s.URL: f.URL, &s.Name: f.Name,
		&s.NameClaim: f.NameClaim, &s.RoleClaim: f.RoleClaim} {
		*into = cmp.Or(v, *into)
	}
	if len(f.Scope) > 0 {
		s.Scopes = f.Scope
	}
	if len(f.Role) > 0 {
		s.Roles = f.Role
	}
	if f.SecretFile != "" {
		b, err := os.ReadFile(f.SecretFile)
		if err != nil {
			return s, usagef("--oidc-client-secret-file: %w", err)
		}
		s.Secret = strings.TrimSpace(string(b))
	}
	return s, nil
}

// dir returns the data directory, or an error if the flags do not fit together.
func (c *ServeCmd) dir(e *Env) (dir string, err error) {
	if dir, err = e.dataDir(); err != nil {
		return "", usagef("%w", err)
	}
	if c.Demo && e.Data == "" {
		dir = filepath.Join(dir, demoFolder)
	}
	switch {
	case c.Demo && c.TLSCert != "":
		err = usagef("--demo and --tls-cert: the demo's executors connect without TLS: set only one of them")
	case c.Demo && c.DenyPrivate:
		err = usagef("--demo and --deny-private: the demo's executors are on this machine: set only one of them")
	case c.StartNow && !c.Restored:
		err = usagef("--start-now: requires --restored; without --restored, a server starts at once")
	case c.Restored && !hasData(dir):
		err = usagef("--restored: %s contains no tickring.db: copy the backup there, or set its directory with --data", dir)
	}
	return dir, err
}

// Run runs the server until the context ends.
func (c *ServeCmd) Run(e *Env) error {
	dir, err := c.dir(e)
	if err != nil {
		return err
	}
	policy, err := c.policy()
	if err != nil {
		return err
	}
	proxies, err := c.proxies()
	if err != nil {
		return err
	}
	allowed, err := c.commands()
	if err != nil {
		return err
	}
	if allowed != nil {
		if done, err := asChild(); done {
			return err
		}
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return usagef("--log-level: %w", err)
	}
	provider, err := c.OIDC.settings(e)
	if err != nil {
		return err
	}
	zone, err := report.Zone(c.ReportZone)
	if err != nil {
		return usagef("--report-zone: %w", err)
	}
	if err := notification.CheckLink(c.RunURL); err != nil {
		return usagef("--run-url: %w", err)
	}
	log := slog.New(slog.NewJSONHandler(e.Stderr, &slog.HandlerOptions{Level: level}))
	out := &lockedWriter{w: e.Stdout}
	o := server.Options{Dir: dir, Listen: c.Listen, Token: e.env("TICKRING_ADMIN_TOKEN"),
		ReadToken: e.env("TICKRING_READ_TOKEN"), Policy: policy, TrustedProxies: proxies,
		SecretKeyFile: cmp.Or(c.SecretKey, e.env("TICKRING_SECRET_KEY_FILE")),
		ReportURL:     strings.TrimSuffix(c.ReportURL, "/"), TLSCert: c.TLSCert, TLSKey: c.TLSKey, Drain: max(c.Drain, 1),
		Version: version(), Log: log, AllowNoToken: c.AllowNoToken, RequireToken: c.RequireToken, Notice: out,
		Restored: c.Restored, Hold: c.Restored && !c.StartNow, Commands: allowed, CommandsMost: c.CommandsMost, ReportZone: zone,
		Notices: notification.Options{Link: c.RunURL}, Provider: provider}
	for _, text := range c.Tune {
		name, value, _ := strings.Cut(text, "=")
		if err := o.Tune(name, value); err != nil {
			return err
		}
	}
	if functions, queues, err := awssend.Environment(e.Ctx); err == nil {
		o.Functions, o.SQS, o.Topics = functions, queues, awsnotify.New()
	} else if !errors.Is(err, awssend.ErrNotConfigured) {
		log.Warn("lambda: executors, AWS queues and AWS topics are not available", "err", err.Error())
	}
	var demo *server.Demo
	if c.Demo {
		demo = server.NewDemo(out)
		demo.Hook(&o)
	}
	opened := o.Opened
	o.Opened = func(ctx context.Context, s *server.Server) error {
		c.tell(e, out, dir, s)
		if opened == nil {
			return nil
		}
		return opened(ctx, s)
	}
	limitMemory(os.DirFS("/"), e.env)
	if e.env("GOGC") == "" {
		// Live memory is a few MB. Half as many collections cost some MB more and make a run one part in fifteen cheaper.
		debug.SetGCPercent(200)
	}
	s, err := server.New(o)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(e.Ctx)
	defer stop()
	var wg sync.WaitGroup
	if demo != nil {
		wg.Go(func() { demo.Run(ctx, s) })
		wg.Go(func() { suggest(ctx, out, s.Ready()) })
	}
	hard, end := afterSecond(func() {})
	defer end()
	defer context.AfterFunc(hard, s.Cut)()
	err = s.Run(ctx)
	stop()
	wg.Wait()
	return err
}

// suggest prints commands to try, shortly after the server of the demo is ready.
func suggest(ctx context.Context, out io.Writer, ready <-chan struct{}) {
	select {
	case <-ready:
	case <-ctx.Done():
		return
	}
	if store.Sleep(ctx, 3*time.Second) {
		fmt.Fprintf(out, "try in another terminal:  tickring get  ·  tickring upcoming --for 1m  ·  tickring logs ops/backup  ·  kill -9 "+
			"%d, then start the demo again\n", os.Getpid())
	}
}

func (c *ServeCmd) tell(e *Env, out io.Writer, dir string, s *server.Server) {
	token := "from TICKRING_ADMIN_TOKEN" //nolint:gosec // the name of a variable
	if e.env("TICKRING_ADMIN_TOKEN") == "" {
		token = filepath.Join(short(dir, e), server.TokenFile)
	}
	fmt.Fprintf(out, "tickring %s   %s   data %s   token %s\n", version(), s.URL(), short(dir, e), token)
	if link := s.LogInLink(); link != "" {
		fmt.Fprintf(out, "console: %s   (one login, valid for %d minutes)\n", link, int(access.OnceFor.Minutes()))
	}
	if s.OnAllNetworks() && c.ReportURL == "" {
		fmt.Fprintf(out, "'call:' executors report to %s: if executors reach this server at another URL, set --report-url\n", s.ReportURL())
	}
	if s.InClear() {
		fmt.Fprintln(out, "tokens cross the network unencrypted: set --tls-cert and --tls-key, or the --report-url https://… of a proxy "+
			"(docs/how-to/tls-and-proxy.md)")
	}
	if s.AsksTokens() {
		fmt.Fprintln(out, "executors must register with the token of their app: set apps: [{name: APP, token: {env: APP_TOKEN}}] in a file "+
			"for 'tickring apply'")
	}
}

// commands returns the users and directories for commands; nil: commands are not allowed.
func (c *ServeCmd) commands() (*localexec.Allowed, error) {
	if c.CommandsMost < 1 || c.CommandsMost > maxCommands {
		return nil, usagef("--commands-most %d: allowed values: 1 to %d", c.CommandsMost, maxCommands)
	}
	if len(c.CommandsUser) == 0 && len(c.CommandsDir) == 0 {
		return nil, nil
	}
	a, err := localexec.Allow(c.CommandsUser, c.CommandsDir)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	return a, nil
}

// maxCommands bounds the threads and pipes that commands have.
const maxCommands = 1000

// policy is where executors may live.
func (c *ServeCmd) policy() (safedial.Policy, error) {
	p := server.LocalPolicy()
	if c.DenyPrivate {
		p = server.NamedPolicy()
	}
	for _, text := range c.Allow {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return p, usagef("--allow: %q: not a network: expected a network such as 203.0.113.0/24", text)
		}
		p.Allow = append(p.Allow, network)
	}
	return p, nil
}

// proxies returns the networks of --trusted-proxy.
func (c *ServeCmd) proxies() (list []netip.Prefix, err error) {
	for _, text := range c.TrustedProxy {
		network, err := manage.ParseRange(text)
		if err != nil {
			return nil, usagef("--trusted-proxy: %q: not an address or a network: expected 127.0.0.1 or 10.0.0.0/8", text)
		}
		list = append(list, network)
	}
	return list, nil
}

// short returns a path with the home directory as ~.
func short(path string, e *Env) string {
	home := e.env("HOME")
	if home == "" {
		home, _ = os.UserHomeDir()
	}
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok && home != "" {
		return "~" + string(filepath.Separator) + rest
	}
	return path
}

// lockedWriter keeps lines of several goroutines whole.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
