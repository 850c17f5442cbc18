package executor

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

func submit(tb testing.TB, e *Executor, run wire.Run) *Submitted {
	tb.Helper()
	s, err := e.Submit(context.Background(), wire.AppendOrder(nil, &run))
	check.OK(tb, err)
	return s
}

// TestGivenUpIsCompletedOnce: a run that a stop abandoned is completed once, even if its handler reacts too late and
// returns a moment later.
func TestGivenUpIsCompletedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := NewMux()
		began := make(chan struct{}, 2)
		mux.Register("slow", func(ctx context.Context, _ *Run) error {
			began <- struct{}{}
			<-ctx.Done()
			pass(1500 * time.Millisecond)
			return nil
		})
		f := newFake()
		dir := t.TempDir()
		e := start(t, mux, f, func(o *Options) { o.Dir = dir })
		s := submit(t, e, order(1, 1, "slow"))
		mustSend(t, e, order(2, 2, "slow"))
		<-began
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := e.Stop(ctx); err == nil {
			t.Error("no word of the handlers that go on")
		}
		<-s.Ended()
		told := s.Result()
		check.Equal(t, e.Strays(), 2, "strays")
		pass(time.Minute)
		synctest.Wait()
		if e.Strays() != 0 || s.Result() != told {
			t.Errorf("%d strays, result %v", e.Strays(), s.Result())
		}
		start(t, mux, f, func(o *Options) { o.Dir = dir })
		for id := int64(1); id <= 2; id++ {
			f.want(t, id, 500, "web container destroy and kill the job. [job running, killed] (the handler has not returned and goes on)")
		}
	})
}

// TestStopDuringStart: a stop during Start takes effect, and releases the directory for the next executor.
func TestStopDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		// A damaged journal logs a message while it is read; the stop comes at that moment.
		check.OK(t, os.WriteFile(filepath.Join(dir, "journal-0000000000000001"), []byte("torn"), 0o600))
		var e *Executor
		said := 0
		f := newFake()
		e = prepare(t, okMux(), f, func(o *Options) {
			o.Dir = dir
			o.Log = slog.New(hook(func() {
				if said++; said == 1 {
					check.NoError(t, e.Stop(t.Context()))
				}
			}))
		})
		if err := e.Start(); err == nil || said == 0 {
			t.Errorf("it started: %v, and logged %d lines", err, said)
		}
		refused(t, send(e, order(1, 1, "ok")), wire.CodeBusy, "queue full: the executor is stopping")
		check.NoError(t, e.Stop(t.Context()))
		pass(time.Hour)
		f.mu.Lock()
		calls := f.calls
		f.mu.Unlock()
		check.Equal(t, len(calls), 0, "it called %v", calls)
		mustSend(t, start(t, okMux(), f, func(o *Options) { o.Dir = dir }), order(1, 1, "ok"))
		f.want(t, 1, 200, "")
	})
}

// hook is a slog.Handler that calls itself at each line.
type hook func()

func (h hook) Enabled(context.Context, slog.Level) bool  { return true }
func (h hook) Handle(context.Context, slog.Record) error { h(); return nil }
func (h hook) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h hook) WithGroup(string) slog.Handler             { return h }

// TestStopWithDeadServers: servers that do not answer do not shorten the grace time of runs.
func TestStopWithDeadServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiting()
		mux := muxOf("w", w.handle)
		f := newFake()
		f.answer = func(string, string, []byte) string { return silence }
		ten := func(o *Options) {
			o.Servers = nil
			for i := range 10 {
				o.Servers = append(o.Servers, fmt.Sprintf("http://dead-%d", i))
			}
		}
		idle := start(t, mux, f, ten)
		began := time.Now()
		check.NoError(t, idle.Stop(t.Context()))
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("an idle executor took %v to stop", d)
		}

		e := start(t, mux, f, ten)
		at, waits := submit(t, e, order(1, 1, "w")), submit(t, e, order(1, 2, "w"))
		<-w.began
		began = time.Now()
		stopped := make(chan error)
		go func() { stopped <- e.Stop(t.Context()) }()
		<-waits.Ended()
		check.Equal(t, time.Since(began), 0, "the waiting run was answered after")
		<-at.Ended()
		check.Equal(t, time.Since(began), 30*time.Second, "the running one had")
		check.NoError(t, <-stopped)
	})
}

// TestStopBehindADeadServer: a server after an unresponsive one is notified of the stop.
func TestStopBehindADeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.answer = oneGives(silence)
		e := start(t, okMux(), f, twoServers)
		check.NoError(t, e.Stop(t.Context()))
		check.Equal(t, f.calls[len(f.calls)-1], "two"+wire.PathRegistryRemove, "its last call")
	})
}

// TestStopCutsAReportOff: a stop that interrupts a report sends it again, and does not log that no server takes results.
func TestStopCutsAReportOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		asked := 0
		f.answer = func(_, path string, _ []byte) string {
			if path == wire.PathCallback {
				if asked++; asked == 1 {
					return silence
				}
			}
			return taken
		}
		var out lockedBuffer
		e := start(t, okMux(), f, func(o *Options) { o.Log = out.log() })
		mustSend(t, e, order(1, 1, "ok"))
		synctest.Wait()
		check.NoError(t, e.Stop(t.Context()))
		if len(f.items) != 1 || asked != 2 || strings.Contains(out.String(), "not accepted by any server") {
			t.Errorf("%d asked, taken %+v, log %s", asked, f.items, out.String())
		}
	})
}
