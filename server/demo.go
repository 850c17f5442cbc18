package server

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/manifest"
)

// Demo is an example company with jobs and executors that run in the process of the server. Demo prints each run with
// its lateness and its result.
type Demo struct {
	out io.Writer

	executors     sync.WaitGroup
	stopExecutors context.CancelFunc

	mu   sync.Mutex
	sent map[core.RunID]sentRun
	jobs map[core.JobID]string
	// unnamed are lines of jobs whose names are unknown until the next learn.
	unnamed []demoLine
}

type demoLine struct {
	at   time.Time
	job  core.JobID
	late string
	what string
}

type sentRun struct {
	at      time.Time
	late    string
	printed bool
}

// NewDemo returns a Demo that prints to out. Call Hook to connect the Demo to a server.
func NewDemo(out io.Writer) *Demo {
	return &Demo{out: out, stopExecutors: func() {}, sent: map[core.RunID]sentRun{}, jobs: map[core.JobID]string{}}
}

// Hook sets the functions of the demo in the options of its server.
func (d *Demo) Hook(o *Options) {
	o.Opened, o.Closing, o.Sent, o.Closed = d.Open, d.Close, d.Sent, d.Closed
}

// demoActor is the author of the changes that the demo makes.
const demoActor = "demo"

// lateOf returns how late a run was sent, as `tickring runs` shows it.
func lateOf(r *core.Run) string {
	if !r.HasLateness() {
		return "-"
	}
	return "+" + Span(r.Lateness())
}

func (d *Demo) Sent(r *core.Run, _ time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sent) > 10_000 { // runs that never ended
		clear(d.sent)
	}
	d.sent[r.ID] = sentRun{at: r.SentAt, late: lateOf(r)}
}

func (d *Demo) Closed(r *core.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.sent[r.ID]
	delete(d.sent, r.ID)
	switch {
	case ok:
	case r.Sent():
		s = sentRun{at: r.SentAt, late: lateOf(r)}
	default:
		s = sentRun{at: r.EndedAt, late: "-"}
	}
	how := string(r.State)
	if r.Reason != "" && r.Reason != core.ReasonTimeout {
		how += ": " + string(r.Reason)
	}
	if r.Sent() {
		how += " in " + Span(r.EndedAt.Sub(s.at))
	}
	if r.Attempt > 1 {
		how += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	d.line(s.at, r.ID.Job(), s.late, how)
}

// line prints one line; callers hold mu.
func (d *Demo) line(at time.Time, job core.JobID, late, what string) {
	name := d.jobs[job]
	if name == "" {
		if len(d.unnamed) < 1000 {
			d.unnamed = append(d.unnamed, demoLine{at, job, late, what})
		}
		return
	}
	fmt.Fprintf(d.out, "%s  %-26s %9s   %s\n", at.UTC().Format("15:04:05.000"), name, late, what)
}

// Open creates the apps of the demo, starts and registers their executors, and then creates the jobs. Each run
// therefore finds an executor on the first start, after an outage, and after a takeover by a standby server. Changes
// that users made to existing jobs are kept.
func (d *Demo) Open(ctx context.Context, s *Server) error {
	doc, err := demoCompany()
	if err != nil {
		return err
	}
	m, actor := s.Manage(), core.Actor{Name: demoActor}
	token := hex.EncodeToString(s.derived("demo")) // the same after a restart, and cannot be guessed
	for _, app := range doc.Apps {
		name := app.Name
		old, err := m.App(ctx, name)
		if err == nil && old.Set != app.Set {
			return fmt.Errorf("the demo needs the app name %s, but an app of this name exists: start the demo with another data directory", name)
		} else if err == nil {
			continue // it keeps the changes of users
		} else if core.CodeOf(err) != core.CodeNotFound {
			return fmt.Errorf("read the demo's app %s: %w", name, err)
		}
		app.Token = &token
		spec, err := api.ManageApp(app)
		if err == nil {
			_, err = m.SaveApp(ctx, actor, spec)
		}
		if err != nil {
			return fmt.Errorf("create the demo's app %s: %w", name, err)
		}
	}
	if err := d.startExecutors(ctx, s, doc, token); err != nil {
		return err
	}
	for _, job := range doc.Jobs {
		name := job.App + "/" + job.Name
		if _, err := m.Job(ctx, name); core.CodeOf(err) != core.CodeNotFound {
			if err != nil {
				return fmt.Errorf("read the demo's job %s: %w", name, err)
			}
			continue
		}
		spec, err := api.ManageJob(job)
		if err == nil {
			err = m.Save(ctx, actor, []manage.JobSpec{spec})[0].Err
		}
		if err != nil {
			return fmt.Errorf("create the demo's job %s: %w", name, err)
		}
		if name == demoPaused {
			if _, err := m.Pause(ctx, actor, manage.Target{Job: name}, manage.PauseRequest{Why: demoReason}); err != nil {
				return fmt.Errorf("pause the demo's job %s: %w", name, err)
			}
		}
	}
	return nil
}

// executorsDir is the folder with the data of the demo's executors and with their addresses, one a line.
const executorsDir = "executors"

// startExecutors starts the executors of each app and waits until they are registered. Each
// listens at its address of the last start if that is free, so that runs sent before are found there.
func (d *Demo) startExecutors(ctx context.Context, s *Server, doc *manifest.Document, token string) error {
	dir, began := filepath.Join(s.o.Dir, executorsDir), time.Now().Truncate(time.Millisecond)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the demo's executors: %w", err)
	}
	path := filepath.Join(dir, "addresses")
	b, _ := os.ReadFile(path)
	kept := strings.Fields(string(b))
	var run context.Context
	run, d.stopExecutors = context.WithCancel(context.Background())
	var addresses []string
	for _, app := range doc.Apps {
		for range max(demoExecutors[app.Name], 1) {
			n, last := len(addresses), ""
			if n < len(kept) {
				last = kept[n]
			}
			ln, err := listenAgain(ctx, s, app.Name, token, last)
			if err != nil {
				return err
			}
			address := ln.Addr().String()
			addresses = append(addresses, address)
			e, err := executor.New(demoHandlers(), executor.Options{App: app.Name, Servers: []string{s.URL()}, Token: token,
				Address: "http://" + address, Dir: filepath.Join(dir, strconv.Itoa(n)), NoSync: true, StopGrace: -1, Log: s.log})
			if err != nil {
				ln.Close()
				return err
			}
			d.executors.Go(func() {
				if err := e.Serve(run, ln); err != nil {
					s.log.Error("executor of the demo stopped", "app", app.Name, "error", err)
				}
			})
		}
	}
	lines := []byte(strings.Join(addresses, "\n") + "\n")
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		return fmt.Errorf("store the addresses of the demo's executors: %w", err)
	}
	return awaitExecutors(ctx, s, doc, began)
}

