package server

import (
	"fmt"
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

// TestLimits: an endpoint gets at most as many runs of its app at once as the app allows, over all jobs. Each tenant gets at most
// its job's limit. All runs are sent in the end, and a waiting run names the limit that it waits for.
func TestLimits(t *testing.T) {
	var mu sync.Mutex
	came, work, most := 0, map[string]int{}, map[string]int{}
	let := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		came++
		for _, of := range []string{"app", r.URL.Path} {
			work[of]++
			most[of] = max(most[of], work[of])
		}
		mu.Unlock()
		<-let
		mu.Lock()
		work["app"]--
		work[r.URL.Path]--
		mu.Unlock()
	}))
	defer web.Close()
	s := start(t, Options{})
	if _, err := s.Manage().SaveApp(t.Context(), actor, manage.AppSpec{Name: "web", Executors: []string{"call:" + web.URL},
		Overlap: core.Overlap{Limit: 1, Key: "/tenant"}, Limits: core.Limits{InFlight: 3}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Manage().Save(t.Context(), actor, []manage.JobSpec{
		{Def: core.Def{App: "web", Name: "tenants", Handler: "POST /tenants"}},
		{Def: core.Def{App: "web", Name: "free", Handler: "POST /free", Overlap: core.Overlap{Limit: 100}}}}) {
		if r.Err != nil {
			t.Fatal(r.Name, r.Err)
		}
	}
	var runs []core.RunID
	trigger := func(job, params string) {
		t.Helper()
		r, err := s.Manage().Trigger(t.Context(), actor, operate.TriggerRequest{Job: "web/" + job, Params: &params})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r.Run.ID)
	}
	for range 3 {
		trigger("tenants", `{"tenant": "a"}`)
	}
	eventually(t, 20*time.Second, func() error { return atLeast(&mu, &came, 1) })
	for range 4 {
		trigger("free", "")
	}
	eventually(t, 20*time.Second, func() error {
		if err := atLeast(&mu, &came, 3); err != nil {
			return err
		}
		var of []string
		for _, id := range runs {
			v, err := s.Manage().Run(t.Context(), id.String())
			if err != nil {
				t.Fatal(err)
			}
			if v.Run.State == core.Queued && v.Permits != nil && slices.Contains(v.Permits.Queue, id) {
				limit, _ := core.SplitPermit(v.Permits.Name)
				of = append(of, limit)
			}
		}
		if slices.Sort(of); !slices.Equal(of, []string{"app/web", "app/web", "job/1", "job/1"}) {
			return fmt.Errorf("they wait for %v", of)
		}
		return nil
	})
	close(let)
	eventually(t, 40*time.Second, func() error { return atLeast(&mu, &came, len(runs)) })
	mu.Lock()
	defer mu.Unlock()
	if came != len(runs) || most["app"] != 3 || most["/tenants"] != 1 {
		t.Errorf("%d came of %d, %v at once", came, len(runs), most)
	}
}

func atLeast(mu *sync.Mutex, n *int, want int) error {
	mu.Lock()
	defer mu.Unlock()
	if *n < want {
		return fmt.Errorf("%d came, want %d", *n, want)
	}
	return nil
}
