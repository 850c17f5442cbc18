// Package wire_test tests the real server with executors of other projects.
package wire_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	xxl "github.com/xxl-job/xxl-job-executor-go"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/freeport"
	"github.com/tickring/tickring/test/harness"
)

var bin string

// TestMain builds the binary once. With GO_EXECUTOR set the process is the
// executor instead: one of a process of its own can be killed.
func TestMain(m *testing.M) {
	switch kind := os.Getenv("GO_EXECUTOR"); kind {
	case "":
	case "sdk", "xxl 3.4", "xxl 3.5":
		sdkExecutor(kind)
		return
	default:
		goExecutor()
		return
	}
	dir, err := os.MkdirTemp("", "tickring-wire-")
	if err == nil {
		bin, err = harness.Build(dir)
	}
	if err == nil {
		stoodIn, err = standIns(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// goExecutor is xxl-job-executor-go, set up as in its README, with a few handlers.
func goExecutor() {
	e := xxl.NewExecutor(
		xxl.ServerAddr(os.Getenv("ADMIN")), xxl.AccessToken(os.Getenv("ACCESS_TOKEN")), xxl.RegistryKey(os.Getenv("APP")),
		xxl.ExecutorIp("127.0.0.1"), xxl.ExecutorPort(os.Getenv("PORT")),
	)
	e.Init()
	e.LogHandler(func(req *xxl.LogReq) *xxl.LogRes {
		lines := []string{fmt.Sprintf("log of run %d", req.LogID), "second line"}
		from := max(req.FromLineNum, 1)
		content := ""
		for i := from; i <= len(lines); i++ {
			content += lines[i-1] + "\n"
		}
		return &xxl.LogRes{Code: xxl.SuccessCode, Content: xxl.LogResContent{FromLineNum: req.FromLineNum, ToLineNum: len(lines),
			LogContent: content, IsEnd: true}}
	})
	e.RegTask("shard", func(_ context.Context, p *xxl.RunReq) string {
		return fmt.Sprintf("shard %d of %d", p.BroadcastIndex, p.BroadcastTotal)
	})
	e.RegTask("hello", func(_ context.Context, p *xxl.RunReq) string { return "hello " + p.ExecutorParams })
	e.RegTask("panics", func(context.Context, *xxl.RunReq) string { panic("no luck") })
	e.RegTask("empty", func(context.Context, *xxl.RunReq) string { return "" })
	e.RegTask("fails", func(context.Context, *xxl.RunReq) string { panic("no luck") })
	waits := func(ctx context.Context, p *xxl.RunReq) string {
		free := make(chan struct{})
		if dir := os.Getenv("DIR"); dir != "" { // of the matrix
			go func() {
				for ctx.Err() == nil {
					if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("go-%d", p.LogID))); err == nil {
						close(free)
						return
					}
					<-time.After(20 * time.Millisecond)
				}
			}()
		}
		select {
		case <-free:
			fmt.Println("ended", p.LogID)
			return "let go"
		case <-ctx.Done():
		}
		if ctx.Err() == context.DeadlineExceeded {
			panic("timed out by its context")
		}
		panic("killed by its context")
	}
	e.RegTask("waits", waits)
	e.RegTask("limits", waits) // it has one context and run for all jobs of a handler
	fmt.Println("started")
	e.Run()
}

type executor struct {
	cmd  *exec.Cmd
	port string
}

func startExecutor(t *testing.T, s *harness.Server, admin, port string) *executor {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GO_EXECUTOR=1", "ADMIN="+admin, "ACCESS_TOKEN=executors-token", "APP=golang", "PORT="+port)
	out, err := cmd.StdoutPipe()
	check.OK(t, err)
	cmd.Stderr = nil
	check.OK(t, cmd.Start())
	line := bufio.NewReader(out)
	go func() {
		for {
			text, err := line.ReadString('\n')
			if err != nil {
				return
			}
			os.Stderr.WriteString(text)
		}
	}()
	e := &executor{cmd: cmd, port: port}
	t.Cleanup(e.kill)
	return e
}

func (e *executor) kill() {
	e.cmd.Process.Kill()
	e.cmd.Wait()
}

// stop stops the executor as an operator does, so that it deregisters.
func (e *executor) stop() {
	e.cmd.Process.Signal(syscall.SIGTERM)
	e.cmd.Wait()
}

const manifest = `
version: 1
set: golang
apps:
  - name: golang
    token: executors-token
jobs:
  - {app: golang, name: hello, handler: hello, params: world}
  - {app: golang, name: tick, handler: hello, params: tick, schedule: {every: 1s}}
  - {app: golang, name: panics, handler: panics, retry: {max: 2, delay: 1s}}
  - {app: golang, name: unknown, handler: nobody-knows-it}
  - {app: golang, name: waits, handler: waits}
  - {app: golang, name: limited, handler: limits, timeout: 2s}
`

func waitExecutors(t *testing.T, s *harness.Server, app string, want int) {
	t.Helper()
	check.OK(t, harness.Eventually(90*time.Second, func() error {
		out := s.OK(t, "", "executors", app, "-o", "json")
		if n := strings.Count(out, `"live": true`) + strings.Count(out, `"live":true`); n != want {
			return fmt.Errorf("%d live executors, want %d: %s", n, want, out)
		}
		return nil
	}))
}

func TestGoExecutor(t *testing.T) {
	for _, path := range []string{"", "/xxl-job-admin"} {
		t.Run("admin"+path, func(t *testing.T) {
			t.Parallel() // most of it waits for the expiry
			goExecutorSuite(t, path)
		})
	}
}

func goExecutorSuite(t *testing.T, path string) {
	s := harness.Start(t, bin, t.TempDir(), "--tune", "expiry=45s", "--tune", "beatWrite=1s")
	s.OK(t, manifest, "apply", "-f", "-")
	port := freeport.Free(t)
	e := startExecutor(t, s, s.URL+path, port)
	listening(t, port)
	waitExecutors(t, s, "golang", 1)

	run := s.WaitState(t, s.Trigger(t, "golang/hello"), "succeeded", 30*time.Second)
	if run.Message != "hello world" || run.Code != 200 || run.Address != "http://127.0.0.1:"+port {
		t.Errorf("run %+v", run)
	}
	run = s.WaitState(t, s.Trigger(t, "golang/hello", "--params", "中文 \"quoted\""), "succeeded", 30*time.Second)
	if run.Message != `hello 中文 "quoted"` {
		t.Errorf("params given with the trigger: %q", run.Message)
	}
	if err := harness.Eventually(30*time.Second, func() error {
		out := s.OK(t, "", "runs", "golang/tick", "-o", "json")
		if n := strings.Count(out, "succeeded"); n < 3 {
			return fmt.Errorf("%d runs of a job that fires every second", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if out := s.OK(t, "", "logs", run.ID); !strings.Contains(out, "log of run "+run.ID) || !strings.Contains(out, "second line") {
		t.Errorf("log: %q", out)
	}

	id := s.Trigger(t, "golang/panics")
	run = s.WaitState(t, id, "failed", 30*time.Second)
	if run.Reason != "handler" || !strings.Contains(run.Message, "no luck") {
		t.Errorf("run that panicked: %+v", run)
	}
	if err := harness.Eventually(30*time.Second, func() error {
		out := s.OK(t, "", "runs", "golang/panics", "-o", "json")
		if n := strings.Count(out, `"failed"`); n != 3 {
			return fmt.Errorf("%d attempts failed, want 3: %s", n, out)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}

	run = s.WaitState(t, s.Trigger(t, "golang/unknown"), "failed", 30*time.Second)
	if run.Reason != "not-accepted" || !strings.Contains(run.Message, "not registered") {
		t.Errorf("unknown handler: %+v", run)
	}

	id = s.Trigger(t, "golang/waits")
	s.WaitState(t, id, "running", 30*time.Second)
	busy := s.WaitState(t, s.Trigger(t, "golang/waits"), "skipped", 30*time.Second)
	if busy.Reason != "overlap" {
		t.Errorf("second run while one runs: %+v", busy)
	}
	s.OK(t, "", "kill", id)
	run = s.WaitState(t, id, "killed", 30*time.Second)
	if run.Reason != "person" {
		t.Errorf("killed run: %+v", run)
	}

	run = s.WaitState(t, s.Trigger(t, "golang/limited"), "failed", 30*time.Second)
	if !strings.Contains(run.Message, "timed out by its context") {
		t.Errorf("run over its timeout: %+v", run)
	}

	// It disappears without a word, with a run under way.
	id = s.Trigger(t, "golang/waits")
	s.WaitState(t, id, "running", 30*time.Second)
	e.kill()
	waitExecutors(t, s, "golang", 0) // the Go client beats every 20 s, so expiry is two beats and a little more
	gone := s.WaitState(t, s.Trigger(t, "golang/hello"), "failed", 30*time.Second)
	if gone.Reason != "no-executor" {
		t.Errorf("run without executor: %+v", gone)
	}
	// It returns at the same address, and then deregisters.
	e = startExecutor(t, s, s.URL+path, port)
	listening(t, port)
	waitExecutors(t, s, "golang", 1)
	s.WaitState(t, s.Trigger(t, "golang/hello"), "succeeded", 30*time.Second)
	e.stop()
	waitExecutors(t, s, "golang", 0)

	audit(t, s)
}

// audit is the scheduler's own proof.
func audit(t *testing.T, s *harness.Server) {
	t.Helper()
	out := s.OK(t, "", "audit", "-o", "json")
	if !strings.Contains(out, `"unaccounted": 0`) && !strings.Contains(out, `"unaccounted":0`) {
		t.Errorf("audit: %s", out)
	}
}
