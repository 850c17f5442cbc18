package query_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
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

func TestRunAt(t *testing.T) {
	f := newFixture(t)
	s := spec("nightly", core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 30 2 * * ?"}}, Timezone: "Europe/Berlin"})
	j := f.Create(s)
	at := core.InstantOf(time.Date(2026, 11, 20, 1, 30, 0, 0, time.UTC))
	f.Ran(j.Def.ID, at, 0)
	for _, ref := range []string{"shop/nightly@2026-11-20T02:30", "shop/nightly@2026-11-20T02:30:00", "shop/nightly@2026-11-20T01:30Z",
		"shop/nightly@2026-11-20T02:30:00+01:00", "shop/nightly@02:30", "shop/nightly@2:30:00", planned(j.Def.ID, at).String()} {
		if v, err := f.M.Run(ctx, ref); err != nil || v.Run.At != at || v.Skip != nil {
			t.Errorf("%s: %+v %v", ref, v, err)
		}
	}
	f.E.PutSkips(ctx, []core.Skip{{Job: j.Def.ID, First: at - 86400, Last: at, Count: 2, Reason: core.ReasonMisfire}})
	v, err := f.M.Run(ctx, "shop/nightly@2026-11-19T02:30")
	if err != nil || v.Skip == nil || v.Run.State != core.Skipped || v.Run.Reason != core.ReasonMisfire || v.Run.App != "shop" {
		t.Errorf("skipped: %+v %v", v, err)
	}
	fails(t, core.CodeRefused, "kill of a skipped instant")(f.M.KillRun(ctx, ann, "shop/nightly@2026-11-19T02:30", ""))
	// The clock shows 02:30 twice on 25 October; the run is the first.
	twice := core.InstantOf(time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC))
	f.Ran(j.Def.ID, twice, 0)
	if v, err := f.M.Run(ctx, "shop/nightly@2026-10-25T02:30"); err != nil || v.Run.At != twice {
		t.Errorf("twice: %+v %v", v, err)
	}
	// The clock skips 02:30 on 29 March; the run is at the first moment after the gap.
	gap := core.InstantOf(time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC))
	f.Ran(j.Def.ID, gap, 0)
	if v, err := f.M.Run(ctx, "shop/nightly@2026-03-29T02:30"); err != nil || v.Run.At != gap {
		t.Errorf("in a gap: %+v %v", v, err)
	}
	last := core.InstantOf(time.Date(2026, 11, 19, 22, 30, 0, 0, time.UTC))
	if v, err := f.M.Run(ctx, "shop/nightly@23:30"); err != nil || v.Run.At != last {
		t.Errorf("a time of day is the last one: %+v %v", v, err)
	}
	for ref, want := range map[string]core.Code{"shop/nightly@2026-12-24T02:30": core.CodeNotFound, "shop/nightly@noon": core.CodeInvalid,
		"shop/nightly@1999-01-01T00:00": core.CodeInvalid, "x": core.CodeInvalid, "-7": core.CodeInvalid, "99999999999": core.CodeNotFound} {
		fails(t, want, "%s", ref)(f.M.Run(ctx, ref))
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

// TestRunAtOfAPause checks that a time without a run shows who paused the job, its app or everything, when and why,
// for current and past pauses.
func TestRunAtOfAPause(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", every(10*time.Minute)))
	f.Fires()
	job, app, all := manage.Target{Job: "shop/sweep"}, manage.Target{App: "shop"}, manage.Target{All: true}
	at := func(m int) time.Time { return start.Truncate(time.Hour).Add(time.Duration(m) * time.Minute) }
	pause := func(m int, who manage.Target, why string, until ...time.Time) {
		t.Helper()
		f.Clock = at(m)
		r := manage.PauseRequest{Why: why}
		if len(until) > 0 {
			r.Until = &until[0]
		}
		check.Call(t)(f.M.Pause(ctx, core.Actor{Name: "bob"}, who, r))
	}
	resume := func(m int, who manage.Target) {
		t.Helper()
		f.Clock = at(m)
		f.Resume(who)
	}
	seen := ""
	looks := func(minutes ...int) {
		t.Helper()
		for _, m := range minutes {
			_, err := f.M.Run(ctx, "shop/sweep@"+at(m).Format(time.RFC3339))
			check.Equal(t, code(err), core.CodeNotFound, "minute %d: %v", m, err)
			seen += fmt.Sprintf("%s: %v\n", f.Clock.Format("15:04"), err)
		}
	}
	pause(5, job, "release")
	f.Clock = at(8)
	edited := spec("sweep", every(10*time.Minute))
	edited.Def.Params = "edited while it is paused"
	check.OK(t, f.Save(edited)[0].Err)
	looks(10, 100, 15)
	resume(25, job)
	looks(10, 20, 30)

	pause(35, app, "move")
	resume(45, app)
	f.Resumed()
	pause(55, app, "", at(65))
	f.Clock = at(56)
	looks(40, 60, 70)

	pause(75, all, "storm")
	looks(80)
	resume(85, all)
	f.Resumed()
	looks(80)

	pause(95, job, "nap", at(115))
	looks(110, 120)
	f.Clock = at(121) // no tick has ended it
	looks(110, 120)

	changed := spec("sweep", every(20*time.Minute))
	check.OK(t, f.Save(changed)[0].Err)
	looks(91, 130, 100)
	f.Clock = at(240)
	looks(140)
	golden.New(t).Equal(t, "reasons", seen)
}

// TestRunAtOfAnOutage checks that a time in a server outage shows when the outage was, in the job's zone, with and
// without a record.
func TestRunAtOfAnOutage(t *testing.T) {
	f := newFixture(t)
	hourly := every(time.Hour)
	hourly.Timezone = "Europe/Berlin"
	job := f.Create(spec("sweep", hourly))
	at := func(h int) time.Time { return start.Truncate(time.Hour).Add(time.Duration(h) * time.Hour) }
	f.Clock = at(4)
	check.OK(t, registry.NoteOutage(ctx, f.E, at(1).Add(-time.Minute), at(3).Add(time.Minute), time.Minute))
	skip := core.Skip{Job: job.Def.ID, First: core.InstantOf(at(2)), Last: core.InstantOf(at(2)), Count: 1,
		Reason: core.ReasonMisfire, Made: at(3)}
	check.OK(t, f.E.PutSkips(ctx, []core.Skip{skip})[0])
	texts := golden.New(t)
	v, err := f.M.Run(ctx, "shop/sweep@"+at(2).Format(time.RFC3339))
	if err != nil || v.Skip == nil {
		t.Error(err)
	}
	texts.Equal(t, "skipped", v.Away.String())
	_, err = f.M.Run(ctx, "shop/sweep@"+at(3).Format(time.RFC3339))
	texts.Equal(t, "late", fmt.Sprint(err))
	if _, err := f.M.Run(ctx, "shop/sweep@"+at(4).Format(time.RFC3339)); err == nil || strings.Contains(err.Error(), "down") {
		t.Error(err)
	}
}

// TestUpcomingAfterAPause checks that a pause with an end hides only its own times, however many these are.
func TestUpcomingAfterAPause(t *testing.T) {
	until := start.Add(10 * time.Minute)
	for name, targets := range map[string][]manage.Target{
		"of the app": {{App: "shop"}}, "of everything": {{All: true}}, "of the job": {{Job: "shop/beat"}},
		"of all of them": {{App: "shop"}, {All: true}, {Job: "shop/beat"}},
	} {
		f := newFixture(t)
		f.Create(spec("beat", every(time.Second)))
		for _, target := range targets {
			f.Pause(target, until)
		}
		up, err := f.M.Upcoming(ctx, query.JobFilter{App: "shop"}, time.Time{}, time.Hour, 100)
		first := core.Ceil(until) // the first time of a job after it
		if name != "of the app" && name != "of everything" {
			first = core.Ceil(until) + 1
		}
		if err != nil || len(up.Coming) != 100 || !up.Partial || up.Coming[0].At != first || up.Coming[99].At != first+99 {
			t.Errorf("%s: %d, %+v (%v)", name, len(up.Coming), up.Coming[:min(1, len(up.Coming))], err)
		}
	}
	f := newFixture(t)
	f.Create(spec("beat", every(time.Second)))
	f.Pause(manage.Target{App: "shop"})
	if up, err := f.M.Upcoming(ctx, query.JobFilter{}, time.Time{}, time.Hour, 100); err != nil || len(up.Coming) != 0 || up.Partial {
		t.Errorf("paused without an end: %+v %v", up, err)
	}
}
