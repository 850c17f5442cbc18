package query_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// ran stores a run of a job that was due some time ago.
func (f *fixture) ran(job core.JobID, ago, late time.Duration, state core.State) core.Run {
	f.T.Helper()
	at := core.InstantOf(f.Clock.Add(-ago))
	r := newRun(planned(job, at), state, at)
	if state != core.Planned {
		r.SentAt, r.Address = at.Time().Add(late), "http://a"
	}
	if !state.Open() {
		r.EndedAt, r.Reason = r.SentAt.Add(time.Second), append(core.Reasons[state], "")[0]
	}
	f.Put(r)
	return r
}

func (f *fixture) stand(a query.JobsAsk) (names []string, page query.JobsNow) {
	f.T.Helper()
	page, err := f.M.JobsNow(ctx, a)
	check.OK(f.T, err)
	for i := range page.Jobs {
		names = append(names, page.Jobs[i].Def.Name)
	}
	return names, page
}

// TestLongRunEnds checks that the end of a run is seen even if more runs began since than an update reads.
func TestLongRunEnds(t *testing.T) {
	f := newFixture(t)
	long, often := f.Create(spec("long", every(time.Hour))), f.Create(spec("often", every(time.Second)))
	r := f.ran(long.Def.ID, time.Second, 0, core.Running)
	f.Clock = f.Clock.Add(20 * time.Minute)
	for range budget.AtOnce + 1 {
		f.Clock = f.Clock.Add(time.Second)
		f.ran(often.Def.ID, 0, 0, core.Succeeded)
	}
	failing := func(want ...string) {
		t.Helper()
		f.Clock = f.Clock.Add(time.Minute)
		if names, _ := f.stand(query.JobsAsk{Is: []query.Standing{query.IsFailing}}); !slices.Equal(names, want) {
			t.Errorf("%v fail, not %v", names, want)
		}
	}
	failing()
	failing()
	check.OK(t, f.E.ChangeRuns(ctx, []core.RunPut{core.End(r.ID,
		core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: f.Clock})})[0])
	failing("long")
}

// TestJobsInOrder checks that in each order and direction, pages continue without gaps.
func TestJobsInOrder(t *testing.T) {
	f := newFixture(t)
	for i := range 9 {
		j := f.Create(spec(fmt.Sprintf("j%d", (i*4)%9), every(time.Duration(i+1)*time.Minute)))
		if i%3 != 0 {
			f.ran(j.Def.ID, time.Duration(i)*time.Minute, 0, core.Succeeded)
		}
	}
	f.Pause(manage.Target{Job: "shop/j3"})
	for _, by := range query.Orders {
		whole, _ := f.stand(query.JobsAsk{By: by})
		down, _ := f.stand(query.JobsAsk{By: by, Down: true})
		for _, order := range []struct {
			down bool
			want []string
		}{{false, whole}, {true, down}} {
			var got []string
			a := query.JobsAsk{JobFilter: query.JobFilter{Limit: 2}, By: by, Down: order.down}
			for {
				names, page := f.stand(a)
				got = append(got, names...)
				if a.Cursor = page.Next; a.Cursor == "" {
					break
				}
			}
			if !slices.Equal(got, order.want) || len(got) != 9 {
				t.Errorf("by %s, down %t: %v, in one %v", by, order.down, got, order.want)
			}
		}
		none := map[query.Order]int{query.ByNext: 1, query.ByLast: 3}[by] // without a time: last in both directions
		head := func(l []string) []string { return l[:9-none] }
		back := slices.Clone(head(down))
		slices.Reverse(back)
		if !slices.Equal(head(whole), back) {
			t.Errorf("by %s: %v and %v", by, whole, down)
		}
	}
	for field, bad := range map[string]query.JobsAsk{"status": {Is: []query.Standing{"odd"}}, "sort": {By: "odd"}, "runs": {Recent: 31},
		"cursor": {Cursor: "x@1"}} {
		fails(t, core.CodeInvalid, "%s", field)(f.M.JobsNow(ctx, bad))
	}
}

// TestFewLastRunsAtOnce checks that a long page does not hold all last runs in memory, and misses none.
func TestFewLastRunsAtOnce(t *testing.T) {
	f := newFixture(t)
	for i := range 60 {
		name := fmt.Sprintf("j%02d", i)
		f.ran(f.Create(spec(name, every(time.Hour))).Def.ID, 0, 0, core.Succeeded)
	}
	most := 0
	q := query.New(hook.Over(f.E, func(_ context.Context, c *hook.Call, next func() []error) []error {
		if c.Limit == query.MaxRecent {
			most = max(most, len(c.Last))
		}
		return next()
	}), query.Options{Now: f.Now})
	page, err := q.JobsNow(ctx, query.JobsAsk{By: query.ByName, Recent: query.MaxRecent, JobFilter: query.JobFilter{Limit: 55}})
	if err != nil || len(page.Jobs) != 55 || most > 25 {
		t.Fatalf("%d jobs, runs of %d at once: %v", len(page.Jobs), most, err)
	}
	for i := range page.Jobs {
		if page.Jobs[i].Def.Name != fmt.Sprintf("j%02d", i) || len(page.Recent[i]) != 1 {
			t.Errorf("%s: %d runs", page.Jobs[i].Def.Name, len(page.Recent[i]))
		}
	}
	if page.Next == "" {
		t.Error("five more are to come")
	}
}

// unreadable are jobs of which none can be read.
type unreadable struct{ store.Jobs }

func (unreadable) List(_ context.Context, _ string, after core.JobID, limit int) (jobs []store.Got[*core.Job], next core.JobID, err error) {
	for next = after; len(jobs) < limit; {
		next++
		jobs = append(jobs, store.Got[*core.Job]{Is: &core.Job{Def: core.Def{ID: next}}, Err: errors.New("no JSON")})
	}
	return jobs, next, nil
}

// TestSelectBehindUnreadableJobs checks that too many unreadable jobs are reported as that, not as too many jobs, to
// every caller.
func TestSelectBehindUnreadableJobs(t *testing.T) {
	s := *newFixture(t).E
	s.Jobs = unreadable{}
	q := query.New(&s, query.Options{})
	texts := golden.New(t)
	for _, sees := range []func(string) bool{nil, func(app string) bool { return app == "shop" }} {
		_, _, bad, err := q.Select(ctx, query.JobsAsk{JobFilter: query.JobFilter{Sees: sees}}, 0)
		check.Equal(t, len(bad), 0, "%v", bad)
		texts.Equal(t, "too many", fmt.Sprint(err))
	}
}
