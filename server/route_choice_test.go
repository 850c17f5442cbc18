package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/route"
	"github.com/tickring/tickring/executor"
)

// fleet are three executors made with the SDK, in the order of their addresses.
type fleet struct {
	t     *testing.T
	s     *running
	addrs []string
	away  [3]atomic.Bool // it does not answer

	mu   sync.Mutex
	came map[core.RunID][]int // which had a run
	hold chan struct{}        // until it is closed, runs with the params hold keep running
}

func newFleet(t *testing.T, s *running) *fleet {
	f := &fleet{t: t, s: s, came: map[core.RunID][]int{}, hold: make(chan struct{})}
	webs := make([]*httptest.Server, len(f.away))
	doors := map[string]http.Handler{}
	var ready sync.WaitGroup
	ready.Add(1)
	for i := range webs {
		webs[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ready.Wait()
			doors[r.Host].ServeHTTP(w, r)
		}))
		t.Cleanup(webs[i].Close)
		f.addrs = append(f.addrs, webs[i].URL)
	}
	slices.Sort(f.addrs)
	for i, address := range f.addrs {
		mux := executor.NewMux()
		mux.Register("work", func(ctx context.Context, r *executor.Run) error {
			f.mu.Lock()
			f.came[core.RunID(r.ID)] = append(f.came[core.RunID(r.ID)], i)
			f.mu.Unlock()
			if r.Params == "hold" {
				select {
				case <-f.hold:
				case <-ctx.Done():
				}
			}
			r.SetResult(executor.Success, fmt.Sprintf("%d of %d", r.ShardIndex, r.ShardTotal))
			return nil
		})
		e, err := executor.New(mux, executor.Options{App: "web", Servers: []string{s.URL()}, Token: "executors-of-web", Address: address,
			InMemory: true, LogMax: -1, Heartbeat: time.Second, StopGrace: -1})
		if err != nil {
			t.Fatal(err)
		}
		doors[strings.TrimPrefix(address, "http://")] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f.away[i].Load() {
				panic(http.ErrAbortHandler)
			}
			e.ServeHTTP(w, r)
		})
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = e.Stop(ctx)
		})
	}
	ready.Done()
	return f
}

func (f *fleet) trigger(r core.Route, params string) core.RunID {
	f.t.Helper()
	res, err := f.s.Manage().Trigger(f.t.Context(), actor, operate.TriggerRequest{Job: "web/" + string(r), Params: &params})
	if err != nil {
		f.t.Fatal(err)
	}
	return res.Run.ID
}

