package dynamo_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/internal/iampolicy"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// TestBoardListsJobsAsTheyAre: a page shows the same jobs as strong reads (long, secret, paused, linked, edited, renamed,
// ended or deleted ones) and the waiting runs. It reads them once and never shows a definition with the schedule of
// another.
func TestBoardListsJobsAsTheyAre(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	jobs := make([]core.Job, 9)
	for i := range jobs {
		jobs[i] = oneJob(core.JobID(i + 1))
	}
	jobs[1].Def.Params = strings.Repeat("p", 5000)
	jobs[2].Def.Call = &core.Call{Auth: core.Auth{Bearer: "secret"}}
	jobs[3].Sched.State, jobs[3].Sched.PlanAt = core.Paused, 0
	jobs[4].Def.After = []core.Parent{{ID: 1, When: core.UponSuccess}}
	f.create(t, jobs...)
	time.Sleep(time.Millisecond)
	before := time.Now()
	edited, renamed := jobs[5], jobs[6]
	edited.Def.Title, edited.Sched.Rev, renamed.Def.Name, renamed.Sched.Rev = "new", 101, "another", 101
	ok(t, updateJobs(ctx, s, update(100, edited, core.Change{}), update(100, renamed, core.Change{}))...)
	move := jobs[7].Sched.Stay()
	move.NewState, move.NewNext, move.NewPlanAt = core.Ended, 0, 0
	ok(t, s.Advance(ctx, []core.Advance{move})...)
	ok(t, deleteJob(ctx, s, 100, core.Tombstone{Job: 9, App: "orders", Name: "job-9", Rev: 200, RevAt: base}, core.Change{ID: 200, Job: 9}))
	waits := core.DueItem{PlanAt: core.InstantOf(base) + 70, Job: 1, Run: core.NumberedRun(1, 7)}
	ok(t, s.Enter(ctx, []core.DueItem{waits})...)
	want, next, err := listJobs(ctx, s, "", 0, 100)
	if err != nil || next != 0 || len(want) != 8 {
		t.Fatalf("%d jobs, %d, %v", len(want), next, err)
	}
	page, g := glance.Begin(ctx)
	for range 3 {
		got, next, err := listJobs(page, s, "orders", 0, 100)
		if err != nil || next != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\n%+v, %d, %v", got, want, next, err)
		}
	}
	spent := g.Units()
	if part, next, err := listJobs(page, s, "", 2, 3); err != nil || next != 5 || len(part) != 3 || part[0].Def.ID != 3 {
		t.Errorf("of a part: %d jobs, %d, %v", len(part), next, err)
	}
	ids, err := s.Store.Jobs.Named(page, "orders", []string{"another", "job-1"})
	ok(t, err)
	found, err := getJobs(page, s, store.Whole, []core.JobID{ids["another"], ids["job-1"]})
	entries, err2 := s.Store.Jobs.Entries(page, 1)
	ok(t, err, err2)
	if found[7] == nil || found[1] == nil || !slices.Equal(entries, []core.DueItem{waits}) || g.Units() != spent {
		t.Errorf("%+v, entries %v, %v units more", found, entries, g.Units()-spent)
	}
	f.db.Faults = func(context.Context, fakeaws.Call) fakeaws.Fault { return fakeaws.Fault{Stale: time.Since(before)} }
	page, _ = glance.Begin(ctx)
	if old, _, err := listJobs(page, s, "", 5, 1); err != nil || len(old) != 1 || old[0].Def.Title != "new" || old[0].Sched.Rev != 101 {
		t.Errorf("an edit that the index has not yet: %+v, %v", old, err)
	}
}

// TestLastRunsForAPage: a page shows the newest planned and numbered runs of a job as a strong read does, mostly with one
// request. If it cannot know all of them, it shows only the newest.
func TestLastRunsForAPage(t *testing.T) {
	for _, c := range []struct {
		numbered int
		before   core.Instant
	}{{0, 0}, {2, 0}, {2, 3600}, {20, 0}} {
		t.Run(fmt.Sprintf("%d numbered, %d s before", c.numbered, c.before), func(t *testing.T) {
			numbered := c.numbered
			f := newFakes(t, dynamo.Options{})
			s, ctx := f.store, t.Context()
			now := core.InstantOf(base)
			for i := range core.Instant(20) {
				r := oneRun(core.PlannedRun(1, now-60*i))
				r.At, r.Slot = now-60*i, now-60*i
				ok(t, s.CreateRuns(ctx, []core.Run{r})...)
			}
			for i := range numbered {
				r := oneRun(core.NumberedRun(1, uint32(i+1)))
				r.Slot = now - c.before - core.Instant(60*(numbered-i)+7)
				ok(t, s.CreateRuns(ctx, []core.Run{r})...)
			}
			want, err := s.Store.Runs.Last(ctx, []core.JobID{1}, now, 8)
			ok(t, err)
			page, g := glance.Begin(ctx)
			got, err := s.Store.Runs.Last(page, []core.JobID{1}, now, 8)
			ok(t, err)
			if len(got[1]) < 6 || !reflect.DeepEqual(got[1], want[1][:len(got[1])]) || numbered < 8 && g.Units() > 1 {
				t.Errorf("%d runs for %v units: %+v\n%+v", len(got[1]), g.Units(), got[1], want[1])
			}
		})
	}
}

