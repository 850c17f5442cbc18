package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/wire"
)

func TestMain(m *testing.M) {
	waiting.Parallel(16)
	os.Exit(m.Run())
}

var actor = core.Actor{Name: "test"}

// testLog puts a server's log into the test's.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// lines is text that is written line by line and read at the same time: a log, or the output for users.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// with returns the lines with a text in them.
func (l *lines) with(text string) (list []string) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, text) {
			list = append(list, line)
		}
	}
	return list
}

func (l *lines) has(want string) func() error {
	return func() error {
		if text := l.String(); !strings.Contains(text, want) {
			return fmt.Errorf("%q is not in\n%s", want, text)
		}
		return nil
	}
}

// warnings returns a log of warnings and errors as JSON.
func (l *lines) warnings() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// serve starts an HTTP server for a test.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// running is a server that a test started.
type running struct {
	*Server
	stop func()
}

func start(t *testing.T, o Options) *running {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Listen = "127.0.0.1:0"; !o.Policy.ListLoopback {
		o.Policy = LocalPolicy()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewJSONHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	s, err := New(o)
	check.OK(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	select {
	case <-s.Ready():
	case err := <-done:
		done <- err
		t.Fatalf("server ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("server is not ready")
	}
	return &running{Server: s, stop: stop}
}

// client returns a client of the API with the admin token.
func (s *running) client(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New(s.URL(), s.Token(), client.Config{})
	check.OK(t, err)
	return c
}

// app creates an app with fixed executors.
func (s *running) app(t *testing.T, name string, executors ...string) {
	t.Helper()
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: name, Executors: executors}))
}

// trigger starts a run of a job.
func (s *running) trigger(t *testing.T, job string) core.RunID {
	t.Helper()
	r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: job})
	check.OK(t, err)
	return r.Run.ID
}

// run reads a run.
func (s *running) run(t *testing.T, id core.RunID) core.Run {
	t.Helper()
	v, err := s.Manage().Run(t.Context(), id.String())
	check.OK(t, err)
	return v.Run
}

// until waits until a run is in one of some states; without any, until it has ended.
func (s *running) until(t *testing.T, id core.RunID, states ...core.State) (r core.Run) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		v, err := s.Manage().Run(t.Context(), id.String())
		if r = v.Run; err == nil && !slices.Contains(states, r.State) && (len(states) > 0 || r.State.Open()) {
			err = fmt.Errorf("run %s is %s %s %q", id, r.State, r.Reason, r.Message)
		}
		return err
	})
	return r
}

// ended waits until a run has ended, and checks how.
func (s *running) ended(t *testing.T, id core.RunID, state core.State, reason core.Reason) core.Run {
	t.Helper()
	r := s.until(t, id)
	if r.State != state || r.Reason != reason {
		t.Errorf("run %s is %s: %s, want %s: %s: %s", id, r.State, r.Reason, state, reason, r.Message)
	}
	return r
}

// startExecutor starts an executor of an app, which ends with the test.
func startExecutor(t *testing.T, o miniexec.Options) *miniexec.Executor {
	t.Helper()
	o.Token = "executors-of-" + o.App
	x, err := miniexec.Start(o)
	check.OK(t, err)
	t.Cleanup(x.Close)
	return x
}

// counted returns a function that returns an error until /metrics has all lines that begin with the texts.
func (s *running) counted(t *testing.T, texts ...string) func() error {
	return func() error {
		t.Helper()
		_, numbers := ask(t, "GET", s.URL()+"/metrics", "")
		for _, text := range texts {
			if !strings.Contains(numbers, "\n"+text) {
				return fmt.Errorf("/metrics has no %s:\n%s", text, numbers)
			}
		}
		return nil
	}
}

// findings returns the findings of doctor, with the facts that the API returns.
func (s *running) findings(t *testing.T) (list []doctor.Finding, own client.Facts) {
	t.Helper()
	c := s.client(t)
	own, err := c.GetFacts(t.Context())
	check.OK(t, err)
	jobs, err := c.GetJobFacts(t.Context())
	check.OK(t, err)
	return doctor.Judge(&doctor.Facts{Now: own.Now, Own: &own, Jobs: &jobs}), own
}