// goes waits until a run is in state and returns the index of its executor.
func (f *fleet) goes(id core.RunID, state core.State) (i int) {
	f.t.Helper()
	eventually(f.t, 20*time.Second, func() error {
		v, err := f.s.Manage().Run(f.t.Context(), id.String())
		if err != nil {
			f.t.Fatal(err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		had := f.came[id]
		if v.Run.State != state || len(had) == 0 {
			return fmt.Errorf("run %d is %s (%s %s) at %v", id, v.Run.State, v.Run.Reason, v.Run.Message, had)
		}
		if i = slices.Index(f.addrs, strings.TrimSuffix(v.Run.Address, "/")); !slices.Equal(had, []int{i}) {
			f.t.Fatalf("run %d has the address %s of executor %d, but was at %v", id, v.Run.Address, i, had)
		}
		return nil
	})
	return i
}

// each triggers n runs one after the other and returns their executors.
func (f *fleet) each(r core.Route, n int) (list []int) {
	f.t.Helper()
	for range n {
		list = append(list, f.goes(f.trigger(r, ""), core.Succeeded))
	}
	return list
}

// TestRoutes: each route chooses among real executors by its rule.
func TestRoutes(t *testing.T) {
	t.Parallel()
	s := start(t, Options{})
	var specs []manage.JobSpec
	for _, r := range core.Routes {
		specs = append(specs, manage.JobSpec{Def: core.Def{App: "web", Name: string(r), Handler: "work", Route: r}})
	}
	save(t, s, "web", specs...)
	f := newFleet(t, s)
	eventually(t, 20*time.Second, func() error {
		list, err := s.Manage().Executors(t.Context(), "web")
		if err == nil && len(list) < len(f.addrs) {
			err = fmt.Errorf("%d have registered", len(list))
		}
		return err
	})
	all := func(want int) func(*fleet, []int) bool {
		return func(_ *fleet, got []int) bool { return slices.Equal(got, slices.Repeat([]int{want}, len(got))) }
	}
	inTurn := func(_ *fleet, got []int) bool {
		for i, at := range got[1:] {
			if at != (got[i]+1)%3 {
				return false
			}
		}
		return true
	}
	tested := map[core.Route]func(*fleet){
		core.RouteBusyover: func(f *fleet) {
			var ids []core.RunID
			for i := range f.addrs {
				ids = append(ids, f.trigger(core.RouteBusyover, "hold"))
				if at := f.goes(ids[i], core.Running); at != i {
					f.t.Errorf("with %d running it goes to %d", i, at)
				}
			}
			close(f.hold)
			for _, id := range ids {
				f.goes(id, core.Succeeded)
			}
		},
		core.RouteFailover: func(f *fleet) {
			f.away[0].Store(true)
			if got := f.each(core.RouteFailover, 2); !slices.Equal(got, []int{1, 1}) {
				f.t.Errorf("without the first: %v", got)
			}
			f.away[0].Store(false)
			eventually(f.t, 20*time.Second, func() error { // each is asked once a second
				if got := f.each(core.RouteFailover, 1); !slices.Equal(got, []int{0}) {
					return fmt.Errorf("while all are there: %v", got)
				}
				return nil
			})
		},
		core.RouteBroadcast: func(f *fleet) {
			id := f.trigger(core.RouteBroadcast, "")
			var got []string
			eventually(f.t, 20*time.Second, func() error {
				v, err := s.Manage().Run(f.t.Context(), id.String())
				if err != nil {
					return err
				}
				if v.Run.State != core.Succeeded {
					return errors.New(string(v.Run.State))
				}
				shards, err := s.Manage().Shards(f.t.Context(), &v.Run)
				f.mu.Lock()
				defer f.mu.Unlock()
				for _, r := range shards {
					got = append(got, fmt.Sprintf("%d %v %s", slices.Index(f.addrs, strings.TrimSuffix(r.Address, "/")), f.came[r.ID], r.Message))
				}
				return err
			})
			if want := []string{"0 [0] 0 of 3", "1 [1] 1 of 3", "2 [2] 2 of 3"}; !slices.Equal(got, want) {
				f.t.Errorf("%q, want %q", got, want)
			}
		},
	}
	for _, c := range []struct {
		route core.Route
		n     int
		is    func(*fleet, []int) bool
	}{
		{core.RouteFirst, 3, all(0)},
		{core.RouteLast, 3, all(2)},
		{core.RouteRound, 6, inTurn},
		{core.RouteLRU, 6, inTurn},
		{core.RouteLFU, 12, func(f *fleet, got []int) bool { // the first six runs level the initial counts
			return inTurn(f, got[6:])
		}},
		{core.RouteHash, 4, func(f *fleet, got []int) bool {
			job, err := s.Manage().Job(t.Context(), "web/hash")
			at := slices.Index(f.addrs, strings.TrimSuffix(route.Order(core.RouteHash, f.addrs, job.Def.ID, 0, 0)[0], "/"))
			return err == nil && all(at)(f, got)
		}},
	} {
		tested[c.route] = func(f *fleet) {
			if got := f.each(c.route, c.n); !c.is(f, got) {
				f.t.Errorf("they go to %v", got)
			}
		}
	}
	tested[core.RouteRandom] = func(f *fleet) {
		var ids []core.RunID
		for range 48 { // all three but once in a hundred million times
			ids = append(ids, f.trigger(core.RouteRandom, ""))
		}
		n := [3]int{}
		for _, id := range ids {
			n[f.goes(id, core.Succeeded)]++
		}
		if slices.Contains(n[:], 0) {
			f.t.Errorf("%v", n)
		}
	}
	for _, r := range core.Routes {
		t.Run(string(r), func(t *testing.T) {
			if tested[r] == nil {
				t.Fatal("is not tested")
			}
			f.t = t
			tested[r](f)
		})
	}
}
