package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/executor"
)

type execCmd struct {
	App      string        `required:"" placeholder:"NAME" help:"App of the executor."`
	Handler  []string      `required:"" placeholder:"NAME" help:"Handler name that jobs use. Repeat for several names."`
	Server   []string      `placeholder:"URL" help:"URL of a tickring server, or of an xxl-job admin, such as http://HOST/xxl-job-admin (default: the server that other commands use)."`
	AppToken string        `placeholder:"TOKEN" help:"Token that the app's manifest sets (default: $$TICKRING_APP_TOKEN)."`
	Listen   string        `placeholder:"ADDRESS" help:"Address to listen on for runs (default: :9999 with a token, 127.0.0.1:9999 without a token). Set it if there is no token and the server is on another machine."`
	Address  string        `placeholder:"URL" help:"URL at which servers reach the executor (default: detected)."`
	Dir      string        `placeholder:"DIR" type:"path" help:"Directory for the journal and the logs of runs (default: executors/APP in the data directory)."`
	Grace    time.Duration `default:"30s" help:"How long runs in progress may continue after a stop signal. A second signal ends these runs at once."`
	Snooze   time.Duration `default:"1m" help:"Delay before a run is retried if the program exits with code 75."`
	Again    bool          `help:"Rerun interrupted runs after a crash of this process instead of reporting them as failed."`

	Command []string `arg:"" passthrough:"partial" placeholder:"-- PROGRAM" help:"Program to start for each run, with its arguments, such as: tickring exec --app reports --handler nightly -- ./report.sh. The run's params are added as the last argument. TICKRING_… environment variables contain the params, run, job, shard and scheduled time. Exit code 0: the run succeeded. 75: retry the run after --snooze. 65: the run failed and is not retried. Other codes: the run failed."`
}

func (c *execCmd) Run(e *Env) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 || len(c.Handler) == 0 {
		return usagef("a handler and a program are required: tickring exec --app reports --handler nightly -- ./report.sh")
	}
	if c.Snooze < core.MinSnooze || c.Snooze > core.MaxSnooze {
		return usagef("--snooze %s: allowed values: 1s to 24h", c.Snooze)
	}
	if done, err := asChild(); done {
		return err
	}
	if e.Token != "" {
		return usagef("--token is the server's token, which executors must not have: set the app's token with --app-token or TICKRING_APP_TOKEN")
	}
	servers := c.Server
	if len(servers) == 0 {
		endpoint, err := e.serverURL()
		if err != nil {
			return err
		}
		servers = []string{endpoint}
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return &exitError{exitUsage, fmt.Errorf("the program cannot be started: %w", err)}
	}
	token := cmp.Or(c.AppToken, e.env("TICKRING_APP_TOKEN"))
	dir := c.Dir
	if dir == "" {
		data, err := e.dataDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(data, "executors", c.App)
	}
	grace := max(c.Grace, 0)
	log := slog.New(slog.NewTextHandler(e.Stderr, nil))
	hard, end := afterSecond(func() {
		log.Info("The executor is stopping. Runs in progress may continue for the grace period. A second signal ends these runs at "+
			"once.", "app", c.App, "grace", grace)
	})
	defer end()
	mux := executor.NewMux()
	var opts []executor.HandlerOption
	if c.Again {
		opts = append(opts, executor.RerunAfterCrash())
	}
	for _, h := range c.Handler {
		mux.Register(h, until(hard, executor.Program{Path: command[0], Args: command[1:], Snooze: c.Snooze}.Handle), opts...)
	}
	x, err := executor.New(mux, executor.Options{
		App: c.App, Servers: servers, Token: token, Listen: c.Listen, Address: c.Address, Dir: dir, Log: log,
		StopGrace: cmp.Or(grace, -1), // 0 would be the default
	})
	if err != nil {
		return &exitError{exitUsage, err}
	}
	err = x.ListenAndServe(e.Ctx)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w\nanother executor may use the port: use one executor with several handlers (--handler A --handler B), or another "+
			"port: --listen 127.0.0.1:9998, or --listen :9998 if the server is on another machine", err)
	}
	return err
}

// asChild prepares a process that starts programs. In the first process of a container it runs this command as a child,
// and reports that the command is done.
func asChild() (done bool, err error) {
	hideEnvironment()
	if !firstProcess() {
		return false, nil
	}
	code, err := reap("/proc/self/exe", os.Args)
	return true, cmp.Or(err, exitWith(code))
}

var errSecond = errors.New("the executor was ended by a second stop signal")

// afterSecond is a context that ends at the second signal to stop; at the first
// it calls first. A third one ends the process.
func afterSecond(first func()) (hard context.Context, end func()) {
	hard, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := range 2 {
			select {
			case <-signals:
			case <-over:
				return
			}
			if n == 0 {
				first()
			}
		}
		cancel(errSecond)
		signal.Reset(os.Interrupt, syscall.SIGTERM)
	}()
	return hard, func() {
		signal.Stop(signals)
		close(over)
		<-done
		cancel(nil)
	}
}

// until has the runs of a handler end with hard, too.
func until(hard context.Context, h executor.Handler) executor.Handler {
	return func(ctx context.Context, r *executor.Run) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(hard, func() { cancel(context.Cause(hard)) })()
		return h(ctx, r)
	}
}
