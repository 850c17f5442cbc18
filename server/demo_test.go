package server

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// varying are the times, the ages and the run IDs in a text.
var varying = regexp.MustCompile(`20\d\d-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:\d\d)?|[\dhm.]+s ago|\b\d{9,}\b`)

// steady returns a text with # for what varies.
func steady(text string) string { return varying.ReplaceAllString(text, "#") }

// TestDemoLeavesAppsOfUsers: the demo does not start over a user's app of the same name, and the app stays as it is. A line names
// its job even if the job was deleted during that time.
func TestDemoLeavesAppsOfUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Options{Dir: dir})
	check.Call(t)(s.Manage().SaveApp(t.Context(), core.Actor{Name: "ann"}, manage.AppSpec{Name: "web", Title: "mine"}))
	s.stop()
	out := &lines{}
	o := Options{Dir: dir, Notice: out, Listen: "127.0.0.1:0", Policy: LocalPolicy(), Log: slog.New(slog.DiscardHandler)}
	NewDemo(out).Hook(&o)
	next, err := New(o)
	check.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	golden.New(t).Equal(t, "the demo ends", fmt.Sprint(next.Run(ctx)))
	s = start(t, Options{Dir: dir})
	if app, err := s.Manage().App(t.Context(), "web"); err != nil || app.Title != "mine" || app.Set != "" {
		t.Errorf("the app is %+v, %v", app, err)
	}
	saveAll(t, s, manage.JobSpec{Def: core.Def{App: "web", Name: "gone", Handler: "h"}})
	gone, err := s.Manage().Delete(t.Context(), actor, "web/gone", nil)
	check.OK(t, err)
	d := NewDemo(out)
	d.Closed(&core.Run{ID: core.NumberedRun(gone.ID, 1), State: core.Failed})
	d.learn(t.Context(), s.Manage())
	check.NoError(t, out.has("web/gone")())
}

// TestDemo: each run of the demo finds an executor: on the first start, after a restart, and
// when a standby takes over. Each restart prints the results of the runs that were due
// while no server was running.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := func() (*running, *lines) {
		t.Helper()
		out := &lines{}
		d := NewDemo(out)
		o := Options{Dir: dir, Notice: out}
		d.Hook(&o)
		s := start(t, o)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { d.Run(ctx, s.Server) })
		stop := s.stop
		s.stop = func() { stop(); cancel(); wg.Wait() }
		t.Cleanup(s.stop)
		eventually(t, time.Minute, out.has("billing/exchange-rates"))
		return s, out
	}
	s, first := begin()
	s.stop()
	s, second := begin()
	eventually(t, time.Minute, second.has("down for "))

	third := &lines{}
	d := NewDemo(third)
	o := Options{Dir: dir, Notice: third, Listen: "127.0.0.1:0", Policy: LocalPolicy(), Log: slog.New(slog.DiscardHandler)}
	d.Hook(&o)
	next, err := New(o)
	check.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		check.NoError(t, next.Run(ctx))
	})
	wg.Go(func() { d.Run(ctx, next) })
	eventually(t, time.Minute, third.has("standing by: tickring dev (process "))
	s.stop()
	eventually(t, time.Minute, third.has("this server uses "+dir+" from now on"))
	eventually(t, time.Minute, third.has("billing/exchange-rates"))
	eventually(t, time.Minute, third.has("down for "))
	eventually(t, time.Minute, func() error {
		if third.has("no runs were due")() == nil {
			return nil // it took over within a second
		}
		return third.has("0 unaccounted for")()
	})
	runs, err := next.Manage().Runs(t.Context(), query.RunFilter{States: []core.State{core.Failed}})
	check.NoError(t, err)
	for _, r := range runs.Runs {
		// Crashed runs were running when the first server stopped.
		if !slices.Contains([]core.Reason{core.ReasonHandler, core.ReasonShards, core.ReasonCrashed}, r.Reason) {
			t.Errorf("run %s of job %d: %s %s", r.ID, r.ID.Job(), r.State, r.Reason)
		}
	}
	cancel()
	wg.Wait()
	for _, out := range []*lines{first, second, third} {
		if text := out.String(); strings.Contains(text, "no-executor") || strings.Contains(text, "not-accepted") {
			t.Error(text)
		}
	}
}

