// Package harness starts the tickring binary for test suites that test it together with other programs.
package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/executor"
)

// Token is the default admin token of the servers that the harness starts.
const Token = "admin-token-of-the-rig"

// Build compiles the tickring binary into a directory and returns the path of the binary.
func Build(dir string) (string, error) {
	bin := filepath.Join(dir, "tickring")
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tickring/tickring").Output()
	if err != nil {
		return "", fmt.Errorf("find the module to build: %w", err)
	}
	// In its own module, so that its dependencies have its own versions.
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/tickring")
	cmd.Dir = strings.TrimSpace(string(root))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tickring: %w\n%s", err, out)
	}
	return bin, nil
}

// Main is TestMain of a suite: it builds the tickring binary, stores its path in bin, and runs the tests.
func Main(m *testing.M, bin *string) {
	dir, err := os.MkdirTemp("", "tickring-")
	if err == nil {
		*bin, err = Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// Server is a running `tickring serve` process. If only Bin and URL are set, Server is another server that the CLI
// calls.
type Server struct {
	Bin, Dir, URL string
	AdminToken    string // admin token of the server; empty: the constant Token
	Cmd           *exec.Cmd
	said          said
	done          chan struct{}
}

// Said returns the output of the server process so far.
func (s *Server) Said() string { return s.said.String() }

// said collects the output of a process.
type said struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// Start starts a Server and waits until the server is ready.
func Start(tb testing.TB, bin, dir string, args ...string) *Server {
	tb.Helper()
	s, err := Launch(bin, dir, args...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Kill() })
	if err := s.WaitReady(30 * time.Second); err != nil {
		tb.Fatal(err)
	}
	return s
}

// Launch starts a Server and does not wait until the server is ready.
func Launch(bin, dir string, args ...string) (*Server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	os.Remove(filepath.Join(dir, "endpoint"))
	cmd := exec.Command(bin, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Env = append(os.Environ(), "TICKRING_ADMIN_TOKEN="+Token)
	log, err := os.OpenFile(filepath.Join(dir, "serve.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &Server{Bin: bin, Dir: dir, Cmd: cmd, done: make(chan struct{})}
	cmd.Stderr, cmd.Stdout = log, &s.said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

// WaitReady waits until the server has begun to plan runs.
func (s *Server) WaitReady(limit time.Duration) error {
	return Eventually(limit, func() error {
		select {
		case <-s.done:
			return fmt.Errorf("serve ended: %s", tail(filepath.Join(s.Dir, "serve.log")))
		default:
		}
		b, err := os.ReadFile(filepath.Join(s.Dir, "endpoint"))
		if err != nil {
			return err
		}
		s.URL = strings.TrimSpace(string(b))
		resp, err := http.Get(s.URL + "/healthz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("healthz: %s", resp.Status)
		}
		return nil
	})
}

// Kill ends the server process with SIGKILL and waits until the process has ended.
func (s *Server) Kill() {
	s.Cmd.Process.Kill()
	<-s.done
}

// Stop asks the server process to stop, and waits until the process has ended.
func (s *Server) Stop(limit time.Duration) error {
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the server: %w", err)
	}
	select {
	case <-s.done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("the server has not stopped within %s", limit)
	}
}

func (s *Server) token() string { return cmp.Or(s.AdminToken, Token) }

func tail(path string) string {
	b, _ := os.ReadFile(path)
	if len(b) > 4000 {
		b = b[len(b)-4000:]
	}
	return string(b)
}

// CLI runs a command of the CLI against the server. It returns the standard output and the exit code of the command.
func (s *Server) CLI(tb testing.TB, stdin string, args ...string) (string, int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Bin, args...)
	cmd.Env = append(os.Environ(), "TICKRING_ENDPOINT="+s.URL, "TICKRING_TOKEN="+s.token())
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		tb.Fatal(err)
	}
	if errs.Len() > 0 {
		tb.Logf("%v: %s", args, errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// OK runs a CLI command that must succeed, and returns its output.
func (s *Server) OK(tb testing.TB, stdin string, args ...string) string {
	tb.Helper()
	out, code := s.CLI(tb, stdin, args...)
	if code != 0 {
		tb.Fatalf("tickring %s: exit code %d\n%s\n%s", strings.Join(args, " "), code, out, tail(filepath.Join(s.Dir, "serve.log")))
	}
	return out
}

// WaitExecutor waits until an executor of an app is registered whose address contains the given text.
func (s *Server) WaitExecutor(tb testing.TB, app, address string) {
	tb.Helper()
	if err := Eventually(time.Minute, func() error {
		if out, _ := s.CLI(tb, "", "executors", app); !strings.Contains(out, address) {
			return fmt.Errorf("no executor of %s at %s is registered: %s", app, address, out)
		}
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
}

// Execute starts an executor in this process, which stops with the test, and waits until the server knows it. It calls
// received, if set, with each request to the executor.
func (s *Server) Execute(tb testing.TB, mux *executor.Mux, o executor.Options, received func(*http.Request)) {
	tb.Helper()
	var e *executor.Executor
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if received != nil {
			received(r)
		}
		e.ServeHTTP(w, r)
	}))
	tb.Cleanup(front.Close)
	o.Servers, o.Address, o.Dir = []string{s.URL}, front.URL, tb.TempDir()
	e, err := executor.New(mux, o)
	if err == nil {
		err = e.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			tb.Errorf("executor of %s: %v", o.App, err)
		}
	})
	s.WaitExecutor(tb, o.App, front.URL)
}

// Run is a run in the JSON format of the CLI option `-o json`.
type Run struct {
	ID          string `json:"id"`
	State       string `json:"state"`
	Reason      string `json:"reason"`
	Cause       string `json:"cause"`
	Attempt     int    `json:"attempt"`
	ScheduledAt string `json:"scheduledAt"`
	Address     string `json:"address"`
	Message     string `json:"message"`
	Data        string `json:"data"`
	Code        int    `json:"code"`
}

// GetRun returns the run with the given ID.
func (s *Server) GetRun(tb testing.TB, id string) Run {
	tb.Helper()
	var r Run
	req, err := http.NewRequest(http.MethodGet, s.URL+"/v1/runs/"+id, nil)
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		tb.Fatalf("run %s: %s: %s", id, resp.Status, b)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		tb.Fatalf("run %s: %v: %s", id, err, b)
	}
	return r
}

// Trigger triggers a run of a job and returns the ID of the run.
func (s *Server) Trigger(tb testing.TB, job string, args ...string) string {
	tb.Helper()
	out := s.OK(tb, "", append([]string{"trigger", job, "-o", "json"}, args...)...)
	var r struct {
		Run struct {
			ID string `json:"id"`
		} `json:"run"`
		ID string `json:"id"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		tb.Fatalf("trigger %s: %v: %s", job, err, out)
	}
	if r.Run.ID != "" {
		return r.Run.ID
	}
	return r.ID
}

// WaitState waits until a run has the given state.
func (s *Server) WaitState(tb testing.TB, id, state string, limit time.Duration) Run {
	tb.Helper()
	var r Run
	if err := Eventually(limit, func() error {
		if r = s.GetRun(tb, id); r.State != state {
			return fmt.Errorf("run %s is %s %s (%s), not %s", id, r.State, r.Reason, r.Message, state)
		}
		return nil
	}); err != nil {
		tb.Fatal(err)
	}
	return r
}

// Eventually calls f repeatedly until f returns nil or the time limit has passed.
func Eventually(limit time.Duration, f func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(25 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return fmt.Errorf("after %s: %w", limit, err)
		}
	}
}
