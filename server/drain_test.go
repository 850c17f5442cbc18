package server

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestDrain: a stop repeatedly reports the runs that it waits for and ends in time. Runs that it cuts off stay open for the next start.
func TestDrain(t *testing.T) {
	t.Parallel()
	began, over := make(chan bool, 1), make(chan bool)
	web := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		began <- true
		<-over
	})
	defer close(over)
	dir, out := t.TempDir(), &lines{}
	s := start(t, Options{Dir: dir, Notice: out, Drain: time.Second, DrainTold: 100 * time.Millisecond})
	s.app(t, "web", "call:"+web.URL)
	job := manage.JobSpec{Def: core.Def{App: "web", Name: "slow", Handler: "POST /"}}
	saveAll(t, s, job)
	s.trigger(t, "web/slow")
	select {
	case <-began:
	case <-time.After(20 * time.Second):
		t.Fatal("it is not called")
	}
	at := time.Now()
	s.stop()
	if d := time.Since(at); d < 700*time.Millisecond || d > 20*time.Second {
		t.Errorf("it lasted %s", d)
	}
	if n := strings.Count(out.String(), "stopping: waiting for 1 call, at most "); n < 2 {
		t.Errorf("it was logged %d times: %s", n, out)
	}
	s = start(t, Options{Dir: dir})
	runs, err := s.Manage().Runs(t.Context(), query.RunFilter{Job: "web/slow"})
	if err != nil || len(runs.Runs) != 1 || runs.Runs[0].State != core.Running {
		t.Errorf("%v: %+v", err, runs.Runs)
	}
}

func TestUnderWay(t *testing.T) {
	var u underWay
	for _, c := range []struct {
		sends, calls, reports int64
		want                  string
	}{{0, 0, 0, ""}, {1, 0, 0, "1 send"}, {2, 1, 3, "2 sends, 1 call, 3 callbacks"}} {
		u.sends.Store(c.sends)
		u.calls.Store(c.calls)
		u.reports.Store(c.reports)
		check.Equal(t, u.String(), c.want)
	}
}

type accepts struct{ dispatch.Sender }

func (accepts) Send(context.Context, dispatch.SendRequest) dispatch.Answer { return dispatch.Answer{} }

// TestCallbacksYield checks how long a callback waits for sends.
func TestCallbacksYield(t *testing.T) {
	for name, c := range map[string]struct {
		underWay int64
		every    time.Duration // a send begins
		dense    time.Duration // how long sends begin
		want     time.Duration
	}{
		"no sends":       {0, time.Hour, 0, 0},
		"a hanging send": {1, time.Hour, 0, yieldStep},
		"few sends":      {1, time.Millisecond, time.Second, yieldStep},
		"a burst":        {1, 100 * time.Microsecond, 23 * time.Millisecond, 30 * time.Millisecond},
		"no end":         {1, 100 * time.Microsecond, time.Second, longestYield},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var u underWay
				u.sends.Store(c.underWay)
				sender := counted{accepts{}, &u, func(core.JobID, string) {}}
				begun := time.Now()
				var sends sync.WaitGroup
				sends.Go(func() {
					for time.Since(begun) < c.dense {
						sender.Send(t.Context(), dispatch.SendRequest{Run: &core.Run{}})
						time.Sleep(c.every)
					}
				})
				u.yield(t.Context())
				check.Equal(t, time.Since(begun), c.want)
				sends.Wait()
			})
		})
	}
}
