package executor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/wire"
)

// TestWordOnTheRetry: Snooze and Cancel travel with the result, survive the process, and do not apply to a killed or
// timed-out run.
func TestWordOnTheRetry(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		says := map[string]struct {
			err        error
			retryAfter int64
		}{
			"snoozes":  {Snooze(90*time.Second + 1), 91},
			"wraps":    {fmt.Errorf("the bank is shut: %w", Snooze(time.Hour)), 3600},
			"too long": {Snooze(25 * time.Hour), 0},
			"not":      {Snooze(-time.Second), 0},
			"cancels":  {Cancel(errors.New("no such month")), wire.NeverRetry},
			"nil":      {Cancel(nil), wire.NeverRetry},
			"fails":    {errors.New("no luck"), 0},
		}
		mux := NewMux()
		for name, s := range says {
			mux.Register(name, func(_ context.Context, r *Run) error { return errors.Join(r.SetData("d"), s.err) })
		}
		mux.Register("times out", func(ctx context.Context, _ *Run) error { <-ctx.Done(); return Snooze(time.Hour) })
		down, e := started(t, mux, nil)
		down.set(atPath(wire.PathCallback, ""))
		ids, id := map[string]int64{}, int64(0)
		for name := range says {
			id++
			ids[name] = id
			mustSend(t, e, order(int32(id), id, name))
		}
		late := order(int32(id+1), id+1, "times out")
		late.Timeout = 1
		mustSend(t, e, late)
		pass(2 * time.Second)
		f, _ := afterCrash(t, mux, e)
		for name, s := range says {
			it := f.result(t, ids[name])
			if it.Code != 500 || it.RetryAfter != s.retryAfter || it.Data != "d" {
				t.Errorf("%s: %+v, want a retry after %d s", name, it, s.retryAfter)
			}
			texts.Equal(t, name, it.Msg)
		}
		if it := f.result(t, late.LogID); it.Code != 502 || it.RetryAfter != 0 {
			t.Errorf("timed out: %+v", it)
		}
	})
}