// TestDemoHandlersHaveWork: each handler in demo.yaml has steps, and each handler with steps has a job.
func TestDemoHandlersHaveWork(t *testing.T) {
	t.Parallel()
	doc, err := demoCompany()
	check.OK(t, err)
	paused, used := false, map[string]bool{}
	for _, job := range doc.Jobs {
		used[job.Handler] = true
		paused = paused || job.App+"/"+job.Name == demoPaused
		if demoWork[job.Handler] == nil {
			t.Errorf("%s/%s: handler %s has no work", job.App, job.Name, job.Handler)
		}
	}
	if len(used) != len(demoWork) || !paused {
		t.Errorf("%d of %d handlers have jobs, paused job found: %v", len(used), len(demoWork), paused)
	}
}

// TestDemoImportFailsBySchedule: the import succeeds, needs a second attempt, or fails in every attempt.
func TestDemoImportFailsBySchedule(t *testing.T) {
	for time, attempts := range map[string][3]bool{"12:00:00": {false, false, false}, "12:00:20": {true, false, false},
		"12:00:40": {true, true, true}, "": {false, false, false}} {
		for i, fails := range attempts {
			r := executor.Run{Handler: "supplierImport", Params: fmt.Sprintf("time=%s&attempt=%d", time, i+1)}
			if got := demoFailure(&r) != ""; got != fails {
				t.Errorf("%s: fails %v, want %v", r.Params, got, fails)
			}
		}
	}
}

// TestDemoLines: a run that was never sent has no lateness and the time at
// which it ended; a timeout is printed once.
func TestDemoLines(t *testing.T) {
	at := time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC)
	job := core.NumberedRun(7, 1)
	for _, c := range []struct {
		r    core.Run
		want string
	}{
		{core.Run{State: core.Skipped, Reason: core.ReasonCancelled, Cause: core.CauseManual, EndedAt: at},
			"02:30:00.000  ops/backup                         -   skipped: cancelled\n"},
		{core.Run{State: core.TimedOut, Reason: core.ReasonTimeout, Cause: core.CauseSchedule, SentAt: at.Add(3 * time.Millisecond),
			EndedAt: at.Add(4003 * time.Millisecond)},
			"02:30:00.003  ops/backup                     +3 ms   timed-out in 4.0 s\n"},
		{core.Run{State: core.Succeeded, Cause: core.CauseManual, SentAt: at.Add(700 * time.Millisecond), EndedAt: at.Add(800 * time.Millisecond),
			Attempt: 2},
			"02:30:00.700  ops/backup                         -   succeeded in 100 ms (attempt 2)\n"},
	} {
		var out bytes.Buffer
		d := NewDemo(&out)
		d.jobs[7] = "ops/backup"
		c.r.ID, c.r.Slot = job, core.InstantOf(at)
		d.Closed(&c.r)
		check.Equal(t, out.String(), c.want, "got")
	}
}

func TestOutageReport(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct {
		name string
		r    OutageReport
	}{
		{"no runs", OutageReport{Down: 3 * time.Hour}},
		{"runs sent", OutageReport{Down: 7300 * time.Millisecond, Sent: 35, Worst: 7900 * time.Millisecond, UnderWay: 2, Open: 1,
			Audit: query.AuditSum{AuditCount: query.AuditCount{Demanded: 36, OnTime: 10, Late: 26}}}},
		{"runs skipped", OutageReport{Down: 5 * time.Minute, UnderWay: 1,
			Audit: query.AuditSum{AuditCount: query.AuditCount{Demanded: 5, Skipped: map[core.Reason]int64{core.ReasonMisfire: 3}, Pending: 1}}}},
	} {
		texts.Equal(t, c.name, c.r.String())
	}
}

// TestPortOfOurs: the error names the process that has the port if it is a tickring server.
func TestPortOfOurs(t *testing.T) {
	texts := golden.New(t)
	s := start(t, Options{})
	_, err := New(Options{Dir: t.TempDir(), Listen: s.ln.Addr().String(), Log: slog.New(slog.DiscardHandler)})
	texts.Equal(t, "a tickring server", fmt.Sprint(err), s.ln.Addr().String(), "HOST", fmt.Sprint(os.Getpid()), "PID")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	other := &http.Server{Handler: http.NotFoundHandler()}
	go other.Serve(ln)
	defer other.Close()
	_, err = New(Options{Dir: t.TempDir(), Listen: ln.Addr().String(), Log: slog.New(slog.DiscardHandler)})
	texts.Equal(t, "another program", fmt.Sprint(err), ln.Addr().String(), "HOST")
}
