package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
)

// cursorFixture has two jobs of pay, one with a lower and one with a higher number than the jobs of shop. Each job
// has old finished runs and waiting runs; the jobs of pay have more of them.
func cursorFixture(t *testing.T) *fixture {
	f := newHandler(t)
	f.h = f.withReports()
	f.must("PUT", "/v1/apps/pay", `{"executors":["call:https://pay.example.com"]}`)
	f.must("PUT", "/v1/jobs/pay/ledger", `{"handler":"POST /x","schedule":{"every":"1h"}}`)
	f.shop()
	f.must("PUT", "/v1/jobs/shop/sweep", `{"handler":"x","schedule":{"every":"1h"}}`)
	f.must("PUT", "/v1/jobs/pay/bills", `{"handler":"POST /x","schedule":{"every":"1h"}}`)
	at := time.Now().Add(30 * time.Minute).UTC().Format(time.RFC3339)
	for i, job := range []string{"pay/ledger", "shop/report", "shop/sweep", "pay/bills"} {
		app, _, _ := strings.Cut(job, "/")
		for n := range map[string]uint32{"pay": 9, "shop": 2}[app] {
			ended := time.Now().Add(-72 * time.Hour)
			r := core.Run{ID: core.NumberedRun(core.JobID(i+1), 100+n), App: app, State: core.Failed, Reason: core.ReasonHandler,
				Cause: core.CauseManual, Attempt: 1, Slot: core.InstantOf(ended), At: core.InstantOf(ended), SentAt: ended, EndedAt: ended,
				Address: "http://10.0.0.1:9999"}
			r.First = r.ID
			check.OK(t, f.e.CreateRuns(t.Context(), []core.Run{r})[0])
		}
		for key := range map[string]int{"pay": 5, "shop": 1}[app] {
			f.must("POST", "/v1/jobs/"+job+"/trigger", fmt.Sprintf(`{"key":"k%d","at":%q}`, key, at))
		}
	}
	return f
}

// ofPay returns all data of pay.
func (f *fixture) ofPay() string {
	f.t.Helper()
	all := f.must("GET", "/v1/apps/pay", "")
	for _, path := range []string{"/v1/runs?limit=1000&job=", "/v1/changes?limit=1000&job="} {
		all += f.must("GET", path+"pay/ledger", "") + f.must("GET", path+"pay/bills", "")
	}
	return all
}

// paged are the operations that take a cursor, with the field that returns the next one.
var paged = []struct{ op, cursor string }{
	{"GET /v1/jobs?after=AFTER", "next"},
	{"GET /v1/jobs?app=shop&after=AFTER", "next"},
	{"GET /v1/jobs?last=true&sort=name&cursor=AFTER", "cursor"},
	{"GET /v1/jobs?sort=last&runs=5&cursor=AFTER", "cursor"},
	{"GET /v1/jobs?app=shop&counts=true&cursor=AFTER", "cursor"},
	{"GET /v1/runs?after=AFTER", "next"},
	{"GET /v1/runs?app=shop&after=AFTER", "next"},
	{"GET /v1/runs?app=shop&state=failed&after=AFTER", "next"},
	{"GET /v1/runs?job=shop/report&after=AFTER", "next"},
	{"GET /v1/jobs/shop/report/waiting?after=AFTER", "next"},
	{"GET /v1/upcoming?after=AFTER", "next"},
	{"GET /v1/upcoming?app=shop&after=AFTER", "next"},
	{"GET /v1/upcoming?job=shop/report&after=AFTER", "next"},
	{"GET /v1/changes?after=AFTER", "next"},
	{"GET /v1/changes?app=shop&after=AFTER", "next"},
	{"GET /v1/changes?job=shop/report&after=AFTER", "next"},
	{"GET /v1/audit?from=FROM&to=TO&after=AFTER", "next"},
	{"GET /v1/audit?from=FROM&to=TO&job=shop/report&after=AFTER", "next"},
	{`POST /v1/clean {"app":"shop","dryRun":true,"after":"AFTER"}`, "next"},
	{`POST /v1/clean {"job":"shop/report","dryRun":true,"after":"AFTER"}`, "next"},
	{`POST /v1/clean {"app":"shop","after":"AFTER"}`, "next"},
	{`POST /v1/clean {"job":"shop/report","after":"AFTER"}`, "next"},
	{`POST /v1/rerun {"failed":true,"dryRun":true,"after":"AFTER"}`, "next"},
	{`POST /v1/rerun {"failed":true,"key":"all","after":"AFTER"}`, "next"},
	{`POST /v1/rerun {"app":"shop","dryRun":true,"after":"AFTER"}`, "next"},
	{`POST /v1/rerun {"app":"shop","key":"a","after":"AFTER"}`, "next"},
	{`POST /v1/rerun {"job":"shop/report","key":"j","after":"AFTER"}`, "next"},
	{`POST /v1/replan {"job":"shop/report","from":"FROM","to":"TO","after":"AFTER"}`, "next"},
	{`POST /v1/replan {"job":"shop/report","from":"FROM","after":"AFTER"}`, "next"},
	{`POST /v1/bulk {"verb":"pause","filter":{},"dryRun":true,"after":AFTER}`, "next"},
	{`POST /v1/bulk {"verb":"pause","filter":{},"after":AFTER}`, "next"},
	{`POST /v1/bulk {"verb":"label","labels":{"a":"b"},"filter":{"app":"shop"},"after":AFTER}`, "next"},
	{`POST /v1/bulk {"verb":"resume","jobs":["shop/report"],"after":AFTER}`, "next"},
	{`POST /v1/jobs/shop/report/kill?after=AFTER`, "next"},
	{`POST /v1/runs/8589934692/kill?after=AFTER`, "next"}, // run 100 of shop/report
	{`POST /v1/apply {"prune":true,"set":"s","after":AFTER}`, "next"},
	{`POST /v1/redrive {"dryRun":true,"after":"AFTER"}`, "next"},
	{`POST /v1/redrive {"after":"AFTER"}`, "next"},
}

