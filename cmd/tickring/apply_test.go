package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
)

// parted is a server whose requests can be broken off, as an HTTP API does.
type parted struct {
	t     *testing.T
	e     *store.Store
	url   string
	most  int                                          // jobs in one request
	fails func(body *client.ApplyRequest) (status int) // of an apply; 0: it does not
}

func newParted(t *testing.T) *parted {
	p := &parted{t: t, e: memory.Open(t, memory.Options{})}
	h := api.NewHandler(wiring.New(p.e, wiring.Options{Plan: plan.Local()}).People(nil, people.Options{}), nil,
		api.Options{Token: "sesame"})
	s := knowing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/apply" {
			raw, err := io.ReadAll(r.Body)
			check.NoError(t, err)
			var body client.ApplyRequest
			check.NoError(t, json.Unmarshal(raw, &body))
			p.most = max(p.most, len(body.Jobs))
			if p.fails != nil {
				if status := p.fails(&body); status != 0 {
					w.WriteHeader(status)
					fmt.Fprint(w, `{"message":"Service Unavailable"}`)
					return
				}
			}
			r.Body = io.NopCloser(bytes.NewReader(raw))
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// apply applies n jobs, the last of them with a schedule, and answers the exit code.
func (p *parted) apply(n int, last string, flags ...string) (code int, out, errs string) {
	p.t.Helper()
	var b strings.Builder
	b.WriteString("version: 1\nset: fleet\napps:\n  - name: shop\njobs:\n")
	for i := range n {
		every := "1h"
		if i == n-1 {
			every = last
		}
		fmt.Fprintf(&b, "  - {app: shop, name: job-%d, handler: demo, schedule: {every: %s}}\n", i, every)
	}
	file := filepath.Join(p.t.TempDir(), "jobs.yaml")
	check.OK(p.t, os.WriteFile(file, []byte(b.String()), 0o600))
	return runMain(p.t, p.url, "", append([]string{"apply", "-f", file}, flags...)...)
}

func (p *parted) jobs() int {
	p.t.Helper()
	list, _, err := p.e.Jobs.List(p.t.Context(), "", 0, 10_000)
	check.OK(p.t, err)
	return len(list)
}

// TestApplyInParts: a manifest of any number of jobs is applied in parts that fit one request, and the guarantees of a manifest
// hold over all parts.
func TestApplyInParts(t *testing.T) {
	p := newParted(t)
	texts, changed := golden.New(t), regexp.MustCompile(`(?m)^[-+~] shop.*\n|[^ (]*[/\\](jobs.yaml)`)
	const n = 1700
	for _, c := range []struct {
		what, every  string
		n            int
		flags        []string
		fails        func(*client.ApplyRequest) int
		code, stored int
	}{
		{"a file that is wrong by itself", "0s", n, nil, nil, exitUsage, 0},
		{"dry run", "1h", n, []string{"--dry-run"}, nil, exitDone, 0},
		// Part of the way, and on.
		{"broken off", "1h", n, nil, func(body *client.ApplyRequest) int {
			if !body.DryRun && p.jobs() >= 1000 {
				return http.StatusUnauthorized
			}
			return 0
		}, exitFailed, 1000},
		// A part that takes too long for a proxy in front is split in halves.
		{"the rest", "1h", n, nil, func(body *client.ApplyRequest) int {
			if len(body.Jobs) > 200 {
				return http.StatusBadGateway
			}
			return 0
		}, exitDone, n},
		// An item rejected in one part leaves the others unchanged.
		{"refused", "2h", 1900, nil, nil, exitRefused, n + 1},
		// A prune deletes exactly the items that belong to the set and are not in the manifest.
		{"dry run of a prune", "1h", 1100, []string{"--prune", "--dry-run"}, nil, exitDone, n + 1},
		{"prune", "1h", 1100, []string{"--prune", "--yes"}, nil, exitDone, 1101},
	} {
		if c.what == "refused" {
			_, _, errs := runMain(t, p.url, "version: 1\nset: other\njobs: [{app: shop, name: job-1700, handler: demo, schedule: {every: 1h}}]\n",
				"apply", "-f", "-")
			check.Equal(t, errs, "")
		}
		p.fails = c.fails
		code, out, errs := p.apply(c.n, c.every, c.flags...)
		if code != c.code || p.jobs() != c.stored {
			t.Errorf("%s: %d, %d jobs: %.300s%s", c.what, code, p.jobs(), out, errs)
		}
		texts.Equal(t, c.what, changed.ReplaceAllString(out+errs, "$1"), strings.TrimPrefix(p.url, "http://"), "HOST")
	}
	if p.most > api.MaxApplyJobs {
		t.Errorf("%d jobs in one request", p.most)
	}
}

// TestRerunOldestFirst: of many pages of runs the oldest run is run again first. If more runs match than
// the limit, none is run again.
func TestRerunOldestFirst(t *testing.T) {
	const n, together = 250, 16 // runs, and how many are created side by side
	p := newParted(t)
	if code, _, errs := p.apply(1, "1h"); code != exitDone {
		t.Fatal(errs)
	}
	job, now := core.JobID(1), core.InstantOf(time.Now())
	for i := range n {
		id := core.NumberedRun(job, uint32(1000+i))
		check.OK(t, p.e.CreateRuns(t.Context(), []core.Run{{ID: id, First: id, Attempt: 1, App: "shop", At: now, Slot: now,
			State: core.Failed, Reason: core.ReasonHandler, Cause: core.CauseAPI}})[0])
	}
	code, _, errs := runMain(t, p.url, "", "rerun", "--failed", "--yes", "--limit", "249")
	check.Equal(t, code, exitUsage, "exit code")
	texts := golden.New(t)
	texts.Equal(t, "too many runs", errs)
	again := regexp.MustCompile(`(?m)^run (\d+) .* rerun as (\d+)$`)
	_, out, errs := runMain(t, p.url, "", "rerun", "--failed", "--yes", "--params", "x", "--key", "k")
	list := again.FindAllStringSubmatch(out, -1)
	if len(list) != n {
		t.Fatalf("%d: %s %s", len(list), out, errs)
	}
	texts.Equal(t, "sum", strings.TrimSpace(again.ReplaceAllString(out, "")))
	for i := range list {
		if i > 0 && list[i][1] <= list[i-1][1] {
			t.Errorf("run %s comes after run %s", list[i][1], list[i-1][1])
		}
		if i >= together && list[i][2] <= list[i-together][2] {
			t.Errorf("run %s rerun as %s, run %s before it as %s", list[i][1], list[i][2], list[i-together][1], list[i-together][2])
		}
	}
}

// TestNamedFile: what no manifest can need of a file is neither read nor waited for.
func TestNamedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "secret")
	check.OK(t, os.WriteFile(name, bytes.Repeat([]byte("x"), 2*core.MaxScript), 0o600))
	if b, err := namedFile(name); err != nil || len(b) != core.MaxScript+1 {
		t.Errorf("of a long one %d bytes: %v", len(b), err)
	}
	for _, name := range []string{os.DevNull, t.TempDir()} {
		if _, err := namedFile(name); err == nil || !strings.Contains(err.Error(), "regular") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
