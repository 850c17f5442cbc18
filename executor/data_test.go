package executor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// TestData: data goes only with a result that a handler returns.
func TestData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := strings.Repeat("é", MaxData/2)
		mux := NewMux()
		set := func(data string, end func(context.Context, *Run) error) Handler {
			return func(ctx context.Context, r *Run) error {
				check.NoError(t, r.SetData("an earlier call"))
				check.NoError(t, r.SetData(data))
				for _, bad := range []string{full + "x", "\xff"} {
					if err := r.SetData(bad); err == nil {
						t.Errorf("data of %d bytes was taken", len(bad))
					}
				}
				return end(ctx, r)
			}
		}
		waits := func(ctx context.Context, _ *Run) error { <-ctx.Done(); return nil }
		mux.Register("succeeds", set(full, func(context.Context, *Run) error { return nil }))
		mux.Register("fails", set(`{"day":1}`, func(context.Context, *Run) error { return errors.New("no luck") }))
		mux.Register("says", set("d", func(_ context.Context, r *Run) error { r.SetResult(Timeout, "said"); return nil }))
		mux.Register("times out", set("d", waits))
		mux.Register("is killed", set("d", waits))
		mux.Register("unset", func(_ context.Context, r *Run) error { return r.SetData("") })
		f, e := started(t, mux, nil)
		for i, c := range []struct {
			handler string
			code    int
			data    string
		}{
			{"succeeds", 200, full}, {"fails", 500, `{"day":1}`}, {"says", 502, "d"}, {"times out", 502, ""}, {"is killed", 500, ""},
			{"unset", 200, ""},
		} {
			run := order(int32(i+1), int64(i+1), c.handler)
			if c.handler == "times out" {
				run.Timeout = 1
			}
			mustSend(t, e, run)
			if c.handler == "is killed" {
				synctest.Wait()
				post(e, wire.PathKill, wire.AppendKill(nil, wire.KillRequest{JobID: run.JobID}))
			}
			if it := f.result(t, run.LogID); it.Code != c.code || it.Data != c.data {
				t.Errorf("%s: code %d with data of %d bytes, want %d with %d", c.handler, it.Code, len(it.Data), c.code, len(c.data))
			}
		}
	})
}

func TestSubmittedData(t *testing.T) {
	mux := muxOf("h", func(_ context.Context, r *Run) error { return r.SetData("d") })
	e := start(t, mux, newFake(), nil)
	s := submit(t, e, order(1, 1, "h"))
	<-s.Ended()
	if r := s.Result(); r.Data != "d" || r.Outcome != Success {
		t.Errorf("%+v", r)
	}
}
