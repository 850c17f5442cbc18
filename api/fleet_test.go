package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// apiWaits is how long an HTTP API waits for an answer, less the network time.
const apiWaits = 20 * time.Second

// slow returns a store where each call for jobs and runs takes time, and a queue only counts runs.
func (f *fleet) slow() *store.Store {
	return hook.Over(f.e, func(_ context.Context, c *hook.Call, next func() []error) []error {
		switch {
		case c.Listed, c.Due != 0, len(c.Put) > 0, c.Span, c.Recent, c.Last != nil, len(c.PutRun) > 0, c.List == store.KindTombstone,
			strings.HasPrefix(c.List, "skip#"):
			time.Sleep(f.takes)
		case len(c.Out) > 0:
			for i := range c.Out {
				f.queued.Add(int64(len(c.Out[i].Message.Fires)))
			}
			return make([]error, len(c.Out))
		}
		return next()
	})
}

// Kill is slow, like an executor under load.
func (f *fleet) Kill(ctx context.Context, _ *core.App, address string, job core.JobID) error {
	time.Sleep(f.takes)
	_, err := f.e.OpenRuns(ctx, job, nil, func(r *core.Run) bool {
		if r.Address == address && r.KillAt.IsZero() {
			f.t.Errorf("%s is called before run %d there is marked", address, r.ID)
		}
		return true
	})
	f.mu.Lock()
	f.told = append(f.told, address)
	f.mu.Unlock()
	return err
}

// fleet is the API over many jobs, in a synctest bubble.
type fleet struct {
	t      *testing.T
	e      *store.Store
	takes  time.Duration // each call of the store
	queued atomic.Int64  // runs that were put on the delay queue
	h      func(method, path, body string, into any)
	most   time.Duration // the longest request
	bytes  int           // of the longest answer
	pages  int
	mu     sync.Mutex
	told   []string // addresses that got a kill
	now    func() time.Time
	from   core.Instant
}

// createJobs stores jobs.
func createJobs(t *testing.T, s *store.Store, jobs []core.Job) {
	t.Helper()
	puts := make([]store.JobPut, len(jobs))
	for i := range jobs {
		puts[i].Create = &jobs[i]
	}
	for _, err := range s.Jobs.Put(t.Context(), puts) {
		check.OK(t, err)
	}
}

// job returns a job of the app that has just been created.
func (f *fleet) job(id core.JobID) core.Job {
	return core.Job{Def: core.Def{ID: id, App: "shop", Name: fmt.Sprintf("job-%d", id-1), Handler: "demo", Created: f.now()},
		Sched: core.Sched{ID: id, App: "shop", State: core.Started, Rev: 1, RevAt: f.now()}}
}

// newFleet creates n jobs with the same interval and without runs.
func newFleet(t *testing.T, n int, every, takes time.Duration) *fleet {
	now := func() time.Time { return time.Now().AddDate(27, 0, 0) } // a bubble starts in 2000
	f := &fleet{t: t, e: memory.Open(t, memory.Options{Now: now}), now: now, from: core.InstantOf(now())}
	app := core.App{Name: "shop", Created: now(), Rev: 1}
	check.OK(t, f.e.PutApp(t.Context(), 0, app, core.Change{ID: 1, App: "shop", Verb: core.VerbCreated}))
	jobs := make([]core.Job, 0, n)
	for i := range n {
		j := f.job(core.JobID(i + 1))
		j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: every}}}
		j.Normalize()
		j.Sched.Next = core.InstantOf(now().Add(2 * time.Hour))
		jobs = append(jobs, j)
	}
	createJobs(t, f.e, jobs)
	time.Sleep(90 * time.Minute)
	f.takes = takes
	m := people.New(f.slow(), finish.New(f.e, finish.Options{Plan: plan.Local()}), f,
		people.Options{Plan: plan.Local(), Ask: query.Options{Now: now}})
	h := api.NewHandler(m, nil, api.Options{Token: token})
	f.h = func(method, path, body string, into any) {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		began := time.Now()
		h.ServeHTTP(w, r)
		f.most, f.pages = max(f.most, time.Since(began)), f.pages+1
		f.bytes = max(f.bytes, w.Body.Len())
		if w.Code != 200 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		check.OK(t, json.Unmarshal(w.Body.Bytes(), into))
	}
	return f
}

// tenth returns n, or a tenth of it in a short test.
func tenth(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// held asserts that every request ended within the wait of an HTTP API, and that every answer was short enough for a
// function. If many is set, it expects many requests, except in a short test.
func (f *fleet) held(many bool) {
	f.t.Helper()
	if f.most > apiWaits || many && f.pages < 2 && !testing.Short() {
		f.t.Errorf("%d pages, the longest took %s", f.pages, f.most)
	}
	if f.bytes > 6<<20 {
		f.t.Errorf("an answer of %d bytes", f.bytes)
	}
	f.most, f.pages, f.bytes = 0, 0, 0
}

// TestFleetInPages: an audit and a replan of a big fleet on a slow store return in pages. Each page ends within the
// client's timeout, and the sum covers all jobs.
func TestFleetInPages(t *testing.T) {
	for name, c := range map[string]struct {
		n            int
		every, takes time.Duration
	}{
		"each call takes 100 ms":                {2000, time.Hour, 100 * time.Millisecond},
		"each call takes 3 s":                   {300, time.Hour, 3 * time.Second},
		"one job of each second, calls of 3 s":  {1, time.Second, 3 * time.Second},
		"some jobs of each second, calls of 5s": {20, time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := c.n
				if n > 1 {
					n = tenth(n)
				}
				f := newFleet(t, n, c.every, c.takes)
				to := core.InstantOf(f.now().Add(-time.Minute))
				span := "from=" + f.from.Time().Format(time.RFC3339) + "&to=" + to.Time().Format(time.RFC3339)
				jobs, demanded, unaccounted := 0, int64(0), int64(0)
				for sum := range pages(f, "GET /v1/audit?"+span+"&after=AFTER", func(p *client.Audit) string { return p.Next }) {
					jobs, demanded, unaccounted = jobs+sum.Jobs, demanded+sum.Expected, unaccounted+sum.Unaccounted
				}
				if each := int64(89 * time.Minute / c.every); jobs != n || demanded < int64(n)*each || demanded > int64(n)*(each+1) ||
					unaccounted != demanded {
					t.Errorf("%d jobs, %d demanded, %d unaccounted for", jobs, demanded, unaccounted)
				}
				f.held(n > 1)
				sent := int64(0)
				replan := fmt.Sprintf(`POST /v1/replan {"from":%q,"to":%q,"after":"AFTER"}`, f.from.Time().Format(time.RFC3339),
					to.Time().Format(time.RFC3339))
				for page := range pages(f, replan, func(p *client.ReplanResult) string { return p.Next }) {
					sent += page.Sent
				}
				if sent != unaccounted || f.queued.Load() != sent {
					t.Errorf("%d sent again, %d on the ring, of %d", sent, f.queued.Load(), unaccounted)
				}
				f.held(true)
			})
		})
	}
}
