package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/store/sqlite"
	"github.com/tickring/tickring/wire"
)

// TestRestored: a server that starts on a copy allocates no ID again that was allocated after the copy was made. It accounts for
// every scheduled time since.
func TestRestored(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), t.TempDir()
	jobs, runs := map[core.JobID]string{}, map[core.RunID]string{}
	work := func(s *running, when string) *miniexec.Executor {
		t.Helper()
		exec := startExecutor(t, miniexec.Options{App: "web", Admin: s.URL()})
		save(t, s, "web", secondly("web", "beat"), manage.JobSpec{Def: core.Def{App: "web", Name: "made-" + when, Handler: "work"}})
		j, err := s.Manage().Job(t.Context(), "web/made-"+when)
		check.OK(t, err)
		if other, twice := jobs[j.Def.ID]; twice {
			t.Errorf("the job made %s has number %d, which that made %s had", when, j.Def.ID, other)
		}
		jobs[j.Def.ID] = when
		for range 3 {
			id := s.trigger(t, "web/beat")
			if other, twice := runs[id]; twice {
				t.Errorf("run %d was given out %s and %s", id, other, when)
			}
			runs[id] = when
		}
		return exec
	}
	s := start(t, Options{Dir: dir})
	from := core.InstantOf(time.Now()) + 1
	exec := work(s, "before")
	eventually(t, time.Minute, func() error { return ran(s, 2) })
	exec.Close() // while the server takes its reports
	s.stop()
	check.OK(t, os.CopyFS(copied, os.DirFS(dir)))
	s = start(t, Options{Dir: dir})
	work(s, "between").Close()
	s.stop()

	out := &lines{}
	s = start(t, Options{Dir: copied, Restored: true, Notice: out})
	defer s.stop()
	check.NoError(t, out.has("restored: ")())
	work(s, "after")
	eventually(t, time.Minute, func() error { return ran(s, 5) })
	to := core.InstantOf(time.Now())
	eventually(t, time.Minute, func() error {
		a, err := s.Manage().AuditAll(context.Background(), from, to)
		if err == nil && (a.Pending > 0 || a.Unaccounted > 0 || a.Demanded < 4) {
			err = fmt.Errorf("%+v", a)
		}
		return err
	})
	f := factsOf(t, s)
	if f.Generation != 1 || f.Data == nil || f.Data.Folder != copied || f.Data.Bytes < 4096 || f.Data.Free <= 0 ||
		time.Since(f.LastTick) > 30*time.Second || f.Fires == nil || len(f.Unread) > 0 {
		t.Errorf("facts %+v, data %+v", f, f.Data)
	}
}

// doorman asks for a run while a line of the server's is printed.
type doorman struct {
	lines
	say    string
	server *Server
	status []int
	then   func()
}

func (d *doorman) Write(p []byte) (int, error) {
	if strings.Contains(string(p), d.say) {
		r, err := http.NewRequest(http.MethodPost, d.server.URL()+"/v1/jobs/web/work/trigger", strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		r.Header.Set("Authorization", "Bearer "+d.server.Token())
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		d.status = append(d.status, resp.StatusCode)
		d.then()
	}
	return d.lines.Write(p)
}

// TestRestoredOpensAfterwards: endpoints open only after the ID counters are advanced, and an interrupted restore starts again from
// the same moment.
func TestRestoredOpensAfterwards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, Options{Dir: dir})
	save(t, s, "web", manage.JobSpec{Def: core.Def{App: "web", Name: "work", Handler: "work"}})
	s.stop()
	alive := func() time.Time {
		t.Helper()
		lock, err := sqlite.TryLock(dir)
		check.OK(t, err)
		e, err := sqlite.Open(t.Context(), sqlite.Options{Lock: lock})
		check.OK(t, err)
		defer e.Close()
		at, err := e.LastAlive(t.Context())
		check.OK(t, err)
		return at
	}
	before := alive()
	ctx, cancel := context.WithCancel(t.Context())
	door := &doorman{say: "restored: ", then: cancel}
	srv, err := New(Options{Dir: dir, Restored: true, Notice: door, Listen: "127.0.0.1:0", Policy: LocalPolicy()})
	check.OK(t, err)
	door.server = srv
	if err := srv.Run(ctx); err == nil {
		t.Error("it was interrupted, but reports success")
	}
	if len(door.status) != 1 || door.status[0] != http.StatusServiceUnavailable {
		t.Errorf("while numbers are lifted a trigger is answered %v", door.status)
	}
	if at := alive(); !at.Equal(before) {
		t.Errorf("the copy was of %s; a restore that was broken off makes it %s", before, at)
	}
}

// TestRestoredCopyOnHoldTouchesNothing: a copy beside its original, as in a drill, sends nothing and does not change. It works once
// it is started normally.
func TestRestoredCopyOnHoldTouchesNothing(t *testing.T) {
	t.Parallel()
	var received atomic.Int64
	exec := startExecutor(t, miniexec.Options{App: "web", Received: func(*wire.Run, time.Time) { received.Add(1) }})
	dir := t.TempDir()
	s := start(t, Options{Dir: dir})
	save(t, s, "web", secondly("web", "beat"))
	fixed, ctx := []string{exec.URL()}, t.Context()
	check.Call(t)(s.Manage().SaveApp(ctx, actor, manage.AppSpec{Name: "web", Executors: fixed}))
	works := func() error {
		if received.Load() == 0 {
			return errors.New("nothing was sent")
		}
		return nil
	}
	eventually(t, time.Minute, works)
	s.stop()

	received.Store(0)
	begun, out := time.Now(), &lines{}
	s = start(t, Options{Dir: dir, Restored: true, Hold: true, Notice: out})
	golden.New(t).Equal(t, "output", regexp.MustCompile(`\d+(\.\d+)?( m?s)?`).ReplaceAllString(out.String(), "#"))
	check.Call(t)(s.Manage().Trigger(ctx, actor, operate.TriggerRequest{Job: "web/beat"}))
	eventually(t, time.Minute, func() error { // the job is due each second
		if time.Since(begun) < 2500*time.Millisecond {
			return errors.New("a run may still come")
		}
		return nil
	})
	f := factsOf(t, s)
	if n := received.Load(); n > 0 || f.Fenced == "" || !f.LastTick.Before(begun) {
		t.Errorf("%d runs were sent; fenced %q, last tick %s, held since %s", n, f.Fenced, f.LastTick, begun)
	}
	if status, text := ask(t, "GET", s.URL()+"/healthz", ""); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, "--start-now") {
		t.Errorf("%d %s", status, text)
	}
	s.stop()
	start(t, Options{Dir: dir, Restored: true})
	eventually(t, time.Minute, works)
}

func ran(s *running, n int) error {
	page, err := s.Manage().Runs(context.Background(),
		query.RunFilter{Job: "web/beat", Causes: []core.Cause{core.CauseSchedule, core.CauseMisfire}})
	if err == nil && len(page.Runs) < n {
		err = core.Errorf(core.CodeNotFound, "%d runs of %d", len(page.Runs), n)
	}
	return err
}

func factsOf(t *testing.T, s *running) client.Facts {
	t.Helper()
	f, err := s.client(t).GetFacts(t.Context())
	check.OK(t, err)
	return f
}
