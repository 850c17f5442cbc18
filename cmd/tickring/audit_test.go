package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/server"
)

// TestAuditSaysWhatIsNotWell: overdue runs are listed and fail the audit, even if no run is missing. Times out of reach are only
// reported.
func TestAuditSaysWhatIsNotWell(t *testing.T) {
	texts, at := golden.New(t), time.Date(2026, 11, 20, 12, 10, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		a    client.Audit
		code int
	}{
		"well": {client.Audit{Expected: 3, OnTime: 3, Jobs: 1}, exitDone},
		"overdue": {client.Audit{Expected: 3, OnTime: 2, Overdue: 1, Jobs: 1,
			Missing: []client.JobAudit{{Job: "shop/sweep", Overdue: 1, Waiting: []time.Time{at}}}}, exitFailed},
		"behind a message": {client.Audit{Expected: 3, OnTime: 2, Unaccounted: 1, Jobs: 1, Behind: at,
			Missing: []client.JobAudit{{Job: "shop/sweep", Unaccounted: 1, Missing: []time.Time{at}}}}, exitFailed},
		"out of reach": {client.Audit{Expected: 3, OnTime: 2, OutOfReach: 1, Jobs: 1}, exitDone},
	} {
		t.Run(name, func(t *testing.T) {
			s := knowing(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(server.HeaderVersion, "test")
				answer(w, c.a)
			}))
			defer s.Close()
			code, out, errs := runMain(t, s.URL, "", "audit", "--utc")
			check.Equal(t, code, c.code, "exit code")
			texts.Equal(t, name, out+errs)
		})
	}
}

// TestPagesAreSummed: audit and replan read all pages. If one is interrupted, it reports the work done and the command that
// continues. Each page has 50 jobs that could not be read; at most a hundred are named.
func TestPagesAreSummed(t *testing.T) {
	texts, from, to := golden.New(t), "2026-11-20T12:00:00Z", "2026-11-20T13:00:00Z"
	for name, c := range map[string]struct {
		args []string
		cut  bool
		code int
	}{
		"audit":              {[]string{"audit", "--from", from, "--to", to}, false, exitFailed},
		"audit cut off":      {[]string{"audit", "--from", from, "--to", to}, true, exitRefused},
		"audit goes on":      {[]string{"audit", "--from", from, "--to", to, "--after", "p2"}, false, exitFailed},
		"replan":             {[]string{"replan", "--from", from}, false, exitDone},
		"replan cut off":     {[]string{"replan", "--from", from}, true, exitRefused},
		"audit, not of all":  {[]string{"audit", "--from", from, "--to", to}, false, exitFailed},
		"replan, not of all": {[]string{"replan", "--from", from}, false, exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			next := map[string]string{"": "p1", "p1": "p2"}
			var failed []string
			named := 0
			if strings.HasSuffix(name, "not of all") {
				failed, named = slices.Repeat([]string{"shop/sweep: the store did not answer"}, 50), 100
			}
			s := knowing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				after := r.URL.Query().Get("after")
				if r.Method == http.MethodPost {
					var body client.ReplanRequest
					if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !body.To.IsZero() {
						t.Errorf("asked for %+v: %v", body, err)
					}
					after = body.After
				}
				if c.cut && after == "p2" {
					w.WriteHeader(http.StatusConflict)
					answer(w, client.ErrorReply{Error: client.Error{Code: "unauthorized", Message: "the token was changed"}})
					return
				}
				if r.Method == http.MethodPost {
					answer(w, client.ReplanResult{Jobs: 10, Expected: 30, Missing: 1, Sent: 1, Failed: failed, Next: next[after]})
					return
				}
				answer(w, client.Audit{Jobs: 10, Expected: 30, OnTime: 29, Unaccounted: 1, Failed: failed, Next: next[after]})
			}))
			defer s.Close()
			code, out, errs := runMain(t, s.URL, "", append(c.args, "--utc")...)
			check.Equal(t, code, c.code, "exit code")
			check.Equal(t, strings.Count(out, "not checked: "), named, "are named")
			texts.Equal(t, name, strings.Join(slices.Compact(strings.SplitAfter(out+errs, "\n")), ""))
		})
	}
}

