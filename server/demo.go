package server

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/miniexec"
	"github.com/tickring/tickring/wire"
)

// Demo is a sample app with an executor in the same process and a few jobs. It
// prints each fire with its lateness.
type Demo struct {
	out  io.Writer
	exec *miniexec.Executor

	mu   sync.Mutex
	sent map[core.RunID]sentRun
	jobs map[core.JobID]string
	// unnamed holds lines of jobs whose names are still unknown.
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

// NewDemo prints to out. Its hooks go into the Options of the server.
func NewDemo(out io.Writer) *Demo {
	return &Demo{out: out, sent: map[core.RunID]sentRun{}, jobs: map[core.JobID]string{}}
}

// Hook puts the demo into the options of its server.
func (d *Demo) Hook(o *Options) {
	o.Opened, o.Closing, o.Sent, o.Closed = d.Open, d.Close, d.Sent, d.Closed
}

const demoApp, demoActor = "demo", "demo"

// demoToken returns the executor token of the demo. It survives restarts and cannot be guessed.
func demoToken(s *Server) string { return hex.EncodeToString(s.derived("demo")) }

// demoJobs are created on the first start and not changed afterwards, so users' changes stay.
func demoJobs() []manage.JobSpec {
	job := func(name, title, handler, params string, when ...core.When) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: demoApp, Name: name, Title: title, Handler: handler, Params: params, Set: demoApp},
			Schedule: core.Schedule{Any: when}}
	}
	flaky := job("flaky", "fails now and then, and is tried again", "flaky", "", core.When{Kind: core.KindEvery, Every: 20 * time.Second,
		Aligned: true})
	flaky.Def.Retry = core.Retry{Max: 2, Delay: 2 * time.Second, Backoff: core.BackoffConstant, On: []core.State{core.Failed, core.TimedOut}}
	nightly := job("nightly", "at night, in another zone", "report", "day", core.When{Kind: core.KindCrontab, Expr: "30 2 * * *"})
	nightly.Schedule.Timezone = "Europe/Berlin"
	return []manage.JobSpec{
		job("heartbeat", "every second", "heartbeat", "", core.When{Kind: core.KindEvery, Every: time.Second, Aligned: true}),
		job("report", "takes three seconds and writes a log", "report", "hour", core.When{Kind: core.KindEvery, Every: 30 * time.Second,
			Aligned: true}),
		flaky,
		nightly,
	}
}

// handle runs a job of the demo in its executor.
func (d *Demo) handle(ctx context.Context, r *wire.Run, logf func(string, ...any)) (int, string) {
	logf("%s of job %d begins, params %q", r.Handler, r.JobID, r.Params)
	switch r.Handler {
	case "heartbeat":
		return wire.CodeSuccess, "alive"
	case "report":
		for i := range 3 {
			t := time.NewTimer(time.Second)
			select {
			case <-t.C:
				logf("part %d of 3 is done", i+1)
			case <-ctx.Done():
				t.Stop()
				return wire.CodeFailure, "ended early"
			}
		}
		return wire.CodeSuccess, "3 parts"
	case "flaky":
		if run := core.RunID(r.LogID); run%3 != 0 {
			logf("no luck this time")
			return wire.CodeFailure, "no luck this time"
		}
		return wire.CodeSuccess, "lucky"
	}
	return wire.CodeFailure, "job handler [" + r.Handler + "] not found."
}

// lateOf is how late a run was sent, as `tickring runs` has it: by the claim.
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
	fmt.Fprintf(d.out, "%s  %-16s %9s   %s\n", at.UTC().Format("15:04:05.000"), name, late, what)
}

// Open creates the demo's app, registers its executor, and then creates the jobs, all before planning begins. So every run finds an
// executor: on the first start, after an outage, and when a standby takes over.
func (d *Demo) Open(ctx context.Context, s *Server) error {
	m := s.Manage()
	token := demoToken(s)
	if _, err := m.SaveApp(ctx, core.Actor{Name: demoActor}, manage.AppSpec{Name: demoApp, Title: "the demo", Set: demoApp,
		Token: &token}); err != nil {
		return fmt.Errorf("make the demo's app: %w", err)
	}
	if err := d.startExecutor(ctx, s, token); err != nil {
		return err
	}
	for _, spec := range demoJobs() {
		if _, err := m.Job(ctx, spec.Def.App+"/"+spec.Def.Name); err == nil {
			continue
		}
		if r := m.Save(ctx, core.Actor{Name: demoActor}, []manage.JobSpec{spec})[0]; r.Err != nil {
			return fmt.Errorf("make the demo's job %s: %w", spec.Def.Name, r.Err)
		}
	}
	d.learn(ctx, m)
	return nil
}

// executorFile keeps the address of the demo's executor.
const executorFile = "demo-executor"

// startExecutor starts the executor and waits until it is registered. It reuses the address of the last start if that is free, so
// runs sent there are found again.
func (d *Demo) startExecutor(ctx context.Context, s *Server, token string) error {
	kept := filepath.Join(s.o.Dir, executorFile)
	b, _ := os.ReadFile(kept)
	last := strings.TrimSpace(string(b))
	o := miniexec.Options{App: demoApp, Admin: s.URL(), Token: token, Handle: d.handle, Listen: last, Log: s.log}
	var err error
	if d.exec, err = miniexec.Start(o); err != nil && last != "" {
		// Another program has the address: remove it, so nothing is sent there.
		if rerr := s.parts.reg.Remove(ctx, registry.Registration{App: demoApp, Address: "http://" + last, Token: token}); rerr != nil {
			return fmt.Errorf("take the demo's last executor off: %w", rerr)
		}
		o.Listen = ""
		d.exec, err = miniexec.Start(o)
	}
	if err != nil {
		return err
	}
	if err := os.WriteFile(kept, []byte(strings.TrimPrefix(d.exec.URL(), "http://")+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the executor's address: %w", err)
	}
	select {
	case <-d.exec.Registered():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Second):
		return errors.New("the demo's executor could not register: see the log, --log-level debug")
	}
}

// Close stops the executor; its running jobs report that they ended early.
func (d *Demo) Close() {
	if d.exec != nil {
		d.exec.Close()
	}
}

// Run prints the starts and ends of runs until ctx ends.
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

// learn reads the names of jobs that have been printed by number or are new.
func (d *Demo) learn(ctx context.Context, m *people.People) {
	page, err := m.Jobs(ctx, ask.JobFilter{Limit: 1000})
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range page.Jobs {
		d.jobs[page.Jobs[i].Def.ID] = page.Jobs[i].Name()
	}
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
