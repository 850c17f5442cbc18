package api_test

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
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

// pages sends a request until an answer has no cursor. The request has the cursor in place of AFTER.
func pages[P any, C comparable](f *fleet, ask string, next func(*P) C) iter.Seq[*P] {
	method, rest, _ := strings.Cut(ask, " ")
	path, body, _ := strings.Cut(rest, " ")
	return func(yield func(*P) bool) {
		var after, none C
		for {
			page, text := new(P), fmt.Sprint(after)
			f.h(method, strings.ReplaceAll(path, "AFTER", url.QueryEscape(text)), strings.ReplaceAll(body, "AFTER", text), page)
			if after = next(page); !yield(page) || after == none {
				return
			}
		}
	}
}

// jobsOf reads all pages of a list of jobs.
func (f *fleet) jobsOf(query string) (jobs []client.Job) {
	f.t.Helper()
	for page := range pages(f, "GET /v1/jobs?after=AFTER&"+query, func(p *client.JobPage) int32 { return p.Next }) {
		jobs = append(jobs, page.Jobs...)
	}
	return jobs
}

// coming reads all pages of the runs of the next hour, and checks that each page has jobs behind its cursor.
func (f *fleet) coming() (list []client.Coming) {
	f.t.Helper()
	after := int32(0)
	for page := range pages(f, "GET /v1/upcoming?for=1h&limit=1000&after=AFTER", func(p *client.Upcoming) int32 { return p.Next }) {
		for _, c := range page.Upcoming {
			if c.JobID <= after {
				f.t.Fatalf("job %d behind %d", c.JobID, after)
			}
		}
		list, after = append(list, page.Upcoming...), page.Next
	}
	return list
}

// runsOf reads all pages of a list of runs, and checks that each run is there once.
func (f *fleet) runsOf(path string) (runs []client.Run) {
	f.t.Helper()
	seen := map[string]bool{}
	for page := range pages(f, "GET "+path+"&after=AFTER", func(p *client.RunPage) string { return p.Next }) {
		for _, r := range page.Runs {
			if seen[r.ID] {
				f.t.Errorf("run %s is there twice", r.ID)
			}
			seen[r.ID] = true
		}
		runs = append(runs, page.Runs...)
	}
	return runs
}

// jobs creates more jobs of the app, each changed by change.
func (f *fleet) jobs(n int, change func(i int, d *core.Def)) {
	f.t.Helper()
	jobs := make([]core.Job, n)
	for i := range jobs {
		jobs[i] = f.job(core.JobID(i + 2))
		change(i, &jobs[i].Def)
		jobs[i].Normalize()
	}
	createJobs(f.t, f.e, jobs)
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
		inFleet(t, tenth(8_000), 2*time.Second, func(f *fleet) {
			if jobs := f.jobsOf(fmt.Sprint("text=job-", tenth(8_000)-1)); len(jobs) != 1 {
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
			f.run(tenth(10_000), func(i int, r *core.Run) {
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
		inFleet(t, tenth(8_000), 2*time.Second, func(f *fleet) {
			low, high := 0, 0
			for _, c := range f.coming() {
				if int(c.JobID) < tenth(4_000) {
					low++
				} else {
					high++
				}
			}
			if low < tenth(200) || high < tenth(200) {
				t.Errorf("%d instants of the first jobs, %d of the last", low, high)
			}
			f.held(true)
		})
	})
	t.Run("the result for few jobs", func(t *testing.T) {
		inFleet(t, 60, 3*time.Second, func(f *fleet) {
			jobs := map[int32]bool{}
			for _, c := range f.coming() {
				jobs[c.JobID] = true
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
		f.jobs(300, func(i int, d *core.Def) { d.Name, d.Params = fmt.Sprint("long-", i), long })
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
		inFleet(t, 1, time.Second, func(f *fleet) {
			addresses := 40
			if strings.HasPrefix(path, "/v1/runs") {
				addresses = 1
			}
			f.run(tenth(1000), func(i int, r *core.Run) { r.Address = fmt.Sprintf("http://a%d", i%addresses) })
			killed := map[string]bool{}
			for page := range pages(f, "POST "+path+"?after=AFTER", func(p *client.StopResult) string { return p.Next }) {
				for _, id := range page.Killed {
					killed[id] = true
				}
			}
			slices.Sort(f.told)
			if len(killed) != tenth(1000) || len(f.told) != addresses || len(slices.Compact(f.told)) != addresses {
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
		f.jobs(tenth(2000), func(i int, d *core.Def) { d.Name, d.Set = fmt.Sprint("old-", i), "mine" })
		gone := 0
		prune := `POST /v1/apply {"set":"mine","prune":true,"after":AFTER}`
		for res := range pages(f, prune, func(p *client.ApplyResult) int32 { return p.Next }) {
			for _, j := range res.Jobs {
				if j.Change == "deleted" {
					gone++
				}
			}
		}
		if left := f.jobsOf("set=mine"); gone != tenth(2000) || len(left) != 0 {
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
			f.bad = c.bad
			path := "/v1/jobs?" + ask + c.app
			if text := f.expect(t, c.secret, "GET", path, "", 200); strings.Contains(text, "no JSON") != c.told {
				t.Errorf("%s, of job %d: %s", path, c.bad, text)
			}
		}
	}
}
