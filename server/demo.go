package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/miniexec"
	"github.com/tickring/tickring/wire"
)

// Demo is a sample app with an executor in the same process and a few jobs. It
// prints each fire with its lateness, and after a kill what became of what was
// due meanwhile.
type Demo struct {
	out io.Writer

	mu   sync.Mutex
	sent map[core.RunID]sentRun
	jobs map[core.JobID]string
	// unnamed are lines of jobs whose names are yet to be read.
	unnamed []demoLine
}

type demoLine struct {
	at   time.Time
	job  core.JobID
	late time.Duration
	what string
}

type sentRun struct {
	at   time.Time
	late time.Duration
	told bool
}

// NewDemo prints to out. Its hooks go into the Options of the server.
func NewDemo(out io.Writer) *Demo {
	return &Demo{out: out, sent: map[core.RunID]sentRun{}, jobs: map[core.JobID]string{}}
}

const demoApp, demoToken, demoActor = "demo", "demo-executors", "demo"

// demoJobs are made on the first start and then left as people change them.
func demoJobs() []manage.JobSpec {
	job := func(name, title, handler, params string, when ...core.When) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: demoApp, Name: name, Title: title, Handler: handler, Params: params, Set: demoApp}, Schedule: core.Schedule{Any: when}}
	}
	flaky := job("flaky", "fails now and then, and is tried again", "flaky", "", core.When{Kind: core.KindEvery, Every: 20 * time.Second, Aligned: true})
	flaky.Def.Retry = core.Retry{Max: 2, Delay: 2 * time.Second, Backoff: core.BackoffConstant, On: []core.State{core.Failed, core.TimedOut}}
	nightly := job("nightly", "at night, in another zone", "report", "day", core.When{Kind: core.KindCrontab, Expr: "30 2 * * *"})
	nightly.Schedule.Timezone = "Europe/Berlin"
	return []manage.JobSpec{
		job("heartbeat", "every second", "heartbeat", "", core.When{Kind: core.KindEvery, Every: time.Second, Aligned: true}),
		job("report", "takes three seconds and writes a log", "report", "hour", core.When{Kind: core.KindEvery, Every: 30 * time.Second, Aligned: true}),
		flaky,
		nightly,
	}
}

// handle is what the demo's executor does.
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

// Sent is the hook of that name.
func (d *Demo) Sent(r *core.Run, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.sent) > 10_000 { // runs that never ended
		clear(d.sent)
	}
	d.sent[r.ID] = sentRun{at: at, late: at.Sub(r.Slot.Time())}
}

// Closed is the hook of that name.
func (d *Demo) Closed(r *core.Run) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.sent[r.ID]
	delete(d.sent, r.ID)
	if !ok {
		s = sentRun{at: r.SentAt, late: r.Lateness()}
	}
	how := string(r.State)
	if r.Reason != "" {
		how += ": " + string(r.Reason)
	}
	took := ""
	if !r.SentAt.IsZero() {
		took = " in " + short(now.Sub(s.at))
	}
	if r.Attempt > 1 {
		took += fmt.Sprintf(" (attempt %d)", r.Attempt)
	}
	d.line(s.at, r.ID.Job(), s.late, how+took)
}

// line prints one line; callers hold mu.
func (d *Demo) line(at time.Time, job core.JobID, late time.Duration, what string) {
	name := d.jobs[job]
	if name == "" {
		if len(d.unnamed) < 1000 {
			d.unnamed = append(d.unnamed, demoLine{at, job, late, what})
		}
		return
	}
	fmt.Fprintf(d.out, "%s  %-16s %9s   %s\n", at.UTC().Format("15:04:05.000"), name, "+"+short(late), what)
}