// awaitExecutors waits until every executor of the demo has registered since a time.
func awaitExecutors(ctx context.Context, s *Server, doc *manifest.Document, since time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("the demo's executors could not register: start the demo with "+
		"--log-level debug, then check the log"))
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for _, app := range doc.Apps {
		for missing := max(demoExecutors[app.Name], 1); missing > 0; {
			select {
			case <-look.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			views, err := s.Manage().Executors(ctx, app.Name)
			if err != nil {
				return fmt.Errorf("read the executors of the demo's app %s: %w", app.Name, err)
			}
			missing = max(demoExecutors[app.Name], 1)
			for i := range views {
				if !views[i].Beat.Before(since) {
					missing--
				}
			}
		}
	}
	return nil
}

// listenAgain listens at the last address of an executor, or at a free one.
func listenAgain(ctx context.Context, s *Server, app, token, last string) (net.Listener, error) {
	ln, err := net.Listen("tcp", cmp.Or(last, "127.0.0.1:0"))
	if err == nil || last == "" {
		return ln, err
	}
	// Another program has the address: no run may be sent to it.
	if err := s.parts.Load().reg.Remove(ctx, registry.Registration{App: app, Address: "http://" + last, Token: token}); err != nil {
		return nil, fmt.Errorf("remove the last executor of the demo's app %s: %w", app, err)
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

// Close stops the executors. Running runs are reported as failed.
func (d *Demo) Close() {
	d.stopExecutors()
	d.executors.Wait()
}

// Run prints each running run that takes longer than 500 ms, until ctx ends.
func (d *Demo) Run(ctx context.Context, s *Server) {
	select {
	case <-s.Ready():
	case <-ctx.Done():
		return
	}
	m := s.Manage()
	names := time.NewTicker(500 * time.Millisecond)
	defer names.Stop()
	for {
		d.learn(ctx, m)
		d.tellRunning()
		select {
		case <-names.C:
		case <-ctx.Done():
			return
		}
	}
}

// learn reads the names of the jobs whose lines wait for them, and prints these lines.
func (d *Demo) learn(ctx context.Context, m *people.People) {
	var jobs []core.JobID
	d.mu.Lock()
	for _, l := range d.unnamed {
		jobs = append(jobs, l.job)
	}
	d.mu.Unlock()
	names, err := m.Names(ctx, jobs)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.Copy(d.jobs, names)
	waiting := d.unnamed
	d.unnamed = nil
	for _, l := range waiting {
		d.line(l.at, l.job, l.late, l.what)
	}
}

func (d *Demo) tellRunning() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range d.sent {
		if !s.printed && time.Since(s.at) > 500*time.Millisecond {
			s.printed = true
			d.sent[id] = s
			d.line(s.at, id.Job(), s.late, "running")
		}
	}
}
