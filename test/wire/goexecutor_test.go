// Package wire_test tests the real server with executors of other projects.
package wire_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xxl "github.com/xxl-job/xxl-job-executor-go"

	"github.com/tickring/tickring/internal/testkit/check"
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
	fmt.Println("started")
	e.Run()
}

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

// audit is the scheduler's own proof.
func audit(t *testing.T, s *harness.Server) {
	t.Helper()
	out := s.OK(t, "", "audit", "-o", "json")
	if !strings.Contains(out, `"unaccounted": 0`) && !strings.Contains(out, `"unaccounted":0`) {
		t.Errorf("audit: %s", out)
	}
}