// TestPagedAreAll: every operation with a cursor is in the list that is tested with foreign cursors. A restore and a
// rotation of the key need an admin of all apps.
func TestPagedAreAll(t *testing.T) {
	body, query := regexp.MustCompile(`#/components/schemas/\w+Request\b`), regexp.MustCompile(`name: (after|cursor)\b|parameters/After\b`)
	named, found := regexp.MustCompile(`\{\w+\}`), 0
	for pattern, op := range operations {
		text, err := yaml.Marshal(op)
		check.OK(t, err)
		goesOn := query.Match(text)
		for _, ref := range body.FindAllString(string(text), -1) {
			fields, _ := part(map[string]any{"$ref": ref})["properties"].(map[string]any)
			after, is := fields["after"].(map[string]any)
			goesOn = goesOn || is && after["type"] != "array"
		}
		route := regexp.MustCompile("^" + named.ReplaceAllString(pattern, "[^/? ]+") + "[? ]")
		tried := slices.ContainsFunc(paged, func(p struct{ op, cursor string }) bool { return route.MatchString(p.op) })
		if goesOn {
			found++
		}
		if goesOn && !tried && pattern != "POST /v1/restore" && pattern != "POST /v1/rotate-key" {
			t.Errorf("%s goes on, and is not tried", pattern)
		}
	}
	if found < 15 {
		t.Errorf("only %d operations go on", found)
	}
}

// spanned fills in a time range.
var spanned = strings.NewReplacer("FROM", time.Now().Add(-3*time.Hour).UTC().Format(time.RFC3339),
	"TO", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))

// behind sends a paged operation with a cursor.
func (f *fixture) behind(secret, op, after string) (int, string) {
	method, rest, _ := strings.Cut(spanned.Replace(op), " ")
	path, body, _ := strings.Cut(rest, " ")
	return f.as(secret, method, strings.ReplaceAll(path, "AFTER", url.QueryEscape(after)), strings.ReplaceAll(body, "AFTER", after))
}

// cursors returns the cursors from all pages of pay and of all apps. It adds cursors that a user could make up from
// the numbers of jobs and runs.
func (f *fixture) cursors() []string {
	list := []string{"", "0", "-1", "x", "+", "+http://10.0.0.1:9998", "77.1.", "77"}
	now := core.Millis(time.Now()) + 1
	for _, job := range []core.JobID{1, 4} {
		low, high := core.NumberedRange(job)
		at, to := core.RunRange(job, 0, core.Horizon)
		for _, form := range []string{"%[1]d", "%[1]d.0.", "%[1]d.1.", "%[1]d.9.", "%[1]d.0.%[5]d-%[3]d", "%[5]d-%[3]d", "%[4]d-%[2]d",
			"%[1]d#%[3]d", "2#%[3]d", "%[3]d", "%[2]d", "%[1]d@1", "%[6]d", "%[6]d.%[3]d"} {
			list = append(list, fmt.Sprintf(form, job, low, high, at, to, now))
		}
	}
	wide := strings.NewReplacer("app=shop", "x=", "shop/report", "pay/ledger", "?", "?limit=1&")
	for _, p := range paged {
		for after := ""; strings.HasPrefix(p.op, "GET"); {
			var page map[string]any
			status, text := f.behind(token, wide.Replace(p.op), after)
			if status != 200 || json.Unmarshal([]byte(text), &page) != nil {
				break
			}
			next, is := page[p.cursor]
			if after = fmt.Sprint(next); !is || slices.Contains(list, after) {
				break
			}
			list = append(list, after)
		}
	}
	return list
}

var operationID = regexp.MustCompile(`act-\w+`)

// TestCursorsWidenNothing: the caller controls the cursor. No cursor lets a caller, in any role for one app, see or
// change anything without permission.
func TestCursorsWidenNothing(t *testing.T) {
	cursors := cursorFixture(t).cursors()
	for _, role := range access.Roles {
		t.Run(string(role), func(t *testing.T) {
			f := cursorFixture(t)
			secret := f.person("sam", access.Grant{App: "shop", Role: role})
			before, answered := f.ofPay(), 0
			for _, p := range paged {
				for _, after := range cursors {
					status, text := f.behind(secret, p.op, after)
					if status == 200 {
						answered++
					}
					told := operationID.ReplaceAllString(text, "") // it is random, so it can contain the name of an app
					if after != "" {
						told = strings.ReplaceAll(told, after, "")
					}
					var n struct{ Cleaned, Held, Missing, Found int }
					_ = json.Unmarshal([]byte(text), &n) // other answers have no such fields
					if status >= 500 || n.Cleaned+n.Held > 4 || n.Missing > 2 || n.Found > 2 || strings.Contains(told, "pay") {
						t.Errorf("%s behind %q: %d %s", p.op, after, status, text)
					}
				}
				if now := f.ofPay(); now != before {
					t.Fatalf("%s: of pay there is %s, was %s", p.op, now, before)
				}
			}
			if answered < 200 {
				t.Errorf("only %d were answered", answered)
			}
		})
	}
}
