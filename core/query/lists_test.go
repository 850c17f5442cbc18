package query_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// pages reads all pages of a list of runs.
func (f *fixture) pages(filter query.RunFilter) (pages []query.RunPage) {
	f.T.Helper()
	for {
		page, err := f.M.Runs(ctx, filter)
		check.OK(f.T, err)
		pages = append(pages, page)
		if filter.After = page.Next; page.Next == "" {
			return pages
		}
	}
}

func TestRuns(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Minute)))
	base := core.InstantOf(start)
	var want []core.RunID
	for i := range 30 {
		at := base + core.Instant(i*60)
		f.Ran(j.Def.ID, at, 0)
		want = append([]core.RunID{planned(j.Def.ID, at)}, want...)
		if i%3 == 0 {
			id := core.NumberedRun(j.Def.ID, uint32(i+1))
			r := newRun(id, core.Failed, at+30)
			r.Reason = core.ReasonHandler
			f.Put(r)
			want = append([]core.RunID{id}, want...)
		}
	}
	f.E.PutSkips(ctx, []core.Skip{{Job: j.Def.ID, First: base - 600, Last: base - 60, Count: 10, Reason: core.ReasonMisfire}})
	for _, limit := range []int{1, 7, 40, 100} {
		var got []core.RunID
		skips := 0
		for _, page := range f.pages(query.RunFilter{Job: "shop/sweep", Limit: limit}) {
			for _, r := range page.Runs {
				got = append(got, r.ID)
			}
			skips += len(page.Skips)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %d runs, want %d:\n%v\n%v", limit, len(got), len(want), got, want)
		}
		check.Equal(t, skips, 1, "limit %d: the skipped record came N times", limit)
	}
	page, err := f.M.Runs(ctx, query.RunFilter{Job: "shop/sweep", States: []core.State{core.Failed}})
	if err != nil || len(page.Runs) != 10 || len(page.Skips) != 0 {
		t.Errorf("failed: %d %v", len(page.Runs), err)
	}
	for _, bad := range []query.RunFilter{{Job: "x"}, {Limit: 1001}, {States: []core.State{"odd"}}, {Job: "shop/sweep", After: "9"},
		{After: "x"}, {From: start, To: start.Add(-1)}} {
		fails(t, core.CodeInvalid, "%+v", bad)(f.M.Runs(ctx, bad))
	}
}

func TestJobsAndUpcoming(t *testing.T) {
	f := newFixture(t)
	check.Call(t)(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "pay"}))
	for i := range 10 {
		s := spec(fmt.Sprintf("job-%d", i), every(time.Minute))
		if i%2 == 0 {
			s.Def.App = "pay"
			s.Def.Author = "Lina"
			s.Def.Labels = map[string]string{"team": "finance"}
		}
		f.Create(s)
	}
	f.Pause(manage.Target{Job: "pay/job-0"})
	for _, c := range []struct {
		f    query.JobFilter
		want int
	}{{query.JobFilter{}, 10}, {query.JobFilter{Limit: 3}, 10}, {query.JobFilter{App: "pay"}, 5},
		{query.JobFilter{Labels: map[string]string{"team": ""}}, 5},
		{query.JobFilter{Labels: map[string]string{"team": "x"}}, 0}, {query.JobFilter{States: []core.JobState{core.Paused}}, 1},
		{query.JobFilter{Text: "JOB-7"}, 1}, {query.JobFilter{Text: "lina"}, 5}} {
		n := 0
		for {
			page, err := f.M.Jobs(ctx, c.f)
			check.OK(t, err)
			n += len(page.Jobs)
			if c.f.After = page.Next; page.Next == 0 {
				break
			}
		}
		check.Equal(t, n, c.want, "%+v N jobs", c.f)
	}
	up, err := f.M.Upcoming(ctx, query.JobFilter{}, time.Time{}, 3*time.Minute, 100)
	if err != nil || len(up.Coming) != 27 || up.Partial {
		t.Errorf("upcoming: %d %v", len(up.Coming), err)
	}
	if up, err = f.M.Upcoming(ctx, query.JobFilter{}, time.Time{}, time.Hour, 20); err != nil || len(up.Coming) != 20 || !up.Partial {
		t.Errorf("upcoming: %d %v", len(up.Coming), err)
	}
	f.Pause(manage.Target{App: "pay"}, start.Add(90*time.Second))
	if up, err = f.M.Upcoming(ctx, query.JobFilter{App: "pay"}, time.Time{}, 3*time.Minute, 100); err != nil || len(up.Coming) != 8 {
		t.Errorf("upcoming over a pause: %d %v", len(up.Coming), err)
	}
	p, err := f.M.Preview(every(time.Hour), 0, core.InstantOf(start), 3)
	if err != nil || len(p.Next) != 3 || p.Ends || p.Next[0] != core.InstantOf(start.Truncate(time.Hour))+3600 {
		t.Errorf("preview: %+v %v", p, err)
	}
	j := f.Job("shop/job-1")
	if next := f.M.NextOf(&j, 2); len(next) != 2 || next[0] != core.InstantOf(start)+60 {
		t.Errorf("next: %v", next)
	}
}