// TestFailedJobsAreListed: a job is listed once a run of it failed for good, for any reason, until a page removes it. A
// success, a failure with a retry, and a second failure soon after write nothing. If the list cannot be written, runs
// still end, and the next failure lists the job.
func TestFailedJobsAreListed(t *testing.T) {
	now := base
	f := newFakes(t, dynamo.Options{Now: func() time.Time { return now }})
	s, ctx := f.store, t.Context()
	for job, end := range map[core.JobID]core.Run{1: {State: core.Succeeded}, 2: {State: core.Failed}, 3: {State: core.Failed, Then: 9},
		4: {State: core.Lost}} {
		r := oneRun(core.PlannedRun(job, core.InstantOf(base)))
		ok(t, s.CreateRuns(ctx, []core.Run{r})...)
		end.EndedAt = base
		f.db.Units()
		ok(t, s.ChangeRuns(ctx, []core.RunPut{seen(core.End(r.ID, end), &r)})...)
		if u := f.db.Units(); end.State == core.Succeeded && u.Write != 1 {
			t.Errorf("a success writes %v units", u.Write)
		}
	}
	born := oneRun(core.PlannedRun(5, core.InstantOf(base)))
	born.State, born.EndedAt = core.Failed, base
	ok(t, s.CreateRuns(ctx, []core.Run{born})...)
	listed := func(want ...core.JobID) map[core.JobID]time.Time {
		t.Helper()
		found, err := s.Failed.List(ctx)
		if got := slices.Sorted(maps.Keys(found)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %v", got, err)
		}
		return found
	}
	found := listed(2, 4, 5)
	delete(found, 5)
	now = now.Add(6 * time.Minute)
	again := oneRun(core.PlannedRun(4, core.InstantOf(base)+60))
	again.State, again.EndedAt = core.Failed, now
	ok(t, s.CreateRuns(ctx, []core.Run{again})...)
	f.db.Units()
	again.ID = core.PlannedRun(4, core.InstantOf(base)+120)
	ok(t, s.CreateRuns(ctx, []core.Run{again})...)
	if u := f.db.Units(); u.Write != 1 {
		t.Errorf("a second failure writes %v units", u.Write)
	}
	ok(t, s.Failed.Forget(ctx, found))
	listed(4, 5)
	open := oneRun(core.PlannedRun(6, core.InstantOf(base)))
	ok(t, s.CreateRuns(ctx, []core.Run{open})...)
	f.db.Faults = func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
		if c.Op == "PutItem" {
			return fakeaws.Fault{Before: fakeaws.Throttled()}
		}
		return fakeaws.Fault{}
	}
	put := []core.RunPut{seen(core.End(open.ID, core.Run{State: core.Failed, EndedAt: base}), &open)}
	ok(t, s.ChangeRuns(ctx, put)...)
	f.db.Faults = nil
	listed(4, 5)
	open.ID = core.PlannedRun(6, core.InstantOf(base)+60)
	open.State, open.EndedAt = core.Failed, base
	ok(t, s.CreateRuns(ctx, []core.Run{open})...)
	listed(4, 5, 6)
}

// TestFailuresOfOneReportAreListed: the role of the function that receives results allows it to list several jobs at once.
func TestFailuresOfOneReportAreListed(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	var ends []core.RunPut
	for job := range core.JobID(2) {
		r := oneRun(core.PlannedRun(job+1, core.InstantOf(base)))
		ok(t, s.CreateRuns(ctx, []core.Run{r})...)
		ends = append(ends, seen(core.End(r.ID, core.Run{State: core.Failed, EndedAt: base}), &r))
	}
	f.db.Allow = func(_ context.Context, action, on string) bool { return iampolicy.Callback.Allows(action, on) }
	ok(t, s.ChangeRuns(ctx, ends)...)
	f.db.Allow = nil
	if found, err := s.Failed.List(ctx); err != nil || len(found) != 2 {
		t.Errorf("%v, %v", found, err)
	}
}