// findingsWith returns the findings whose text contains one of some parts.
func findingsWith(list []doctor.Finding, parts ...string) string {
	var found []string
	for _, x := range list {
		says := x.Says.String()
		if slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(says, part) }) {
			found = append(found, fmt.Sprintf("%s: %s; %s", x.Level, says, x.Do))
		}
	}
	return steady(strings.Join(found, "\n"))
}

// succeeded waits until a job has n successful runs, and returns its successful runs.
func (s *running) succeeded(t *testing.T, job string, n int, within time.Duration) (runs []core.Run) {
	t.Helper()
	eventually(t, within, func() error {
		page, err := s.Manage().Runs(t.Context(), query.RunFilter{Job: job, States: []core.State{core.Succeeded}})
		if runs = page.Runs; err == nil && len(runs) < n {
			err = fmt.Errorf("%d runs succeeded", len(runs))
		}
		return err
	})
	return runs
}

// ask sends a request with headers, which are pairs, and returns the status and the body of the answer.
func ask(t *testing.T, method, url, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	check.OK(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	check.OK(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	check.OK(t, err)
	return res.StatusCode, string(b)
}

func save(t *testing.T, s *running, app string, specs ...manage.JobSpec) {
	t.Helper()
	token := "executors-of-" + app
	check.Call(t)(s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: app, Token: &token}))
	saveAll(t, s, specs...)
}

func secondly(app, name string) manage.JobSpec {
	return manage.JobSpec{Def: core.Def{App: app, Name: name, Handler: "work"},
		Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Second, Aligned: true}}}}
}

// eventually repeats f until it returns nil, for results of other goroutines; it fails after limit.
func eventually(t *testing.T, limit time.Duration, f func() error) {
	t.Helper()
	check.OK(t, waiting.For(limit, f))
}

// TestFire tests a scheduled run end to end: a job that fires every second, an executor that registers, runs and reports, and the
// audit.
func TestFire(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	var mu sync.Mutex
	got := map[core.RunID]time.Time{}
	startExecutor(t, miniexec.Options{App: "web", Admin: s.URL(),
		Received: func(r *wire.Run, at time.Time) {
			mu.Lock()
			defer mu.Unlock()
			if _, twice := got[core.RunID(r.LogID)]; twice {
				t.Errorf("run %d came twice", r.LogID)
			}
			got[core.RunID(r.LogID)] = at
		}})
	save(t, s, "web", secondly("web", "beat"))
	from := core.InstantOf(time.Now()) + 2
	s.succeeded(t, "web/beat", 5, 15*time.Second) // the audit below needs at least one whole second
	mu.Lock()
	for id, at := range got {
		instant, planned := id.Planned()
		if !planned || at.Before(instant.Time()) {
			t.Errorf("run %s of %s was early: %s", id, instant, at)
		}
	}
	mu.Unlock()
	to := core.InstantOf(time.Now()) - 1
	audit, err := s.Manage().AuditAll(t.Context(), from, to)
	if err != nil || audit.Unaccounted != 0 || audit.Demanded == 0 {
		t.Errorf("audit: %+v, %v", audit, err)
	}
	check.NoError(t, s.counted(t, `tickring_runs_closed_total{app="web",state="succeeded"}`, "tickring_lateness_seconds_bucket",
		`tickring_ring_messages{kind="fires"`, "tickring_last_tick_timestamp_seconds")())
}

// TestStandby: a second server on the same data answers 503 with the reason,
// writes nothing, and takes over.
func TestStandby(t *testing.T) {
	texts := golden.New(t)
	t.Parallel()
	dir := t.TempDir()
	first := start(t, Options{Dir: dir})
	second, err := New(Options{Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	check.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- second.Run(ctx) }()
	for _, path := range []string{"/healthz", "/v1/jobs", "/api/registry", "/xxl-job-admin/api/callback", "/metrics"} {
		status, answer := ask(t, "POST", second.URL()+path, "{}")
		check.Equal(t, status, http.StatusServiceUnavailable, "%s: %s", path, answer)
		texts.Equal(t, "any request", answer)
	}
	first.stop()
	select {
	case <-second.Ready():
	case <-time.After(30 * time.Second):
		t.Fatal("the second server did not take over")
	}
	cancel()
	check.NoError(t, <-done)
}