// short is a duration for people.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// Run makes the jobs, starts the executor, and tells about what runs and about
// what was due while nobody was there, until ctx ends.
func (d *Demo) Run(ctx context.Context, s *Server) error {
	// At the address of the last start, so that what was due meanwhile finds it.
	kept := filepath.Join(s.o.Dir, "demo-executor")
	last, _ := os.ReadFile(kept)
	exec, err := miniexec.Start(miniexec.Options{App: demoApp, Admin: s.URL(), Token: demoToken, Handle: d.handle, Listen: strings.TrimSpace(string(last)), Log: s.log})
	if err != nil && len(last) > 0 {
		exec, err = miniexec.Start(miniexec.Options{App: demoApp, Admin: s.URL(), Token: demoToken, Handle: d.handle, Log: s.log})
	}
	if err != nil {
		return err
	}
	defer exec.Close()
	if err := os.WriteFile(kept, []byte(strings.TrimPrefix(exec.URL(), "http://")+"\n"), 0o600); err != nil {
		return fmt.Errorf("keep the executor's address: %w", err)
	}
	select {
	case <-s.Ready():
	case <-ctx.Done():
		return nil
	}
	m := s.Manage()
	token := demoToken
	if _, err := m.SaveApp(ctx, manage.Actor{Name: demoActor}, manage.AppSpec{Name: demoApp, Title: "the demo", Set: demoApp, Token: &token}); err != nil {
		return fmt.Errorf("make the demo's app: %w", err)
	}
	for _, spec := range demoJobs() {
		if _, err := m.Job(ctx, spec.Def.App+"/"+spec.Def.Name); err == nil {
			continue
		}
		if r := m.Save(ctx, manage.Actor{Name: demoActor}, []manage.JobSpec{spec})[0]; r.Err != nil {
			return fmt.Errorf("make the demo's job %s: %w", spec.Def.Name, r.Err)
		}
	}
	d.learn(ctx, m)
	if from, to := s.Down(); !from.IsZero() {
		d.tellOutage(ctx, m, from, to)
	}
	names := time.NewTicker(500 * time.Millisecond)
	defer names.Stop()
	for {
		d.learn(ctx, m)
		d.tellRunning()
		select {
		case <-names.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// learn reads the names of jobs that have been printed by number or are new.
func (d *Demo) learn(ctx context.Context, m *manage.Manage) {
	page, err := m.Jobs(ctx, manage.JobFilter{Limit: 1000})
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

// tellRunning prints runs that take longer than a moment, once.
func (d *Demo) tellRunning() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, s := range d.sent {
		if !s.told && time.Since(s.at) > 500*time.Millisecond {
			s.told = true
			d.sent[id] = s
			d.line(s.at, id.Job(), s.late, "running")
		}
	}
}

// tellOutage waits until what was due is sent, and says what became of it.
func (d *Demo) tellOutage(ctx context.Context, m *manage.Manage, from, to time.Time) {
	first, last := core.InstantOf(from), core.InstantOf(to)
	for try := 0; ; try++ {
		sum, err := m.AuditAll(ctx, first, last)
		if err != nil || (sum.Pending > 0 || sum.Unaccounted > 0) && try < 40 {
			t := time.NewTimer(250 * time.Millisecond)
			select {
			case <-t.C:
				continue
			case <-ctx.Done():
				t.Stop()
				return
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		fmt.Fprintln(d.out, OutageLine(to.Sub(from), sum))
		return
	}
}

// OutageLine says what an audit found of an outage.
func OutageLine(down time.Duration, a manage.AuditSum) string {
	var skipped int64
	for _, n := range a.Skipped {
		skipped += n
	}
	worst := ""
	if a.Late > 0 {
		worst = " (worst " + short(a.Worst) + ")"
	}
	line := fmt.Sprintf("down for %.1f s: %d instants were due, %d sent late%s, %d skipped, %d unaccounted for", down.Seconds(), a.Demanded, a.Late+a.OnTime, worst, skipped, a.Unaccounted)
	if a.Pending > 0 {
		line += fmt.Sprintf(", %d still on their way", a.Pending)
	}
	return line
}
