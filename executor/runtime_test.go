package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
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

func TestBlockStrategies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, e := startWaiting(t, func(o *Options) { o.QueueSize = 2 })
		mustSend(t, e, order(1, 1, "w"))
		if id := <-w.began; id != 1 {
			t.Fatalf("began %d", id)
		}
		// Serial and unknown strategies queue the run.
		mustSend(t, e, order(1, 2, "w"))
		odd := order(1, 3, "w")
		odd.BlockStrategy = "WHATEVER"
		mustSend(t, e, odd)
		refused(t, send(e, order(1, 4, "w")), wire.CodeBusy, wire.MsgQueueFull)
		discard := order(1, 5, "w")
		discard.BlockStrategy = wire.BlockDiscard
		r := send(e, discard)
		refused(t, r, 500, "block strategy effect:")
		check.Equal(t, r.Verdict(), wire.VerdictBlockStrategy, "verdict")
		// Another job has a worker of its own.
		mustSend(t, e, order(2, 6, "w"))
		<-w.began
		w.word <- nil
		w.word <- nil
		synctest.Wait()
		f.want(t, 6, 200, "")
		f.want(t, 1, 200, "")
		if id := <-w.began; id != 2 {
			t.Fatalf("after 1 began %d", id)
		}
		// Replaced: the running one is cancelled, waiting ones are not executed, and the new one starts after the old one has
		// ended.
		cover := order(1, 7, "w")
		cover.BlockStrategy = wire.BlockCover
		mustSend(t, e, cover)
		f.want(t, 2, 500, "block strategy effect:Cover Early [job running, killed]")
		f.want(t, 3, 500, "block strategy effect:Cover Early [job not executed, in the job queue, killed.]")
		if id := <-w.began; id != 7 {
			t.Fatalf("began %d", id)
		}
		if err := <-w.ended; err == nil || err.Error() != reasonCover {
			t.Errorf("the cause is %v", err)
		}
		w.word <- nil
		f.want(t, 7, 200, "")
		// An idle job accepts every run.
		discard.LogID = 8
		mustSend(t, e, discard)
		<-w.began
		w.word <- nil
		f.want(t, 8, 200, "")
	})
}

func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, e := startWaiting(t, nil)
		kill := wire.AppendKill(nil, wire.KillRequest{JobID: 1})
		idle := wire.AppendIdleBeat(nil, wire.IdleBeatRequest{JobID: 1})
		if !post(e, "/kill", kill).OK() || !post(e, "/idleBeat", idle).OK() || !post(e, "/beat", nil).OK() {
			t.Error("kill of nothing, idleBeat or beat")
		}
		mustSend(t, e, order(1, 1, "w"))
		mustSend(t, e, order(1, 2, "w"))
		<-w.began
		refused(t, post(e, "/idleBeat", idle), 500, "job thread is running or has trigger queue.")
		if !post(e, "/kill", kill).OK() {
			t.Error("kill")
		}
		f.want(t, 1, 500, "scheduling center kill job. [job running, killed]")
		f.want(t, 2, 500, "scheduling center kill job. [job not executed, in the job queue, killed.]")
		synctest.Wait()
		if !post(e, "/idleBeat", idle).OK() {
			t.Error("not idle")
		}
		// A run that had ended keeps its result.
		mustSend(t, e, order(1, 3, "w"))
		<-w.began
		w.word <- nil
		synctest.Wait()
		post(e, "/kill", kill)
		f.want(t, 3, 200, "")
	})
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		deaf := make(chan struct{})
		mux := NewMux()
		mux.Register("w", w.handle)
		mux.Register("deaf", func(context.Context, *Run) error { <-deaf; return nil })
		f, e := started(t, mux, nil)
		run := order(1, 1, "w")
		run.Timeout = 3
		began := time.Now()
		mustSend(t, e, run)
		f.want(t, 1, 502, "job execute timeout ")
		if d := time.Since(began); d < 3*time.Second || d > 3*time.Second+gather {
			t.Errorf("it took %v", d)
		}
		// A handler that ignores the timeout is abandoned, counted, and blocks no other run.
		run = order(2, 2, "deaf")
		run.Timeout = 3
		mustSend(t, e, run)
		next := order(2, 3, "deaf")
		mustSend(t, e, next)
		f.want(t, 2, 502, "job execute timeout (the handler has not returned and goes on)")
		check.Equal(t, e.Strays(), 1, "strays")
		close(deaf)
		f.want(t, 3, 200, "")
		synctest.Wait()
		check.Equal(t, e.Strays(), 0, "strays")
		check.Contains(t, readLog(t, e, run), "The handler returned after its run had ended.", "log")
	})
}

