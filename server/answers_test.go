package server

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
)

// silentExecutor takes beats and is idle, and answers runs in a way that proves nothing.
func silentExecutor(t *testing.T, run http.HandlerFunc) *httptest.Server {
	x := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/run") {
			run(w, r)
			return
		}
		fmt.Fprint(w, `{"code":200}`)
	}))
	t.Cleanup(x.Close)
	return x
}

// hangUp closes the connection of a request.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		c.Close()
	}
}

// TestUnprovenAnswersAreShown: a run whose send was answered with nothing that the protocol knows
// shows what came back while it is open, and in the message of its end.
func TestUnprovenAnswersAreShown(t *testing.T) {
	t.Parallel()
	var log tracedLog
	s := start(t, Options{SendTimeout: time.Second, TimeoutGrace: 10 * time.Millisecond, IdleGap: 50 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	c, err := client.New(s.URL(), s.Token(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: kind, Executors: []string{x.URL}}); err != nil {
			t.Fatal(err)
		}
		def := core.Def{App: kind, Name: "j", Handler: "h", Timeout: 3 * time.Second}
		if r := s.Manage().Save(t.Context(), actor, []manage.JobSpec{{Def: def}})[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
		r, err := c.TriggerJob(t.Context(), kind, "j", client.TriggerRequest{})
		if err != nil {
			t.Fatal(err)
		}
		runs[kind] = r.Run.ID
	}
	for _, open := range []bool{true, false} {
		for kind, k := range kinds {
			eventually(t, 20*time.Second, func() error {
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
