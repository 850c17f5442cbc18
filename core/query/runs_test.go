package query_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestRunFilters checks each filter alone and all together, for one job and for all.
func TestRunFilters(t *testing.T) {
	f := newFixture(t)
	job := f.Create(spec("sweep", every(time.Minute)))
	base := core.InstantOf(start) - 3600
	run := func(n int, state core.State, late, took time.Duration, address string) core.Run {
		at := base + core.Instant(60*n)
		r := newRun(planned(job.Def.ID, at), state, at)
		r.Address, r.SentAt = address, at.Time().Add(late)
		if !state.Open() {
			r.EndedAt = r.SentAt.Add(took)
		}
		r.Reason = map[core.State]core.Reason{core.Failed: core.ReasonHandler, core.Lost: core.ReasonGone}[state]
		return r
	}
	list := []core.Run{
		run(1, core.Succeeded, 0, time.Second, "http://a"),
		run(2, core.Succeeded, 20*time.Second, 10*time.Minute, "http://b"),
		run(3, core.Failed, 0, time.Minute, "http://a"),
		run(4, core.Lost, 20*time.Second, 2*time.Minute, "http://b"),
		run(5, core.Running, 0, 0, "http://b"),
	}
	params := `{"tenant": "Müller"}`
	list[1].Params, list[2].Message = &params, "connect to DB7: refused"
	f.Put(list...)
	for name, test := range map[string]struct {
		f    query.RunFilter
		want []int
	}{
		"address": {query.RunFilter{Address: "http://b"}, []int{5, 4, 2}},
		"longer":  {query.RunFilter{Longer: 90 * time.Second}, []int{5, 4, 2}},
		"shorter": {query.RunFilter{Shorter: 90 * time.Second}, []int{3, 1}},
		"between": {query.RunFilter{Longer: 30 * time.Second, Shorter: 90 * time.Second}, []int{3}},
		"late":    {query.RunFilter{Late: 5 * time.Second}, []int{4, 2}},
		"state":   {query.RunFilter{States: []core.State{core.Failed, core.Lost}}, []int{4, 3}},
		"open":    {query.RunFilter{States: []core.State{core.Running}}, []int{5}},
		"failed":  {query.RunFilter{Failed: true}, []int{4, 3}},
		"time":    {query.RunFilter{From: list[1].At.Time(), To: list[2].At.Time()}, []int{3, 2}},
		"all": {query.RunFilter{States: []core.State{core.Lost, core.Succeeded}, Causes: []core.Cause{core.CauseSchedule},
			Address: "http://b", From: list[0].At.Time(), To: list[3].At.Time(), Longer: time.Minute, Late: time.Second}, []int{4, 2}},
		"text of a message": {query.RunFilter{Text: "db7: REF"}, []int{3}},
		"text of params":    {query.RunFilter{Text: "MÜLLER"}, []int{2}},
		"text and state":    {query.RunFilter{Text: "müller", States: []core.State{core.Failed}}, nil},
		"none":              {query.RunFilter{Causes: []core.Cause{core.CauseAPI}}, nil},
	} {
		for _, of := range []query.RunFilter{{Job: "shop/sweep"}, {App: "shop"}, {}} {
			test.f.Job, test.f.App = of.Job, of.App
			page, err := f.M.Runs(ctx, test.f)
			check.OK(t, err)
			var got []int
			for _, r := range page.Runs {
				got = append(got, int(r.At-base)/60)
			}
			slices.SortFunc(got, func(a, b int) int { return b - a }) // runs with equal times have no order
			if !slices.Equal(got, test.want) {
				t.Errorf("%s of %q%q: %v, not %v", name, of.Job, of.App, got, test.want)
			}
		}
	}
	for _, bad := range []query.RunFilter{{Longer: -1}, {Late: -1}, {Longer: time.Hour, Shorter: time.Minute},
		{Address: string(make([]byte, core.MaxAddress+1))}, {Text: string(make([]byte, 129))}} {
		fails(t, core.CodeInvalid, "%+v", bad)(f.M.Runs(ctx, bad))
	}
}