func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, e := startWaiting(t, nil)
		mustSend(t, e, order(1, 1, "w"))
		mustSend(t, e, order(1, 2, "w"))
		<-w.began
		for _, id := range []int64{1, 2} {
			r := send(e, order(1, id, "w"))
			refused(t, r, 500, fmt.Sprintf("repeate trigger job, logId:%d", id))
			check.Equal(t, r.Verdict(), wire.VerdictRepeatTrigger, "verdict")
		}
		w.word <- nil
		f.want(t, 1, 200, "")
		refused(t, send(e, order(1, 1, "w")), 500, "repeate trigger job")
		pass(59 * time.Minute)
		refused(t, send(e, order(1, 1, "w")), 500, "repeate trigger job")
		pass(2 * time.Minute)
		mustSend(t, e, order(1, 1, "w"))
		w.word <- nil
		w.word <- nil
	})
}

func TestChangedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		mux := NewMux()
		mux.Register("w", w.handle)
		mux.Register("other", func(context.Context, *Run) error { return nil })
		f, e := started(t, mux, nil)
		mustSend(t, e, order(1, 1, "w"))
		mustSend(t, e, order(1, 2, "w"))
		<-w.began
		mustSend(t, e, order(1, 3, "other"))
		f.want(t, 1, 500, "change jobhandler or glue type, and terminate the old job thread. [job running, killed]")
		f.want(t, 2, 500, "change jobhandler or glue type, and terminate the old job thread. [job not executed, in the job queue, killed.]")
		f.want(t, 3, 200, "")
	})
}

func TestInitDestroyIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var all []string
		fail := errors.New("no database")
		tell := func(what string, err error) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, what)
			return err
		}
		story := func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(all, " ")
		}
		mux := NewMux()
		mux.Register("h", func(context.Context, *Run) error { return tell("run", nil) },
			Init(func(context.Context) error { return tell("init", fail) }),
			Destroy(func(context.Context) error { return tell("destroy", errors.New("logged")) }))
		f, e := started(t, mux, nil)
		mustSend(t, e, order(1, 1, "h"))
		f.want(t, 1, 500, "init of handler h: no database")
		fail = nil
		mustSend(t, e, order(1, 2, "h"))
		mustSend(t, e, order(1, 3, "h"))
		f.want(t, 3, 200, "")
		pass(89 * time.Second)
		synctest.Wait()
		check.Equal(t, story(), "init init run run", "before the idle time")
		pass(2 * time.Second)
		synctest.Wait()
		check.Equal(t, len(e.workers), 0, "the worker lives on")
		mustSend(t, e, order(1, 4, "h"))
		f.want(t, 4, 200, "")
		check.Equal(t, story(), "init init run run destroy init run", "after it")
	})
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

func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, e := startWaiting(t, nil)
		mustSend(t, e, order(1, 1, "w")) // ends within the grace
		mustSend(t, e, order(1, 2, "w")) // waits
		<-w.began
		mustSend(t, e, order(2, 3, "w")) // outlasts the grace
		<-w.began
		synctest.Wait() // it has registered, which is its first call
		began := time.Now()
		stopped := make(chan error)
		go func() { stopped <- e.Stop(t.Context()) }()
		synctest.Wait()
		r := send(e, order(3, 4, "w"))
		refused(t, r, wire.CodeBusy, "queue full: the executor is stopping")
		check.Equal(t, r.Verdict(), wire.VerdictQueueFull, "verdict")
		refused(t, post(e, "/beat", nil), 500, "The executor is stopping.")
		refused(t, post(e, "/idleBeat", wire.AppendIdleBeat(nil, wire.IdleBeatRequest{JobID: 9})), 500, "The executor is stopping.")
		f.locked(func() { check.Equal(t, f.calls[1], "one"+wire.PathRegistryRemove, "the first call of the stop") })
		f.want(t, 2, 500, "web container destroy and kill the job. [job not executed, in the job queue, killed.]")
		w.word <- nil
		check.NoError(t, <-stopped)
		if d := time.Since(began); d < 30*time.Second || d > 30*time.Second+gather {
			t.Errorf("the stop took %v", d)
		}
		got := map[string]bool{}
		for _, it := range f.items {
			got[fmt.Sprintf("%d %d %s", it.LogID, it.Code, it.Msg)] = true
		}
		killed := "500 web container destroy and kill the job. [job running, killed]"
		if !(got["1 200 "] && got["3 "+killed] || got["3 200 "] && got["1 "+killed]) || len(got) != 3 {
			t.Errorf("results: %v", got)
		}
		if err := e.Start(); !errors.Is(err, ErrStarted) {
			t.Errorf("started again: %v", err)
		}
	})
}

// A handler that never returns holds up no stop, and is reported.
func TestStopHandlerNeverReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		mux := NewMux()
		began := make(chan struct{})
		mux.Register("deaf", func(context.Context, *Run) error { close(began); <-free; return nil })
		f, e := started(t, mux, nil)
		mustSend(t, e, order(1, 1, "deaf"))
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check.NoError(t, e.Stop(ctx))
		f.want(t, 1, 500, "web container destroy and kill the job. [job running, killed] (the handler has not returned and goes on)")
		check.Equal(t, e.Strays(), 1, "it is not counted")
		close(free)
		synctest.Wait() // its last line goes into the log, in the test's directory
	})
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
