package api_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// inFleet runs a test over a fleet in a synctest bubble.
func inFleet(t *testing.T, n int, takes time.Duration, do func(f *fleet)) {
	synctest.Test(t, func(t *testing.T) { do(newFleet(t, n, time.Hour, takes)) })
}

// jobsOf reads all pages of a list of jobs.
func (f *fleet) jobsOf(query string) (jobs []client.Job) {
	f.t.Helper()
	for after := int32(0); ; {
		var page client.JobPage
		f.h("GET", fmt.Sprintf("/v1/jobs?%s&after=%d", query, after), "", &page)
		jobs = append(jobs, page.Jobs...)
		if after = page.Next; after == 0 {
			return jobs
		}
	}
}

// runsOf reads all pages of a list of runs, and checks that each run is there once.
func (f *fleet) runsOf(path string) (runs []client.Run) {
	f.t.Helper()
	seen := map[string]bool{}
	for after := ""; ; {
		var page client.RunPage
		f.h("GET", path+"&after="+after, "", &page)
		for _, r := range page.Runs {
			if seen[r.ID] {
				f.t.Errorf("run %s is there twice", r.ID)
			}
			seen[r.ID] = true
		}
		runs = append(runs, page.Runs...)
		if after = page.Next; after == "" {
			return runs
		}
	}
}

// run stores n runs of the first job, each changed by change.
func (f *fleet) run(n int, change func(i int, r *core.Run)) {
	f.t.Helper()
	runs := make([]core.Run, n)
	for i := range runs {
		id := core.NumberedRun(1, uint32(i+1))
		runs[i] = core.Run{ID: id, First: id, Attempt: 1, App: "shop", State: core.Running, Cause: core.CauseAPI, Owner: "me", SentAt: f.now(),
			At: f.from + core.Instant(i), Slot: f.from + core.Instant(i), Address: "http://a"}
		change(i, &runs[i])
	}
	for i := range runs {
		check.OK(f.t, f.e.CreateRuns(f.t.Context(), runs[i:i+1])[0])
		time.Sleep(time.Millisecond) // in the bubble: no two runs have the same time
	}
}

// TestListsEndInTime: lists of many jobs or runs on a slow store come in pages. Some pages can be empty, and nothing
// is left out.
func TestListsEndInTime(t *testing.T) {
	t.Run("few of many jobs", func(t *testing.T) {
		inFleet(t, 20_000, time.Second, func(f *fleet) {
			if jobs := f.jobsOf("text=job-19999"); len(jobs) != 1 {
				t.Errorf("%d jobs", len(jobs))
			}
			f.held(true)
		})
	})
	t.Run("jobs with their last runs", func(t *testing.T) {
		inFleet(t, 300, time.Second, func(f *fleet) {
			f.run(1, func(int, *core.Run) {})
			if jobs := f.jobsOf("last=true&limit=1000"); len(jobs) != 300 || jobs[0].Last == nil || jobs[1].Last != nil {
				t.Errorf("%d jobs", len(jobs))
			}
			f.held(true)
		})
	})
	t.Run("few of many runs", func(t *testing.T) {
		inFleet(t, 1, 3*time.Second, func(f *fleet) {
			f.run(30_000, func(i int, r *core.Run) {
				if i == 0 {
					r.Address = "http://b"
				}
			})
			for _, of := range []string{"job=shop/job-0", "app=shop"} {
				if runs := f.runsOf("/v1/runs?limit=1000&address=http://b&" + of); len(runs) != 1 {
					t.Errorf("%s: %d runs", of, len(runs))
				}
				f.held(true)
			}
		})
	})
	t.Run("the result for many jobs", func(t *testing.T) {
		inFleet(t, 20_000, time.Second, func(f *fleet) {
			low, high := 0, 0
			for after := int32(0); ; {
				var page client.Upcoming
				f.h("GET", fmt.Sprintf("/v1/upcoming?for=1h&limit=1000&after=%d", after), "", &page)
				for _, c := range page.Upcoming {
					if c.JobID <= after {
						t.Fatalf("job %d behind %d", c.JobID, after)
					}
					low, high = low+max(0, min(1, 10_000-int(c.JobID))), high+max(0, min(1, int(c.JobID)-10_000))
				}
				if after = page.Next; after == 0 {
					break
				}
			}
			if low < 500 || high < 500 {
				t.Errorf("%d instants of the first jobs, %d of the last", low, high)
			}
			f.held(true)
		})
	})
	t.Run("the result for few jobs", func(t *testing.T) {
		inFleet(t, 60, 3*time.Second, func(f *fleet) {
			jobs := map[int32]bool{}
			for after := int32(0); ; {
				var page client.Upcoming
				f.h("GET", fmt.Sprintf("/v1/upcoming?for=1h&limit=1000&after=%d", after), "", &page)
				for _, c := range page.Upcoming {
					jobs[c.JobID] = true
				}
				if after = page.Next; after == 0 {
					break
				}
			}
			check.Equal(t, len(jobs), 60, "of N jobs")
			f.held(true)
		})
	})
}

