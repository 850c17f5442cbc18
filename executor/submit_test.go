package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// TestSubmittedForNobodyElse: without servers only the caller of Submit needs a result. The executor keeps only that the
// run has ended, so it can run any number of them.
func TestSubmittedForNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := started(t, okMux(), func(o *Options) { o.Servers, o.MaxUnreported = nil, 3 })
		// Runs that a server sent keep their results for a server.
		for id := int64(101); id <= 103; id++ {
			mustSend(t, e, order(2, id, "ok"))
		}
		synctest.Wait()
		refused(t, send(e, order(2, 104, "ok")), wire.CodeBusy, "queue full: too many results wait for a server")
		for id := int64(1); id <= 20; id++ {
			s := submit(t, e, order(1, id, "ok"))
			<-s.Ended()
			if s.Result().Outcome != Success {
				t.Fatalf("run %d: %v", id, s.Result())
			}
		}
		check.Equal(t, e.Unreported(), 3, "results are kept, want the 3 that a server may take")
		again := func(e *Executor) {
			t.Helper()
			run := order(1, 7, "ok")
			if _, err := e.Submit(t.Context(), wire.AppendOrder(nil, &run)); !errors.Is(err, ErrReported) {
				t.Errorf("a run that has ended: %v", err)
			}
		}
		again(e)
		_, e = afterCrash(t, okMux(), e)
		again(e)
		check.Equal(t, e.Unreported(), 3, "results after a crash")
	})
}

// TestSubmittedAgainAfterACrash: without servers a submitted run that a crash interrupted belongs to its caller. If
// submitted again, it is accepted and starts again.
func TestSubmittedAgainAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang, again atomic.Bool // of handlers side by side
		hang.Store(true)
		mux := muxOf("h", func(ctx context.Context, r *Run) error {
			if again.Store(r.Again); hang.Load() {
				<-ctx.Done()
			}
			return nil
		})
		_, e := started(t, mux, func(o *Options) { o.Servers = nil })
		submit(t, e, order(1, 7, "h"))
		mustSend(t, e, order(2, 8, "h")) // from a server, which may learn its result

		for range 2 { // of a crash after another, too
			_, e = afterCrash(t, mux, e)
			pass(time.Second)
		}
		hang.Store(false)
		run := order(1, 7, "h")
		s, err := e.Submit(t.Context(), wire.AppendOrder(nil, &run), Redelivered())
		check.OK(t, err)
		<-s.Ended()
		if s.Result().Outcome != Success || !again.Load() {
			t.Errorf("%+v, again: %t", s.Result(), again.Load())
		}
		check.Equal(t, e.Unreported(), 1, "results are kept, want the one that a server may take")
	})
}

// TestRepeatWhileUnreported: a run with an unreported result is not accepted again, however long the result waits.
func TestRepeatWhileUnreported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		mux := muxOf("h", func(context.Context, *Run) error { ran++; return nil })
		f := newFake()
		f.set(func(string, string, []byte) string { return "" })
		e := start(t, mux, f, func(o *Options) { o.RememberMax = 1 })
		mustSend(t, e, order(1, 1, "h"))
		mustSend(t, e, order(1, 2, "h")) // the memory has room for one
		pass(2 * time.Hour)
		run := order(1, 1, "h")
		refused(t, send(e, run), 500, "repeate trigger job")
		if _, err := e.Submit(t.Context(), wire.AppendOrder(nil, &run)); !errors.Is(err, ErrOpen) {
			t.Errorf("submitted: %v", err)
		}
		f.set(nil)
		f.want(t, 1, 200, "")
		f.want(t, 2, 200, "")
		synctest.Wait()
		check.Equal(t, ran, 2, "the handler was called N times")
	})
}
