// Package harness starts the tickring binary for test suites that test it together with other programs.
package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
)

// Token is the default admin token of the servers that the harness starts.
const Token = "admin-token-of-the-rig"

// Build compiles the tickring binary into a directory and returns the path of the binary.
func Build(dir string) (string, error) {
	bin := filepath.Join(dir, "tickring")
	root, err := Repository()
	if err != nil {
		return "", err
	}
	return bin, compile(root, "./cmd/tickring", bin, os.Environ())
}

// Repository returns the folder of the repository, for programs that can run in any folder.
func Repository() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tickring/tickring").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of tickring: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}

// Root is the folder of the repository, for suites.
const Root = "../.."

// Function compiles an AWS Lambda function of a module as a deployment does, for the processor of this machine.
func Function(module, pkg, to string, flags ...string) error {
	return compile(module, pkg, to, append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOWORK=off"),
		append(flags, "-trimpath", "-buildvcs=false", "-tags", "lambda.norpc,grpcnotrace,gomailnotpl")...)
}

// compile builds a package in its own module, so that its dependencies have its own versions.
func compile(module, pkg, to string, env []string, flags ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-o", to}, flags...), pkg)...)
	cmd.Dir, cmd.Env = module, env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Main is TestMain of a suite: it builds the tickring binary, stores its path in bin, calls prepare with a folder for
// the time of the tests, and runs the tests.
func Main(m *testing.M, bin *string, prepare ...func(dir string) error) {
	dir, err := os.MkdirTemp("", "tickring-")
	if err == nil {
		*bin, err = Build(dir)
	}
	for _, f := range prepare {
		if err == nil {
			err = f(dir)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// Server is a running `tickring serve` process. If only Bin and URL are set, Server is another server that the CLI calls.
type Server struct {
	Bin, Dir, URL string
	AdminToken    string // admin token of the server; empty: the constant Token
	Cmd           *exec.Cmd
	done          chan struct{}
	api           *client.Client
}

// Said returns the output of the server process so far, without its log.
func (s *Server) Said() string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, "serve.out"))
	return string(b)
}

// Start starts a Server and waits until the server is ready.
func Start(tb testing.TB, bin, dir string, args ...string) *Server {
	tb.Helper()
	s, err := Launch(bin, dir, args...)
	check.OK(tb, err)
	tb.Cleanup(s.Kill)
	check.OK(tb, s.WaitReady(30*time.Second))
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
	out, err := os.Create(filepath.Join(dir, "serve.out"))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	s := &Server{Bin: bin, Dir: dir, Cmd: cmd, done: make(chan struct{})}
	cmd.Stderr, cmd.Stdout = log, out
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
	return waiting.For(limit, func() error {
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

// Command returns a command of the CLI that calls the server.
func (s *Server) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.Bin, args...)
	cmd.Env = append(os.Environ(), "TICKRING_ENDPOINT="+s.URL, "TICKRING_TOKEN="+s.token())
	return cmd
}

// CLI runs a command of the CLI against the server. It returns the standard output and the exit code of the command.
func (s *Server) CLI(tb testing.TB, stdin string, args ...string) (string, int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := s.Command(ctx, args...)
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
	check.OK(tb, waiting.For(time.Minute, func() error {
		if out, _ := s.CLI(tb, "", "executors", app); !strings.Contains(out, address) {
			return fmt.Errorf("no executor of %s at %s is registered: %s", app, address, out)
		}
		return nil
	}))
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
	check.OK(tb, err)
	check.OK(tb, e.Start())
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			tb.Errorf("executor of %s: %v", o.App, err)
		}
	})
	s.WaitExecutor(tb, o.App, front.URL)
}

// Background starts a program that ends with the test. A test that fails logs its output.
func Background(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, 10*time.Second
	check.OK(tb, cmd.Start())
	tb.Cleanup(func() {
		cmd.Process.Kill()
		if err := cmd.Wait(); tb.Failed() {
			tb.Logf("%s: %v\n%s", cmd.Path, err, &out)
		}
	})
}

// JSON runs a CLI command that must succeed, and returns its output.
func JSON[T any](tb testing.TB, s *Server, args ...string) (v T) {
	tb.Helper()
	out := s.OK(tb, "", append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		tb.Fatalf("tickring %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return v
}

// Runs returns the runs that the CLI lists with some arguments.
func (s *Server) Runs(tb testing.TB, args ...string) []client.Run {
	tb.Helper()
	return JSON[client.RunPage](tb, s, append([]string{"runs"}, args...)...).Runs
}

// GetRun returns the run with the given ID.
func (s *Server) GetRun(tb testing.TB, id string) client.Run {
	tb.Helper()
	var err error
	if s.api == nil {
		s.api, err = client.New(s.URL, s.token(), client.Config{})
		check.OK(tb, err)
	}
	r, err := s.api.GetRun(tb.Context(), id)
	if err != nil {
		tb.Fatalf("run %s: %v", id, err)
	}
	return r
}

// Trigger triggers a run of a job and returns the ID of the run.
func (s *Server) Trigger(tb testing.TB, job string, args ...string) string {
	tb.Helper()
	return JSON[client.TriggerResult](tb, s, append([]string{"trigger", job}, args...)...).Run.ID
}

// WaitState waits until a run has the given state.
func (s *Server) WaitState(tb testing.TB, id, state string, limit time.Duration) (r client.Run) {
	tb.Helper()
	check.OK(tb, waiting.For(limit, func() error {
		if r = s.GetRun(tb, id); r.State != state {
			return fmt.Errorf("run %s is %s %s (%s), not %s", id, r.State, r.Reason, r.Message, state)
		}
		return nil
	}))
	return r
}

// Audit checks that the server's own audit, with these arguments, accounts for every run.
func (s *Server) Audit(tb testing.TB, args ...string) {
	tb.Helper()
	out := s.OK(tb, "", append([]string{"audit", "-o", "json"}, args...)...)
	check.Contains(tb, strings.ReplaceAll(out, " ", ""), `"unaccounted":0`, "audit")
}
