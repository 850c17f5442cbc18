package server

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestChildren: a child run is sent to its executor once for each matching end of a parent, with the child's own params. Its own
// children follow in the same way.
func TestChildren(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	web := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, r.URL.Path+" "+string(body)+" "+r.Header.Get("Tickring-Cause"))
		mu.Unlock()
		if r.URL.Path == "/bad" {
			http.Error(w, "no luck", http.StatusInternalServerError)
		}
	})
	s := start(t, Options{})
	s.app(t, "web", "call:"+web.URL)
	job := func(name, path string, when core.ParentCondition, parents ...string) manage.JobSpec {
		spec := manage.JobSpec{Def: core.Def{App: "web", Name: name, Handler: "POST " + path, Params: name}}
		for _, p := range parents {
			spec.Def.After = append(spec.Def.After, core.Parent{Job: "web/" + p, When: when})
		}
		return spec
	}
	saveAll(t, s, job("first", "/good", ""),
		job("never", "/x", core.UponFailure, "first"), job("second", "/bad", "", "first"), job("third", "/good", core.UponFailure, "second"),
		job("last", "/good", core.UponClose, "second", "third"))
	id := s.trigger(t, "web/first")
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
	v, err := s.Manage().Run(t.Context(), id.String())
	check.OK(t, err)
	children, err := s.Manage().Children(t.Context(), &v)
	if err != nil || len(children) != 1 || children[0].Job.Def.Name != "second" || children[0].Run.Parent != id {
		t.Errorf("children of the first: %+v, %v", children, err)
	}
}
