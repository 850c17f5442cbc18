package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/miniexec"
	"github.com/tickring/tickring/wire"
)

// TestLimit: if two jobs share a limit of one, one run is running and the others wait in order and name the run ahead. A cancelled
// run delays no other run.
func TestLimit(t *testing.T) {
	var mu sync.Mutex
	var came []string
	end := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		came = append(came, r.URL.Path)
		mu.Unlock()
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	defer web.Close()
	s := start(t, Options{})
	if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "web", Executors: []string{"call:" + web.URL}}); err != nil {
		t.Fatal(err)
	}
	spec := func(name string) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: "POST /" + name,
			Overlap: core.Overlap{Limit: 1, Group: "db", Max: 3}}}
	}
	for _, r := range s.Manage().Save(t.Context(), actor, []manage.JobSpec{spec("a"), spec("b"), spec("c"), spec("d")}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	view := func(id core.RunID) query.RunView {
		v, err := s.Manage().Run(t.Context(), id.String())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	var ids []core.RunID
	for i, job := range []string{"web/a", "web/b", "web/c", "web/d"} {
		r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.Run.ID)
		eventually(t, 10*time.Second, func() error {
			v := view(r.Run.ID)
			if v.Permits == nil || len(v.Permits.Holders) != 1 || v.Permits.Holders[0].First != ids[0] || len(v.Permits.Queue) != i ||
				i > 0 && (v.Run.State != core.Queued || v.Permits.Queue[i-1] != r.Run.ID || !v.Waits.IsZero()) {
				return fmt.Errorf("run %d is %s, permits %+v", i, v.Run.State, v.Permits)
			}
			return nil
		})
	}
	cl, err := client.New(s.URL(), s.Token(), client.Config{})
	if err != nil {
		t.Fatal(err)
	}
	want := client.Permit{Of: "group db", Limit: 1, HeldBy: []string{ids[0].String()}, Place: 2, Waiting: 3}
	if r, err := cl.GetRun(t.Context(), ids[2].String()); err != nil || r.Permit == nil || !reflect.DeepEqual(*r.Permit, want) {
		t.Errorf("%+v %v", r.Permit, err)
	}
	full, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "web/a"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, func() error {
		if r := view(full.Run.ID).Run; r.State != core.Skipped || r.Reason != core.ReasonQueueFull {
			return fmt.Errorf("the run that may not wait is %s %s", r.State, r.Reason)
		}
		return nil
	})
	if r, err := s.Manage().KillRun(t.Context(), actor, ids[1].String(), ""); err != nil || len(r.Cancelled) != 1 {
		t.Fatal(r, err)
	}
	for i, want := range [][]string{{"/a"}, {"/a", "/c"}, {"/a", "/c", "/d"}} {
		eventually(t, 30*time.Second, func() error {
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(came, want) {
				return fmt.Errorf("after %d ends came %v", i, came)
			}
			return nil
		})
		end <- struct{}{}
	}
	eventually(t, 30*time.Second, func() error {
		if v := view(ids[3]); v.Run.State != core.Succeeded || v.Permits != nil {
			return fmt.Errorf("the last is %s", v.Run.State)
		}
		return nil
	})
}

// TestReplaced: a run replaces the running one: the executor is asked to kill the old run, and each run names the other.
func TestReplaced(t *testing.T) {
	s := start(t, Options{})
	save(t, s, "web", manage.JobSpec{Def: core.Def{App: "web", Name: "sync", Handler: "sync",
		Overlap:         core.Overlap{Limit: 1, Full: core.FullReplace},
		WaitForExecutor: 30 * time.Second}})
	came := make(chan core.RunID, 10)
	exec, err := miniexec.Start(miniexec.Options{App: "web", Admin: s.URL(), Token: "executors-of-web",
		Received: func(r *wire.Run, _ time.Time) { came <- core.RunID(r.LogID) },
		Handle: func(ctx context.Context, r *wire.Run, _ func(string, ...any)) (int, string) {
			if r.Params == "last" {
				return wire.CodeSuccess, ""
			}
			<-ctx.Done()
			return wire.CodeFailure, "ended"
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	var ids []core.RunID
	for _, params := range []string{"first", "second", "last"} {
		r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "web/sync", Params: &params})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.Run.ID)
		select {
		case id := <-came:
			if id != r.Run.ID {
				t.Fatalf("run %d came, after %d", id, r.Run.ID)
			}
		case <-time.After(time.Minute):
			t.Fatalf("the %s did not come", params)
		}
	}
	eventually(t, 30*time.Second, func() error {
		v, err := s.Manage().Run(t.Context(), ids[2].String())
		if err == nil && v.Run.State != core.Succeeded {
			err = fmt.Errorf("the last is %s", v.Run.State)
		}
		return err
	})
	for i, id := range ids[:2] {
		v, err := s.Manage().Run(t.Context(), id.String())
		if err != nil {
			t.Fatal(err)
		}
		if r := v.Run; r.State != core.Killed || r.Reason != core.ReasonReplaced || r.KillBy != "run "+ids[i+1].String() {
			t.Errorf("%+v", r)
		}
	}
}
