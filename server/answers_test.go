package server

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
)

// silentExecutor takes beats and is idle, and answers runs in a way that proves nothing.
func silentExecutor(t *testing.T, run http.HandlerFunc) *httptest.Server {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/run") {
			run(w, r)
			return
		}
		fmt.Fprint(w, `{"code":200}`)
	})
}

// hangUp closes the connection of a request.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		c.Close()
	}
}

// TestUnprovenAnswersAreShown: if the answer to a send is not one that the protocol defines, the run shows that answer while it is
// open, and in its final message.
func TestUnprovenAnswersAreShown(t *testing.T) {
	t.Parallel()
	var log lines
	s := start(t, Options{SendTimeout: time.Second, TimeoutGrace: 10 * time.Millisecond, IdleGap: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	c := s.client(t)
	kinds := map[string]struct {
		run  http.HandlerFunc
		want string
	}{
		"html":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello</html>") }, "answered with HTML"},
		"broken": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "out of memory", 500) }, "HTTP 500: out of memory"},
		"closes": {hangUp, "closed the connection"},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "no answer within 1 s"},
	}
	runs := map[string]string{}
	for kind, k := range kinds {
		x := silentExecutor(t, k.run)
		s.app(t, kind, x.URL)
		def := core.Def{App: kind, Name: "j", Handler: "h", Timeout: 3 * time.Second}
		saveAll(t, s, manage.JobSpec{Def: def})
		r, err := c.TriggerJob(t.Context(), kind, "j", client.TriggerRequest{})
		check.OK(t, err)
		runs[kind] = r.Run.ID
	}
	for _, open := range []bool{true, false} {
		for kind, k := range kinds {
			eventually(t, time.Minute, func() error {
				r, err := c.GetRun(t.Context(), runs[kind])
				said := r.Answer
				if !open {
					said, _ = strings.CutPrefix(r.Message, core.NotConfirmed)
				}
				if err == nil && (core.State(r.State).Open() != open || !strings.Contains(said, k.want)) {
					err = fmt.Errorf("%s: %s, answer %q, message %q", kind, r.State, r.Answer, r.Message)
				}
				return err
			})
		}
	}
	if n := strings.Count(log.String(), `msg="send not accepted" answer=unconfirmed`); n != 1 && n != 2 { // a minute may end
		t.Errorf("%d lines of one kind", n)
	}
}

// TestExecutorsByWhatSendsFound: the state of an executor combines its heartbeats with the results of sends and probes. An address
// that was never probed is unchecked. A later registration replaces a dead one; a user can also remove it, which is audited.
func TestExecutorsByWhatSendsFound(t *testing.T) {
	t.Parallel()
	s := start(t, Options{ProbeEvery: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	c := s.client(t)
	var heals atomic.Bool
	broken := silentExecutor(t, func(w http.ResponseWriter, _ *http.Request) {
		if heals.Load() {
			fmt.Fprint(w, `{"code":200}`)
			return
		}
		http.Error(w, "out of memory", 500)
	})
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	save(t, s, "shop", manage.JobSpec{Def: core.Def{App: "shop", Name: "j", Handler: "h", Route: core.RouteFirst}})
	s.app(t, "fixed", dead.URL, "call:"+dead.URL)
	saveAll(t, s, manage.JobSpec{Def: core.Def{App: "fixed", Name: "j", Handler: "/h"}})
	now := time.Now()
	put := func(address string, beat, since time.Duration) {
		t.Helper()
		x := core.Executor{App: "shop", Address: address, Beat: now.Add(-beat), Since: now.Add(-since)}
		check.OK(t, s.parts.Load().store.PutExecutor(t.Context(), x))
	}
	state := func(app, address string, want func(x client.Executor) bool) {
		t.Helper()
		eventually(t, time.Minute, func() error {
			list, err := c.ListExecutors(t.Context(), app)
			i := slices.IndexFunc(list.Executors, func(x client.Executor) bool { return x.Address == address })
			if err == nil && (i < 0 || !want(list.Executors[i])) {
				err = fmt.Errorf("%s: %+v", address, list.Executors)
			}
			return err
		})
	}
	fails := func(problem string) func(x client.Executor) bool {
		return func(x client.Executor) bool {
			return x.Live && x.Answers != nil && !*x.Answers && strings.Contains(x.Problem, problem)
		}
	}
	answers := func(x client.Executor) bool { return x.Live && x.Answers != nil && *x.Answers }

	put(broken.URL, 0, time.Minute)
	state("shop", broken.URL, answers)
	trigger := func() {
		t.Helper()
		check.Call(t)(c.TriggerJob(t.Context(), "shop", "j", client.TriggerRequest{}))
	}
	trigger()
	state("shop", broken.URL, fails("HTTP 500: out of memory"))
	facts, err := c.GetFacts(t.Context())
	if err != nil || !slices.ContainsFunc(facts.Executors, fails("HTTP 500")) {
		t.Errorf("doctor gets %+v, %v", facts.Executors, err)
	}
	heals.Store(true)
	trigger()
	state("shop", broken.URL, answers)
	state("fixed", dead.URL, func(x client.Executor) bool { // without any run
		return x.Answers != nil && !*x.Answers && !x.CheckedAt.IsZero() && strings.Contains(x.Problem, "connect")
	})
	state("fixed", "call:"+dead.URL, func(x client.Executor) bool { return x.Answers == nil }) // never probed

	put("http://127.0.0.1:1", time.Hour, 2*time.Hour) // the executor above came later
	put("http://127.0.0.1:2", 5*time.Minute, 10*time.Second)
	state("shop", "http://127.0.0.1:1", func(x client.Executor) bool { return !x.Live && x.Replaced })
	state("shop", "http://127.0.0.1:2", func(x client.Executor) bool { return !x.Live && !x.Replaced })
	if _, err := c.RemoveExecutor(t.Context(), "shop", client.ExecutorTestRequest{Address: broken.URL}); err == nil {
		t.Error("one that sends heartbeats was removed")
	}
	if _, err := c.RemoveExecutor(t.Context(), "shop", client.ExecutorTestRequest{Address: "http://127.0.0.1:2/"}); err != nil {
		t.Error(err)
	}
	list, err := c.ListExecutors(t.Context(), "shop")
	if err != nil || len(list.Executors) != 2 {
		t.Errorf("%+v, %v", list.Executors, err)
	}
	changes, err := c.ListChanges(t.Context(), client.ListChangesParams{App: "shop", Limit: 10})
	if err != nil || !slices.ContainsFunc(changes.Changes, func(x client.Change) bool {
		return x.Verb == core.VerbRemoved && x.Reason == "http://127.0.0.1:2" && x.By != ""
	}) {
		t.Errorf("%+v, %v", changes.Changes, err)
	}

	put(dead.URL, 0, 0)
	state("shop", dead.URL, fails("connection refused"))
}
