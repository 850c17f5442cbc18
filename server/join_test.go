package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
)

// TestJoin: a job that waits for all of its parents is sent once, with the data of each. If one parent does not end in time, the
// run is skipped.
func TestJoin(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/join" {
			mu.Lock()
			got = append(got, string(body))
			mu.Unlock()
		}
	}))
	defer web.Close()
	s := start(t, Options{})
	if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "web", Executors: []string{"call:" + web.URL}}); err != nil {
		t.Fatal(err)
	}
	job := func(name, path string, within time.Duration, parents ...string) manage.JobSpec {
		spec := manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: "POST " + path, Within: within}}
		for _, p := range parents {
			spec.Def.After = append(spec.Def.After, core.Parent{Job: "web/" + p})
		}
		return spec
	}
	all := job("all", "/join", time.Hour, "a", "b")
	all.Def.Params, all.Def.Template = "{{parent.data}}", true
	for _, r := range s.Manage().Save(t.Context(), actor, []manage.JobSpec{job("a", "/x", 0), job("b", "/x", 0), job("c", "/x", 0), all,
		job("late", "/join", 2*time.Second, "a", "c")}) {
		if r.Err != nil {
			t.Fatal(r.Name, r.Err)
		}
	}
	for _, name := range []string{"a", "a", "b"} {
		if _, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "web/" + name}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 20*time.Second, func() error {
		late, err := s.Manage().Job(t.Context(), "web/late")
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.Manage().Run(t.Context(), core.NumberedRun(late.Def.ID, 1).String())
		mu.Lock()
		defer mu.Unlock()
		if want := `{"web/a":"","web/b":""}`; len(got) != 1 || got[0] != want || err != nil || v.Run.Reason != core.ReasonJoin {
			return fmt.Errorf("came %q; the one that misses a parent is %s: %s, %s", got, v.Run.State, v.Run.Reason, fmt.Sprint(err))
		}
		return nil
	})
}
