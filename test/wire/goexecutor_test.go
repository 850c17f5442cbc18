// Package wire_test tests the real server with executors of other projects.
package wire_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	xxl "github.com/xxl-job/xxl-job-executor-go"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/store"
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
	harness.Main(m, &bin, func(dir string) (err error) {
		stoodIn, err = standIns(dir)
		return err
	})
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
	e.RegTask("waits", func(ctx context.Context, p *xxl.RunReq) string {
		if goes(ctx, os.Getenv("DIR"), p.LogID) {
			fmt.Println("ended", p.LogID)
			return "let go"
		}
		if ctx.Err() == context.DeadlineExceeded {
			panic("timed out by its context")
		}
		panic("killed by its context")
	})
	fmt.Println("started")
	e.Run()
}

// goes waits until the matrix lets a run go; false if the context of the run ended before.
func goes(ctx context.Context, dir string, run int64) bool {
	for {
		if _, err := os.Stat(filepath.Join(dir, fmt.Sprint("go-", run))); err == nil {
			return true
		}
		if !store.Sleep(ctx, 20*time.Millisecond) {
			return false
		}
	}
}

func waitExecutors(t *testing.T, s *harness.Server, app string, want int) {
	t.Helper()
	check.OK(t, waiting.For(90*time.Second, func() error {
		list := harness.JSON[client.ExecutorList](t, s, "executors", app).Executors
		list = slices.DeleteFunc(list, func(x client.Executor) bool { return !x.Live })
		if len(list) != want {
			return fmt.Errorf("%d live executors, want %d: %+v", len(list), want, list)
		}
		return nil
	}))
}
