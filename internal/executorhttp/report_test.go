package executorhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
)

// If the key cannot be read, no client is rejected for good, and the cause of the failure stays
// inside.
func TestKeyThatCannotBeRead(t *testing.T) {
	err := errors.New("AccessDenied")
	mux := http.NewServeMux()
	key := func(context.Context) ([]byte, error) { return []byte("key"), err }
	mux.HandleFunc("POST /v1/report/{run}", Config{Log: discard}.Report(nil, key))
	w := post(mux, "/v1/report/4294967297", "", nil, -1)
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "AccessDenied") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	err = nil
	check.Equal(t, post(mux, "/v1/report/4294967297?key=x", "", nil, -1).Code, http.StatusUnauthorized, "a wrong key")
}

// TestReportOfASnooze: a report after a 202 has a word on the retry, too.
func TestReportOfASnooze(t *testing.T) {
	e := open(t)
	mux := serve(e, Config{}, wiring.Options{})
	for i, c := range []struct {
		after  string
		status int
		want   core.Reason
	}{{"600", 200, core.ReasonSnoozed}, {"-1", 200, core.ReasonCancelled}, {"-99", 200, core.ReasonCancelled}, {"0", 200, core.ReasonHandler},
		{"86401", 200, core.ReasonHandler}, {`"soon"`, 400, ""}, {"99999999999", 400, ""}} {
		run := core.Run{ID: core.NumberedRun(1, uint32(i+1)), App: "a", State: core.Running, Cause: core.CauseManual, Rev: 1, Owner: "x",
			Address: "call:http://a", Attempt: 1}
		run.First = run.ID
		check.OK(t, e.CreateRuns(t.Context(), []core.Run{run})[0])
		w := post(mux, report(run.ID), "", strings.NewReader(`{"state":"failed","message":"why","retryAfter":`+c.after+`}`), -1)
		if got := memory.Run(t, e, run.ID); w.Code != c.status || got.Reason != c.want {
			t.Errorf("%s: %d %s, %s %s", c.after, w.Code, w.Body, got.State, got.Reason)
		}
	}
}

// TestBodiesInHandAreBounded: long reports of one job, and long requests to queues of one app,
// leave room for others; a client without room gets an error that shows it.
func TestBodiesInHandAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := serve(open(t), Config{}, wiring.Options{})
		ask := func(path string, body io.Reader) int { return post(mux, path, "secret", body, 60<<10).Code }
		for path, other := range map[string]string{report(core.NumberedRun(1, 1)): report(core.NumberedRun(2, 1)), "/v1/queue/runs": ""} {
			var held sync.WaitGroup
			body, end := io.Pipe()
			for range heldLong / 2 {
				held.Go(func() { ask(path, body) })
			}
			synctest.Wait()
			check.Equal(t, ask(path, strings.NewReader("x")), http.StatusServiceUnavailable, "%s, one more", path)
			if other != "" {
				check.Equal(t, ask(other, strings.NewReader("x")), http.StatusBadRequest, "%s, of another", other)
			}
			end.Close()
			held.Wait()
			check.Equal(t, ask(path, strings.NewReader("x")), http.StatusBadRequest, "%s, once they are gone", path)
		}
	})
}
