package executor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/wire"
)

// TestWordOnTheRetry: Snooze and Cancel travel with the result, survive the process, and do not apply to a killed or
// timed-out run.
func TestWordOnTheRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		says := map[string]struct {
			err  error
			want wire.CallbackItem
		}{
			"snoozes": {Snooze(90*time.Second + 1), wire.CallbackItem{Msg: "snoozed for 1m30.000000001s", RetryAfter: 91}},
			"wraps": {fmt.Errorf("the bank is shut: %w", Snooze(time.Hour)),
				wire.CallbackItem{Msg: "the bank is shut: snoozed for 1h0m0s", RetryAfter: 3600}},
			"too long": {Snooze(25 * time.Hour), wire.CallbackItem{Msg: "a snooze is 1s to 24h, not 25h0m0s"}},
			"not":      {Snooze(-time.Second), wire.CallbackItem{Msg: "a snooze is 1s to 24h, not -1s"}},
			"cancels":  {Cancel(errors.New("no such month")), wire.CallbackItem{Msg: "no such month", RetryAfter: wire.NeverRetry}},
			"nil":      {Cancel(nil), wire.CallbackItem{Msg: "cancelled by its handler", RetryAfter: wire.NeverRetry}},
			"fails":    {errors.New("no luck"), wire.CallbackItem{Msg: "no luck"}},
		}
		mux := NewMux()
		for name, s := range says {
			mux.Register(name, func(_ context.Context, r *Run) error { return errors.Join(r.SetData("d"), s.err) })
		}
		mux.Register("times out", func(ctx context.Context, _ *Run) error { <-ctx.Done(); return Snooze(time.Hour) })
		down := newFake()
		down.set(func(string, string, []byte) string { return "" })
		dir := t.TempDir()
		e := start(t, mux, down, func(o *Options) { o.Dir = dir })
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
		synctest.Wait()
		f := newFake()
		left := copyJournal(t, dir)
		start(t, mux, f, func(o *Options) { o.Dir = left })
		for name, s := range says {
			if it := f.result(t, ids[name]); it.Code != 500 || it.Msg != s.want.Msg || it.RetryAfter != s.want.RetryAfter || it.Data != "d" {
				t.Errorf("%s: %+v, want %+v", name, it, s.want)
			}
		}
		if it := f.result(t, late.LogID); it.Code != 502 || it.RetryAfter != 0 {
			t.Errorf("timed out: %+v", it)
		}
	})
}