// TestPagesAreFollowed: lists, upcoming and kill read pages until there is no next one, even after an empty page. A run on two
// pages is shown once.
func TestPagesAreFollowed(t *testing.T) {
	at := func(minute int) time.Time {
		return time.Now().UTC().Truncate(time.Hour).Add(time.Duration(60+minute) * time.Minute)
	}
	run := func(id string) client.Run {
		return client.Run{ID: id, Job: "shop/sweep", App: "shop", State: "succeeded", Cause: "api"}
	}
	pages := map[string][]any{
		"GET /v1/runs": {client.RunPage{Next: "p1"}, client.RunPage{Runs: []client.Run{run("17179869185")}, Next: "p2"},
			client.RunPage{Runs: []client.Run{run("17179869186")}}},
		"GET /v1/jobs":   {client.JobPage{Next: 1}, client.JobPage{Jobs: []client.Job{{App: "shop", Name: "sweep"}}}},
		"GET /v1/apps":   {client.AppList{}},
		"GET /v1/status": {client.Status{}},
		"GET /v1/changes": {client.ChangeList{Next: "p1"}, client.ChangeList{Changes: []client.Change{{By: "ann", From: "10.0.0.7",
			Via: "token:ci", Verb: "cleaned", Job: "shop/sweep", New: json.RawMessage(`{"cleaned": 12}`)}}}},
		"POST /v1/jobs/shop/sweep/kill": {client.StopResult{Changed: true, Killed: []string{"11"}, Next: "+"},
			client.StopResult{Changed: true, Killed: []string{"11", "12"}}},
		"GET /v1/upcoming": {client.Upcoming{Upcoming: []client.Coming{{Job: "shop/late", ScheduledAt: at(9)},
			{Job: "shop/cut", ScheduledAt: at(10)}}, Next: 7}, client.Upcoming{Upcoming: []client.Coming{{Job: "shop/early", ScheduledAt: at(1)}}}},
	}
	for name, c := range map[string]struct {
		args []string
		says string
		once string
	}{
		"runs":     {[]string{"runs"}, "17179869186", "17179869185"},
		"get":      {[]string{"get"}, "shop/sweep", "shop/sweep"},
		"changes":  {[]string{"changes", "--by", "ann"}, "10.0.0.7 (token ci)", "shop/sweep: 12 runs"},
		"kill":     {[]string{"kill", "shop/sweep"}, "killing run 12", "killing run 11"},
		"upcoming": {[]string{"upcoming", "--for", "3h", "--limit", "2"}, "more upcoming runs exist", "shop/early"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := map[string]int{}
			s := knowing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				what := r.Method + " " + r.URL.Path
				if asked[what] >= len(pages[what]) {
					t.Errorf("asked for %s too often", what)
					return
				}
				answer(w, pages[what][asked[what]])
				asked[what]++
			}))
			defer s.Close()
			code, out, errs := runMain(t, s.URL, "", c.args...)
			if code != exitDone || !strings.Contains(out, c.says) || strings.Count(out, c.once) != 1 || strings.Contains(out, "shop/cut") {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}

// TestUnreadableIsTold: commands that list apps or jobs show the readable ones, name the other one with the reason, and fail. A prune
// cannot decide whether an unreadable object is to be deleted.
func TestUnreadableIsTold(t *testing.T) {
	job := client.Job{App: "shop", Name: "sweep", Handler: "demo", Schedule: client.Schedule{Every: "10s"}}
	answers := map[string]any{
		"/v1/jobs":                client.JobPage{Jobs: []client.Job{job}},
		"/v1/apps":                client.AppList{Apps: []client.App{{Name: "shop"}}},
		"/v1/apps/shop":           client.App{Name: "shop"},
		"/v1/apps/shop/executors": client.ExecutorList{Executors: []client.Executor{{App: "shop", Address: "http://10.0.0.1:9999"}}},
		"/v1/status":              client.Status{},
		"/v1/apply":               client.ApplyResult{Apps: []client.AppResult{{Name: "shop", Change: "unchanged"}}},
	}
	texts := golden.New(t)
	for _, c := range []struct {
		what, path string
		page       any
		lines      []string
	}{
		{"an app", "/v1/apps",
			client.AppList{Apps: []client.App{{Name: "shop"}}, Failed: []client.UnreadableApp{{Name: "pay", Message: "no JSON"}}},
			[]string{"get", "get -o yaml", "executors", "executors -o json", "apply -f - --prune --dry-run"}},
		{"a job", "/v1/jobs", client.JobPage{Jobs: []client.Job{job}, Failed: []client.UnreadableJob{{Number: 7, Message: "no JSON"}}},
			[]string{"get", "get shop", "get -o yaml", "get -o json", "apply -f - --prune --dry-run"}},
	} {
		s := knowing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == c.path {
				answer(w, c.page)
			} else {
				answer(w, answers[r.URL.Path])
			}
		}))
		defer s.Close()
		for _, line := range c.lines {
			want := exitFailed
			if strings.HasPrefix(line, "apply") {
				want = exitRefused
			}
			code, out, errs := runMain(t, s.URL, "version: 1\nset: fleet\napps: [{name: shop}]\n", strings.Fields(line)...)
			check.Equal(t, code, want, "%s, %s: exit code", c.what, line)
			texts.Equal(t, c.what+": "+line, out+"\n"+errs)
		}
	}
}
