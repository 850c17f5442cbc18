package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
)

// TestChildren: a child run is sent to its executor once for each matching end of a parent, with the child's own params. Its own
// children follow in the same way.
func TestChildren(t *testing.T) {
	var mu sync.Mutex
	var got []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, r.URL.Path+" "+string(body)+" "+r.Header.Get("Tickring-Cause"))
		mu.Unlock()
		if r.URL.Path == "/bad" {
			http.Error(w, "no luck", http.StatusInternalServerError)
		}
	}))
	defer web.Close()
	s := start(t, Options{})
	if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "web", Executors: []string{"call:" + web.URL}}); err != nil {
		t.Fatal(err)
	}
	job := func(name, path string, when core.ParentCondition, parents ...string) manage.JobSpec {
		spec := manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: "POST " + path, Params: name}}
		for _, p := range parents {
			spec.Def.After = append(spec.Def.After, core.Parent{Job: "web/" + p, When: when})
		}
		return spec
	}
	for _, r := range s.Manage().Save(t.Context(), actor, []manage.JobSpec{job("first", "/good", ""),
		job("never", "/x", core.UponFailure, "first"), job("second", "/bad", "", "first"), job("third", "/good", core.UponFailure, "second"),
		job("last", "/good", core.UponClose, "second", "third")}) {
		if r.Err != nil {
			t.Fatal(r.Name, r.Err)
		}
	}
	r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "web/first"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/bad second parent", "/good first manual", "/good last parent", "/good last parent", "/good third parent"}
	eventually(t, 20*time.Second, func() error {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("came %q, want %q", got, want)
		}
		return nil
	})
	v, err := s.Manage().Run(t.Context(), r.Run.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	children, err := s.Manage().Children(t.Context(), &v)
	if err != nil || len(children) != 1 || children[0].Job.Def.Name != "second" || children[0].Run.Parent != r.Run.ID {
		t.Errorf("children of the first: %+v, %v", children, err)
	}
}

// TestThousandChildren: 1,000 jobs after one, and 100 each after the one before it, all come,
// once.
func TestThousandChildren(t *testing.T) {
	t.Parallel()
	const fan, chain = 1000, 100
	var mu sync.Mutex
	got := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got[r.URL.Path]++
	}))
	defer web.Close()
	s := start(t, Options{})
	if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "web", Executors: []string{"call:" + web.URL}}); err != nil {
		t.Fatal(err)
	}
	specs := []manage.JobSpec{{Def: core.Def{App: "web", Name: "first", Handler: "POST /first"}}}
	after := func(name, parent string) {
		specs = append(specs, manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: "POST /" + name,
			After: []core.Parent{{Job: "web/" + parent}}}})
	}
	for i := range fan {
		after(fmt.Sprintf("fan-%d", i), "first")
	}
	for i := range chain {
		parent := "fan-0"
		if i > 0 {
			parent = fmt.Sprintf("chain-%d", i-1)
		}
		after(fmt.Sprintf("chain-%d", i), parent)
	}
	for _, r := range s.Manage().Save(t.Context(), actor, specs) {
		if r.Err != nil {
			t.Fatal(r.Name, r.Err)
		}
	}
	if _, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "web/first"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(got) < fan+chain+1 {
			return fmt.Errorf("%d of %d came", len(got), fan+chain+1)
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	for path, times := range got {
		if times != 1 {
			t.Errorf("%s came %d times", path, times)
		}
	}
}