// TestRunsPastTheirTime checks that runs created long after their scheduled time are found by time only with
// Thorough. So other queries need not scan all later runs.
func TestRunsPastTheirTime(t *testing.T) {
	f := newFixture(t)
	job := f.Create(spec("sweep", every(time.Minute)))
	at := core.InstantOf(start.Add(-50 * time.Hour))
	r := newRun(planned(job.Def.ID, at), core.Skipped, at)
	r.Reason, r.Cause, r.EndedAt = core.ReasonMisfire, core.CauseMisfire, start
	f.Put(r)
	for thorough, want := range map[bool]int{false: 0, true: 1} {
		page, err := f.M.Runs(ctx, query.RunFilter{From: at.Time(), To: at.Time(), Thorough: thorough})
		if err != nil || len(page.Runs) != want {
			t.Errorf("thorough %t: %d runs, %v", thorough, len(page.Runs), err)
		}
	}
}

// TestRunsMadeLongBefore checks that with runs created long before they were due, a full page has a next one.
func TestRunsMadeLongBefore(t *testing.T) {
	f := newFixture(t)
	job := f.Create(spec("sweep", every(time.Minute)))
	var list []core.Run
	for i := range 12 {
		at := core.InstantOf(start.Add(150*time.Minute)) + core.Instant(i)
		list = append(list, newRun(planned(job.Def.ID, at), core.Queued, at))
	}
	f.Put(list...)
	got := 0
	for _, page := range f.pages(query.RunFilter{Limit: 10, From: start.Add(2 * time.Hour)}) {
		got += len(page.Runs)
	}
	if got != len(list) {
		t.Errorf("pages of 10 have %d of %d that wait", got, len(list))
	}
}

// TestRunsOfOneMoment checks that with thousands of runs created at once, pages are full, and list each run once.
func TestRunsOfOneMoment(t *testing.T) {
	f := newFixture(t)
	job := f.Create(spec("sweep", every(time.Minute)))
	var list []core.Run
	for i := range 25 {
		at := core.InstantOf(start) - core.Instant(60*(i+1))
		r := newRun(planned(job.Def.ID, at), core.Running, at)
		r.Address, r.SentAt = "http://a", at.Time()
		list = append(list, r)
	}
	f.Put(list...)
	got := map[core.RunID]bool{}
	for _, page := range f.pages(query.RunFilter{Limit: 10}) {
		if len(page.Runs) > 10 {
			t.Fatalf("a page of 10 has %d runs", len(page.Runs))
		}
		for i := range page.Runs {
			if got[page.Runs[i].ID] {
				t.Errorf("run %d came twice", page.Runs[i].ID)
			}
			got[page.Runs[i].ID] = true
		}
	}
	if len(got) != len(list) {
		t.Errorf("%d of %d runs came", len(got), len(list))
	}
	for _, bad := range []string{"x", "0", "-5", "5.", "5.x", "5.0", "5.-1", "5.1.1", ".5"} {
		fails(t, core.CodeInvalid, "after %q", bad)(f.M.Runs(ctx, query.RunFilter{After: bad}))
	}
}

// TestRunsBehindManyOthers checks that a run is found by state behind any number of newer runs. A page that reaches
// the bound reports how far it searched, and the next continues.
func TestRunsBehindManyOthers(t *testing.T) {
	for n, want := range map[int]int{budget.Looked - 1: 1, budget.Looked: 2, 2*budget.Looked + 1: 3} {
		f := newFixture(t)
		job := f.Create(spec("sweep", every(time.Second)))
		list := make([]core.Run, n+1)
		for i := range list {
			list[i] = newRun(planned(job.Def.ID, core.InstantOf(start)+core.Instant(i)), core.Succeeded, core.InstantOf(start))
		}
		list[0].State, list[0].Reason = core.Failed, core.ReasonHandler
		f.Put(list...)
		f.Clock = start.Add(30 * 24 * time.Hour)
		found, pages := 0, f.pages(query.RunFilter{Job: "shop/sweep", States: []core.State{core.Failed}})
		for _, page := range pages {
			if found += len(page.Runs); page.Next != "" && page.LookedTo.IsZero() {
				t.Error("a page that is not full does not say how far it looked")
			}
		}
		if found != 1 || len(pages) != want {
			t.Errorf("behind %d others %d found, in %d pages, want %d", n, found, len(pages), want)
		}
	}
}