// TestNextOfAPausedJob checks that the first run after a pause of the job or its app is shown, and none for a pause
// without an end.
func TestNextOfAPausedJob(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", every(10*time.Minute)))
	until := start.Truncate(time.Hour).Add(95 * time.Minute)
	own, app := core.Pause{From: start, To: until}, core.Pause{From: start, To: until.Add(time.Hour)}
	first := func(u time.Time) []core.Instant {
		return []core.Instant{core.InstantOf(u.Truncate(10*time.Minute)) + 600}
	}
	for name, c := range map[string]struct {
		until  *time.Time
		pauses []core.Pause
		want   []core.Instant
	}{
		"its own":                       {&own.To, nil, first(own.To)},
		"its app's, longer":             {&own.To, []core.Pause{{}, app}, first(app.To)},
		"without an end":                {nil, nil, nil},
		"of everything, without an end": {&own.To, []core.Pause{{From: start}, app}, nil},
	} {
		check.Call(t)(f.M.Pause(ctx, ann, manage.Target{Job: "shop/sweep"}, manage.PauseRequest{Until: c.until}))
		j := f.Job("shop/sweep")
		if got := f.M.NextOf(&j, 1, c.pauses...); !slices.Equal(got, c.want) {
			t.Errorf("%s: next is %v, want %v", name, got, c.want)
		}
	}
}

// TestShards: the shards of a broadcast are listed in order, each by its last attempt. A shard without a run has only Shard.
func TestShards(t *testing.T) {
	f := newFixture(t)
	whole := core.Run{ID: core.NumberedRun(1, 1), App: "shop", State: core.Running, Cause: core.CauseManual, Attempt: 1}
	first, retry := core.NumberedRun(1, 2), core.NumberedRun(1, 9)
	whole.Spread(first, []string{"http://a/", "http://b/", "http://c/"}, false)
	failed, again, second := whole.ShardRun(first), whole.ShardRun(first), whole.ShardRun(first+1)
	failed.State, failed.Then = core.Failed, retry
	again.ID, again.Attempt, again.State = retry, 2, core.Running
	second.State = core.Running
	f.Put(whole, failed, again, second)
	list, err := f.M.Shards(ctx, &whole)
	if err != nil || len(list) != 3 || list[0].ID != retry || list[1].ID != first+1 || list[2].ID != 0 ||
		list[2].Shard != (core.Shard{Of: whole.ID, Index: 2, Total: 3}) {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := f.M.Shards(ctx, &second); err != nil || list != nil {
		t.Errorf("shards of a shard: %+v, %v", list, err)
	}
}