// TestAnswersFit: no page is longer than a function may answer.
func TestAnswersFit(t *testing.T) {
	long := strings.Repeat("<", 10_000) // six bytes each in JSON
	inFleet(t, 1, 0, func(f *fleet) {
		f.run(300, func(i int, r *core.Run) { r.Params, r.SentAt = &long, f.now().Add(time.Duration(i)*time.Second) })
		for _, of := range []string{"job=shop/job-0", "app=shop"} {
			if runs := f.runsOf("/v1/runs?limit=1000&" + of); len(runs) != 300 {
				t.Errorf("%s: %d runs", of, len(runs))
			}
			f.held(true)
		}
	})
	inFleet(t, 1, 0, func(f *fleet) {
		for i := range 300 {
			var res client.TriggerResult
			at := f.now().Add(time.Duration(i+60) * time.Minute).Format(time.RFC3339)
			f.h("POST", "/v1/jobs/shop/job-0/trigger", fmt.Sprintf(`{"params":%q,"at":%q}`, long, at), &res)
		}
		f.held(true)
		if runs := f.runsOf("/v1/jobs/shop/job-0/waiting?"); len(runs) != 300 {
			t.Errorf("%d runs that wait", len(runs))
		}
		f.held(true)
	})
	inFleet(t, 1, 0, func(f *fleet) {
		var jobs []core.Job
		for i := range 300 {
			j := core.Job{Def: core.Def{ID: core.JobID(i + 2), App: "shop", Name: fmt.Sprint("long-", i),
				Handler: "demo", Params: long, Created: f.now()}}
			j.Sched = core.Sched{ID: j.Def.ID, App: "shop", State: core.Started, Rev: 1, RevAt: f.now()}
			j.Normalize()
			jobs = append(jobs, j)
		}
		createJobs(f.t, f.e, jobs)
		if jobs := f.jobsOf("limit=1000"); len(jobs) != 301 {
			t.Errorf("%d jobs", len(jobs))
		}
		f.held(true)
	})
}

// TestKillInPages: a kill of many runs at many addresses, on a slow store, marks all runs of an address and then
// sends it one kill.
func TestKillInPages(t *testing.T) {
	for _, path := range []string{"/v1/jobs/shop/job-0/kill", "/v1/runs/" + core.NumberedRun(1, 7).String() + "/kill"} {
		inFleet(t, 1, 200*time.Millisecond, func(f *fleet) {
			addresses := 40
			if strings.HasPrefix(path, "/v1/runs") {
				addresses = 1
			}
			f.run(5000, func(i int, r *core.Run) { r.Address = fmt.Sprintf("http://a%d", i%addresses) })
			killed := map[string]bool{}
			for after := ""; ; {
				var page client.StopResult
				f.h("POST", path+"?after="+strings.ReplaceAll(after, "+", "%2B"), "", &page)
				for _, id := range page.Killed {
					killed[id] = true
				}
				if after = page.Next; after == "" {
					break
				}
			}
			slices.Sort(f.told)
			if len(killed) != 5000 || len(f.told) != addresses || len(slices.Compact(f.told)) != addresses {
				t.Errorf("%s: %d runs are killed, %d addresses called", path, len(killed), len(f.told))
			}
			f.held(true)
		})
	}
}

// TestApplyIsBounded: a body over the limit is rejected with the limit; a prune goes by pages.
func TestApplyIsBounded(t *testing.T) {
	texts := golden.New(t)
	inFleet(t, 1, 20*time.Millisecond, func(f *fleet) {
		var jobs []core.Job
		for i := range 2000 {
			j := core.Job{Def: core.Def{ID: core.JobID(i + 2), App: "shop", Name: fmt.Sprint("old-", i), Set: "mine",
				Handler: "demo", Created: f.now()}}
			j.Sched = core.Sched{ID: j.Def.ID, App: "shop", State: core.Started, Rev: 1, RevAt: f.now()}
			j.Normalize()
			jobs = append(jobs, j)
		}
		createJobs(f.t, f.e, jobs)
		gone := 0
		for after := int32(0); ; {
			var res client.ApplyResult
			f.h("POST", "/v1/apply", fmt.Sprintf(`{"set":"mine","prune":true,"after":%d}`, after), &res)
			for _, j := range res.Jobs {
				if j.Change == "deleted" {
					gone++
				}
			}
			if after = res.Next; after == 0 {
				break
			}
		}
		if left := f.jobsOf("set=mine"); gone != 2000 || len(left) != 0 {
			t.Errorf("%d jobs are gone, %d left", gone, len(left))
		}
		f.held(true)
	})
	f := newFixture(t)
	for field, body := range map[string]client.ApplyRequest{"jobs": {Jobs: make([]client.JobSpec, api.MaxApplyJobs+1)},
		"apps":     {Apps: make([]client.AppSpec, api.MaxApplyApps+1)},
		"channels": {Channels: make([]client.ChannelSpec, core.MaxChannels+1)}} {
		_, err := f.c.Apply(t.Context(), body)
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 400 || e.Field != field {
			t.Errorf("%s: %v", field, err)
		}
		texts.Equal(t, field, fmt.Sprint(err))
	}
}

// TestUnreadableJobOfOthers: the app of an unreadable job is unknown. A user who does not see all apps gets it only
// in a list of an app that the user sees, however jobs are listed.
func TestUnreadableJobOfOthers(t *testing.T) {
	f, _ := guardedFixture(t)
	shop := f.person("vera", access.Grant{App: "shop", Role: viewer})
	for _, ask := range []string{"", "counts=true", "runs=3", "sort=name", "status=paused", "last=true"} {
		for _, c := range []struct {
			secret, app string
			bad         core.JobID
			told        bool
		}{{shop, "", 2, false}, {shop, "", 1, false}, {shop, "&app=shop", 2, false}, {shop, "&app=shop", 1, true}, {token, "", 2, true}} {
			f.jobs.Bad = []core.JobID{c.bad}
			path := "/v1/jobs?" + ask + c.app
			if text := f.expect(t, c.secret, "GET", path, "", 200); strings.Contains(text, "no JSON") != c.told {
				t.Errorf("%s, of job %d: %s", path, c.bad, text)
			}
		}
	}
}
