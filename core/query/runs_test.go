package query_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
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

// TestRanWith checks that a sent run has the definition of its revision, even if up to a thousand records follow it.
// A waiting run has the current definition.
func TestRanWith(t *testing.T) {
	f := newFixture(t)
	s := spec("sweep", every(time.Hour))
	s.Def.Handler = "first"
	made := f.Create(s)
	triggers := func(n int) {
		t.Helper()
		list := make([]core.Change, n)
		for i := range list {
			f.Clock = f.Clock.Add(time.Second)
			list[i] = core.Change{ID: f.Clock.UnixMilli(), At: f.Clock, By: "ann", Verb: core.VerbTriggered, App: "shop", Job: made.Def.ID,
				New: fmt.Sprintf(`{"runs":["%d"]}`, i)}
		}
		check.OK(t, f.E.PutChanges(ctx, list))
	}
	pauseAndResume := func() core.Job {
		t.Helper()
		f.Clock = f.Clock.Add(time.Minute)
		f.Pause(manage.Target{Job: "shop/sweep"})
		f.Clock = f.Clock.Add(time.Minute)
		f.Resume(manage.Target{Job: "shop/sweep"})
		return f.Job("shop/sweep")
	}
	triggers(300)
	resumed := pauseAndResume()
	f.Clock = f.Clock.Add(time.Minute)
	s.Def.Handler = "second"
	f.Save(s)
	edited := f.Job("shop/sweep")
	triggers(300)
	f.Clock = f.Clock.Add(time.Minute)
	s.Def.Handler = "third"
	f.Save(s)
	now := f.Job("shop/sweep")
	sent := f.Clock
	for name, c := range map[string]struct {
		run           core.Run
		handler, made string
		rev           int64
	}{
		"as made":       {core.Run{State: core.Succeeded, SentAt: sent, Rev: made.Sched.Rev}, "first", "created", made.Sched.Rev},
		"after a pause": {core.Run{State: core.Succeeded, SentAt: sent, Rev: resumed.Sched.Rev}, "first", "created", made.Sched.Rev},
		"sent under a newer one": {core.Run{State: core.Running, SentAt: sent, Rev: made.Sched.Rev, SentRev: edited.Sched.Rev},
			"second", "updated", edited.Sched.Rev},
		"as edited":    {core.Run{State: core.Lost, SentAt: sent, Rev: edited.Sched.Rev}, "second", "updated", edited.Sched.Rev},
		"not sent yet": {core.Run{State: core.Planned, Rev: made.Sched.Rev}, "third", "updated", now.Sched.Rev},
		"given back":   {core.Run{State: core.Queued, SentAt: sent, Rev: made.Sched.Rev}, "third", "updated", now.Sched.Rev},
	} {
		c.run.ID = core.NumberedRun(made.Def.ID, 1)
		for _, job := range []*core.Job{&now, nil} {
			with, err := f.M.RanWith(ctx, &c.run, job)
			if err != nil || with == nil || with.Change == nil {
				t.Errorf("%s, its job there %t: %+v, %v", name, job != nil, with, err)
			} else if with.Def.Handler != c.handler || with.Change.Verb != c.made || with.Change.ID != c.rev || with.Change.By != "ann" {
				t.Errorf("%s, its job there %t: %s, %s in %d by %s, want %s, %s in %d", name, job != nil, with.Def.Handler, with.Change.Verb,
					with.Change.ID, with.Change.By, c.handler, c.made, c.rev)
			}
		}
	}

	// Beyond that, the stored job is the only source.
	triggers(1000)
	far := pauseAndResume()
	run := core.Run{ID: core.NumberedRun(made.Def.ID, 1), State: core.Succeeded, SentAt: f.Clock, Rev: far.Sched.Rev}
	if with, err := f.M.RanWith(ctx, &run, &far); err != nil || with == nil || with.Def.Handler != "third" || with.Change != nil {
		t.Errorf("far back: %+v, %v", with, err)
	}
	run.Rev = made.Sched.Rev - 1
	if with, err := f.M.RanWith(ctx, &run, &far); err != nil || with != nil {
		t.Errorf("before all records: %+v, %v", with, err)
	}
}

// TestSentWith checks that a sent run has its params, while open and after its end, and after an edit of the job.
func TestSentWith(t *testing.T) {
	f := newFixture(t)
	s := spec("sweep", every(time.Hour))
	s.Def.Params, s.Def.Template = "--run {{runId}} --try {{attempt}} --day {{scheduledAt yyyy-MM-dd}}", true
	made := f.Create(s)
	f.Clock = f.Clock.Add(time.Minute)
	s.Def.Params = "--other"
	f.Save(s)
	now := f.Job("shop/sweep")
	at := core.InstantOf(time.Date(2026, 3, 1, 2, 30, 0, 0, time.UTC))
	run := core.Run{ID: core.NumberedRun(made.Def.ID, 1), App: "shop", At: at, Attempt: 2, Rev: made.Sched.Rev, SentAt: f.Clock}
	for _, run.State = range []core.State{core.Running, core.Failed} {
		with, err := f.M.SentWith(ctx, &run, &now)
		want := fmt.Sprintf("--run %d --try 2 --day 2026-03-01", run.ID)
		if err != nil || with == nil || with.Def.Params != want || with.Def.Template {
			t.Errorf("%s: %+v, %v", run.State, with, err)
		}
	}
}

// TestMissing checks that a run that waits for its other parents lists them.
func TestMissing(t *testing.T) {
	f := newFixture(t)
	a := f.Create(spec("a", every(time.Hour)))
	f.Create(spec("b", every(time.Hour)))
	s := spec("join", core.Schedule{})
	s.Def.Within = time.Hour
	s.Def.After = []core.Parent{{Job: "shop/a", When: core.UponClose}, {Job: "shop/b", When: core.UponClose}}
	job := f.Create(s)
	now, parent, id := core.InstantOf(f.Clock), planned(a.Def.ID, core.InstantOf(f.Clock)), core.NumberedRun(job.Def.ID, 1)
	j := core.Join{}
	j.Note(&job.Def, &core.Run{ID: parent}, id, now)
	run := newRun(id, core.Planned, j.End)
	run.Cause, run.At, run.Parent = core.CauseParent, j.Begun, parent
	f.Put(run)
	item := core.Permits{Name: job.Def.JoinName(), V: 1, Join: &j}
	missing := func() []string {
		t.Helper()
		check.OK(t, f.E.PutPermits(ctx, []core.Permits{item})[0])
		v, err := f.M.Run(ctx, id.String())
		check.OK(t, err)
		return v.Missing
	}
	if got := missing(); !slices.Equal(got, []string{"shop/b"}) {
		t.Errorf("it waits for %v", got)
	}
	j.Clear()
	if item.V = 2; missing() != nil {
		t.Error("its round is over, and it waits for more")
	}
}
