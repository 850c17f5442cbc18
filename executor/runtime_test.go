package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

func TestResults(t *testing.T) {
	mux := NewMux()
	mux.Register("ok", func(context.Context, *Run) error { return nil })
	mux.Register("says", func(_ context.Context, r *Run) error { r.SetResult(Success, "7 rows"); return nil })
	mux.Register("fails", func(context.Context, *Run) error { return errors.New("no luck") })
	mux.Register("sets", func(_ context.Context, r *Run) error { r.SetResult(Failure, "set"); return nil })
	mux.Register("times", func(_ context.Context, r *Run) error { r.SetResult(Timeout, "my own"); return nil })
	mux.Register("beats", func(_ context.Context, r *Run) error { r.SetResult(Success, "set"); return errors.New("error") })
	mux.Register("panics", func(_ context.Context, r *Run) error { r.SetResult(Success, "set"); panic("oh") })
	mux.Register("exits", func(context.Context, *Run) error { runtime.Goexit(); return nil })
	mux.Register("long", func(_ context.Context, r *Run) error { return errors.New(strings.Repeat("é", 60_000)) })
	f, e := started(t, mux, nil)
	for i, c := range []struct {
		handler string
		code    int
		msg     string
	}{
		{"ok", 200, ""}, {"says", 200, "7 rows"}, {"fails", 500, "no luck"}, {"sets", 500, "set"}, {"times", 502, "my own"},
		{"beats", 500, "error"}, {"panics", 500, "panic: oh"}, {"exits", 500, "the handler ended its goroutine instead of " +
			"returning"},
		{"long", 500, strings.Repeat("é", 50_000)},
	} {
		run := order(int32(i+1), int64(i+1), c.handler)
		run.Params = "a\nb"
		mustSend(t, e, run)
		f.want(t, run.LogID, c.code, c.msg)
		log := readLog(t, e, run)
		if !strings.Contains(log, `params: a\nb`) || !strings.Contains(log, fmt.Sprintf("end: code %d", c.code)) {
			t.Errorf("%s: the log lacks start or end:\n%.500s", c.handler, log)
		}
		if c.handler == "panics" && !strings.Contains(log, "runtime_test.go") {
			t.Errorf("the log has no stack:\n%s", log)
		}
		check.Equal(t, f.result(t, run.LogID).LogTime, run.LogTime, "log time")
	}
}

func TestRunFields(t *testing.T) {
	var got Run
	mux := muxOf("h", func(ctx context.Context, r *Run) error {
		got = Run{ID: r.ID, JobID: r.JobID, Handler: r.Handler, Params: r.Params, ScheduledAt: r.ScheduledAt, TriggeredAt: r.TriggeredAt,
			ShardIndex: r.ShardIndex, ShardTotal: r.ShardTotal, Timeout: r.Timeout}
		d, ok := ctx.Deadline()
		if !ok || time.Until(d) > time.Minute {
			t.Error("no deadline")
		}
		r.Logger().Info("hello", "n", 1)
		_, _ = r.Output().Write([]byte("raw, without end"))
		return nil
	})
	f, e := started(t, mux, nil)
	run := order(5, 5<<32|200_000_000, "h")
	// recent enough that the log is not removed
	run.Params, run.BroadcastIndex, run.BroadcastTotal, run.Timeout, run.LogTime = "p", 2, 3, 60, time.Now().Add(-time.Hour).UnixMilli()
	mustSend(t, e, run)
	f.want(t, run.LogID, 200, "")
	if got.ID != run.LogID || got.JobID != 5 || got.Handler != "h" || got.Params != "p" || got.ShardIndex != 2 || got.ShardTotal != 3 ||
		got.Timeout != time.Minute ||
		!got.TriggeredAt.Equal(time.UnixMilli(run.LogTime)) || !got.ScheduledAt.Equal(time.Date(2020, 1, 1, 0, 0, 200_000_000, 0, time.UTC)) {
		t.Errorf("the handler saw %+v", &got)
	}
	if log := readLog(t, e, run); !strings.Contains(log, "msg=hello n=1\n") || !strings.Contains(log, "raw, without end\n") {
		t.Errorf("log:\n%s", log)
	}
	for _, id := range []int64{77, 5<<32 | 1<<31 | 4, 6<<32 | 4} {
		w := order(5, id, "h")
		if r := newRun(&incoming{Run: w}, nil, false); !r.ScheduledAt.IsZero() {
			t.Errorf("run %d has the instant %v", id, r.ScheduledAt)
		}
	}
	var byHand Run
	byHand.Printf("nowhere")
	byHand.Logger().Info("nowhere")
}

func TestTyped(t *testing.T) {
	type params struct {
		N int `json:"n"`
	}
	var got params
	texts := golden.New(t)
	h := Typed(func(_ context.Context, _ *Run, p params) error { got = p; return nil })
	for text, valid := range map[string]bool{`{"n":3}`: true, "": true, " ": true, `{"m":3}`: false, `{"n":"3"}`: false, `{"n":3} {}`: false,
		`{`: false} {
		err := h(t.Context(), &Run{Params: text})
		check.Equal(t, err == nil, valid, "%q is valid: %v", text, err)
		if err != nil {
			texts.Equal(t, text, err.Error())
		}
	}
	if _ = h(t.Context(), &Run{Params: `{"n":9}`}); got.N != 9 {
		t.Errorf("got %+v", got)
	}
}

// TestAcceptedWhileWorkerEnds: a run that arrives while its job's worker ends, before or after the worker decides, runs
// once.
func TestAcceptedWhileWorkerEnds(t *testing.T) {
	for _, at := range []string{"before", "after"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				mux := muxOf("h", func(context.Context, *Run) error { runs.Add(1); return nil })
				f := newFake()
				e := prepare(t, mux, f, nil)
				reached, pass := make(chan struct{}), make(chan struct{})
				var once atomic.Bool
				barrier := func(int32) {
					if once.CompareAndSwap(false, true) {
						close(reached)
						<-pass
					}
				}
				if at == "before" {
					e.testIdle = barrier
				} else {
					e.testEnding = barrier
				}
				check.OK(t, e.Start())
				mustSend(t, e, order(1, 1, "h"))
				f.want(t, 1, 200, "")
				<-reached
				mustSend(t, e, order(1, 2, "h"))
				discard := order(1, 3, "h")
				discard.BlockStrategy = wire.BlockDiscard
				refused(t, send(e, discard), 500, "block strategy effect:")
				close(pass)
				f.want(t, 2, 200, "")
				synctest.Wait()
				if runs.Load() != 2 || len(e.workers) != 1 {
					t.Errorf("%d runs, %d workers", runs.Load(), len(e.workers))
				}
			})
		})
	}
}

func TestMemory(t *testing.T) {
	now := time.UnixMilli(1_000_000_000)
	m := memory{keep: time.Hour, most: 3, at: map[int64]int64{}}
	for id := range int64(5) {
		m.add(id, now.UnixMilli()+id, now)
	}
	if m.has(0, now) || m.has(1, now) || !m.has(2, now) || !m.has(4, now) || len(m.at) != 3 {
		t.Errorf("%+v", m)
	}
	if l := m.list(now); len(l) != 3 || l[0].ID != 2 || l[2].ID != 4 {
		t.Errorf("%v", l)
	}
	// If the clock jumps back, no run is forgotten early. If it jumps ahead, a forgotten run starts only if the scheduler
	// sends it again.
	if !m.has(2, now.Add(-24*time.Hour)) || m.has(2, now.Add(2*time.Hour)) {
		t.Error("clock jump")
	}
}
