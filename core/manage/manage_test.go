package manage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// TestRevisionsGrow: a revision is later than the one before, even if the clock stands still.
func TestRevisionsGrow(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Second)))
	check.Equal(t, j.Sched.Rev, core.Millis(start))
	s := spec("sweep", every(10*time.Second))
	s.Def.Params = "day"
	check.Equal(t, f.Save(s)[0].Rev, j.Sched.Rev+1)
	check.Equal(t, f.Job("shop/sweep").Def.Created, j.Def.Created)
}

// TestChangePlansTheRestByTick: a change plans the due runs of some passes; the tick plans the
// rest.
func TestChangePlansTheRestByTick(t *testing.T) {
	made := func(ahead time.Duration, most int) (fires int, due bool) {
		f := newFixture(t)
		o := plan.Local()
		o.PlanAhead, o.MaxAhead, o.MaxInstants = ahead, time.Hour, most
		now := func() time.Time { return f.Clock }
		m := people.New(f.E, nil, f.Killer, people.Options{Plan: o, Ask: query.Options{Now: now}})
		check.OK(t, m.Save(ctx, ann, []manage.JobSpec{spec("sweep", every(time.Second))})[0].Err)
		return len(f.Fires()), f.Job("shop/sweep").Sched.PlanAt <= core.InstantOf(f.Clock)
	}
	const most, bound = 5, 5 * budget.PlanPasses
	at, beyond := false, false
	for _, ahead := range []time.Duration{bound - 10, bound - 5, bound, bound + 5, 3 * bound} {
		all, _ := made(ahead*time.Second, 1000)
		all -= most // one pass also plans the window after it
		at, beyond = at || all == bound, beyond || all == bound+most
		if n, due := made(ahead*time.Second, most); n != min(all, bound) || due != (all > bound) {
			t.Errorf("%d of %d fires are planned, due again %t", n, all, due)
		}
	}
	if !at || !beyond {
		t.Errorf("planned to the bound %t, beyond it %t", at, beyond)
	}
}

func TestSavePlansAtOnce(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Second)))
	fires := f.Fires()
	if len(fires) == 0 || fires[0].At != core.InstantOf(start)+1 || fires[0].Rev != j.Sched.Rev {
		t.Fatalf("fires: %+v", fires)
	}
	if last := fires[len(fires)-1].At; j.Sched.Next != last+1 || j.Sched.PlanAt <= core.InstantOf(f.Clock) {
		t.Errorf("next %s after fires up to %s, planAt %s", j.Sched.Next, last, j.Sched.PlanAt)
	}
}

// TestSaveNeedsACaller: a change without a caller, or by a user with the name of a run, is rejected. TestStories in api has the other
// reasons.
func TestSaveNeedsACaller(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"", "run 858"} { // reserved for a run that replaces another
		r := f.M.Save(ctx, core.Actor{Name: name}, []manage.JobSpec{spec("b", every(time.Minute))})
		check.Equal(t, code(r[0].Err), core.CodeInvalid, "%q: %v", name, r[0].Err)
	}
	page, err := f.M.Jobs(ctx, query.JobFilter{})
	if err != nil || len(page.Jobs) != 0 {
		t.Errorf("%d jobs, %v", len(page.Jobs), err)
	}
}

// TestFaults: after a fault of any kind at any write, a change is stored once, or rejected and
// not stored. It is never stored without the record of earlier due runs.
func TestFaults(t *testing.T) {
	type op struct {
		name   string
		reason core.Reason
		do     func(m *people.People) error
		made   func(f *fixture) bool
	}
	yes := true
	one := func(r []manage.SaveResult) error { return r[0].Err }
	hourly := spec("sweep", every(time.Hour))
	stop := spec("sweep", every(time.Second))
	stop.Paused = &yes
	for _, o := range []op{
		{"create", "", func(m *people.People) error {
			return one(m.Save(ctx, ann, []manage.JobSpec{spec("more", every(time.Second))}))
		},
			func(f *fixture) bool { _, err := f.M.Job(ctx, "shop/more"); return err == nil }},
		{"edit", core.ReasonChanged, func(m *people.People) error { return one(m.Save(ctx, ann, []manage.JobSpec{hourly})) },
			func(f *fixture) bool { return f.Job("shop/sweep").Sched.Schedule.Equal(every(time.Hour)) }},
		{"apply paused", core.ReasonPaused, func(m *people.People) error { return one(m.Save(ctx, ann, []manage.JobSpec{stop})) },
			func(f *fixture) bool { return f.Job("shop/sweep").Sched.State == core.Paused }},
		{"pause", core.ReasonPaused, func(m *people.People) error {
			_, err := m.Pause(ctx, ann, manage.Target{Job: "shop/sweep"}, manage.PauseRequest{Why: "broken"})
			return err
		}, func(f *fixture) bool { return f.Job("shop/sweep").Sched.State == core.Paused }},
		{"delete", core.ReasonDeleted, func(m *people.People) error { _, err := m.Delete(ctx, ann, "shop/sweep", nil); return err },
			func(f *fixture) bool { _, err := f.M.Job(ctx, "shop/sweep"); return err != nil }},
		{"pause app", "", func(m *people.People) error {
			_, err := m.Pause(ctx, ann, manage.Target{App: "shop"}, manage.PauseRequest{})
			return err
		}, func(f *fixture) bool { a, _ := f.M.App(ctx, "shop"); return a.Pause.Covers(f.Clock) }},
		{"pause all", "", func(m *people.People) error {
			_, err := m.Pause(ctx, ann, manage.Target{All: true}, manage.PauseRequest{})
			return err
		}, func(f *fixture) bool { g, _ := f.M.Global(ctx); return g.Pause.Covers(f.Clock) }},
		{"app", "", func(m *people.People) error { _, err := m.SaveApp(ctx, ann, manage.AppSpec{Name: "new"}); return err },
			func(f *fixture) bool { _, err := f.M.App(ctx, "new"); return err == nil }},
	} {
		for _, mode := range []struct {
			name  string
			fault faults
		}{
			{"unknown, not done", faults{}}, {"unknown, done", faults{After: true}}, {"throttled", faults{Err: core.ErrThrottled}},
			{"own write answered with a conflict", faults{After: true, Err: core.ErrRefused}},
			{"killed before", faults{Kill: true}}, {"killed after", faults{Kill: true, After: true}},
		} {
			for at := 1; ; at++ {
				f := newFixture(t)
				j := f.Create(spec("sweep", every(time.Second)))
				f.Clock = f.Clock.Add(time.Hour) // no tick runs in between
				w := mode.fault
				w.At = at
				err := o.do(f.Fresh(&w))
				f.M = f.Fresh(&faults{})
				if w.Last == "" {
					if err != nil {
						t.Fatalf("%s: %v", o.name, err)
					}
					break
				}
				what := fmt.Sprintf("%s, %s at %s", o.name, mode.name, w.Last)
				made := o.made(f)
				if err == nil && !made {
					t.Errorf("%s: success, and not made", what)
				}
				if err != nil && code(err) != core.CodeUnavailable {
					t.Errorf("%s: %v", what, err)
				}
				if err != nil && made && !w.Kill {
					t.Errorf("%s: refused (%v), and made", what, err)
				}
				if err != nil && w.Err == nil && !w.Kill {
					t.Errorf("%s: not tried again: %v", what, err)
				}
				if made && o.reason != "" {
					skips := f.Skips(j.Def.ID)
					end := core.InstantOf(f.Clock)
					if len(skips) != 1 || skips[0].First != j.Sched.Next || skips[0].Last != end || skips[0].Count != int64(end-j.Sched.Next+1) ||
						skips[0].Reason != o.reason {
						t.Errorf("%s: created, and the record of due runs is %+v", what, skips)
					}
				}
				// A repeated call makes the change.
				if err := o.do(f.M); err != nil && !(o.name == "delete" && code(err) == core.CodeNotFound) {
					t.Errorf("%s, again: %v", what, err)
				}
				if !o.made(f) {
					t.Errorf("%s, again: not made", what)
				}
			}
		}
	}
}

func TestPauseOfAJob(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Second)))
	until := start.Add(time.Hour)
	job := manage.Target{Job: "shop/sweep"}
	r, err := f.M.Pause(ctx, ann, job, manage.PauseRequest{Why: "db", Until: &until})
	if err != nil || !r.Changed || r.State != core.Paused || !r.Until.Equal(core.Ceil(until).Time()) {
		t.Fatalf("%+v %v", r, err)
	}
	s := f.Job("shop/sweep").Sched
	if s.PlanAt != core.Ceil(until) || s.PauseUntil != s.PlanAt || s.Next != 0 || s.PauseWhy != "db" || s.PauseBy != "ann" ||
		s.Rev <= j.Sched.Rev {
		t.Errorf("paused: %+v", s)
	}
	if r, err := f.M.Pause(ctx, ann, job, manage.PauseRequest{Why: "db", Until: &until}); err != nil || r.Changed {
		t.Errorf("again: %+v %v", r, err)
	}
	if r, err := f.M.Pause(ctx, ann, job, manage.PauseRequest{}); err != nil || !r.Changed || f.Job("shop/sweep").Sched.PlanAt != 0 {
		t.Errorf("for ever: %+v %v", r, err)
	}
	f.Fires()
	f.Clock = f.Clock.Add(30 * time.Minute)
	if r, err := f.M.Resume(ctx, ann, job, "ok"); err != nil || !r.Changed || r.State != core.Started {
		t.Errorf("resume: %+v %v", r, err)
	}
	for _, fire := range f.Fires() {
		if fire.At <= core.InstantOf(f.Clock) {
			t.Errorf("resume runs what passed: %s", fire.At)
		}
	}
	check.Equal(t, len(f.Skips(j.Def.ID)), 0, "records of instants inside the pause")
	if r, err := f.M.Resume(ctx, ann, job, ""); err != nil || r.Changed {
		t.Errorf("resume again: %+v %v", r, err)
	}
	past := start
	for _, bad := range []struct {
		t manage.Target
		r manage.PauseRequest
	}{{manage.Target{}, manage.PauseRequest{}}, {manage.Target{Job: "shop/sweep", All: true}, manage.PauseRequest{}},
		{job, manage.PauseRequest{Until: &past}}, {job, manage.PauseRequest{Why: strings.Repeat("x", 1001)}}} {
		fails(t, core.CodeInvalid, "%+v", bad)(f.M.Pause(ctx, ann, bad.t, bad.r))
	}
	fails(t, core.CodeNotFound, "no job")(f.M.Pause(ctx, ann, manage.Target{Job: "shop/none"}, manage.PauseRequest{}))
}

// TestFixedDelayKeepsItsTail: an edit, and a pause and resume, of a fixed delay keep its open
// chain. Its fire is sent again with its ID under the new revision.
func TestFixedDelayKeepsItsTail(t *testing.T) {
	f := newFixture(t)
	delay := core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Second}}}
	s := spec("poll", delay)
	f.Create(s)
	f.Clock = f.Clock.Add(time.Second)
	first := f.Fires()
	if len(first) != 1 {
		t.Fatalf("fires: %+v", first)
	}
	tail := f.Job("shop/poll").Sched.Tail
	if tail != first[0].Run {
		t.Fatalf("tail %d, fire %+v", tail, first[0])
	}
	s.Def.Params = "x"
	f.Save(s)
	j := f.Job("shop/poll")
	if again := f.Fires(); len(again) != 1 || again[0].Run != tail || again[0].Rev != j.Sched.Rev || j.Sched.Tail != tail {
		t.Errorf("after an edit: %+v, %+v", again, j.Sched)
	}
	check.Call(t)(f.M.Pause(ctx, ann, manage.Target{Job: "shop/poll"}, manage.PauseRequest{}))
	f.Clock = f.Clock.Add(time.Minute)
	check.Call(t)(f.M.Resume(ctx, ann, manage.Target{Job: "shop/poll"}, ""))
	j = f.Job("shop/poll")
	if again := f.Fires(); len(again) != 1 || again[0].Run != tail || again[0].Rev != j.Sched.Rev || j.Sched.Tail != tail {
		t.Errorf("after a resume: %+v, %+v", again, j.Sched)
	}
	check.Equal(t, len(f.Skips(j.Def.ID)), 0, "records")
	// A fire in transit is not sent again.
	run := core.Run{ID: tail, App: "shop", State: core.Running, Cause: core.CauseSchedule, Owner: "me", At: first[0].At, Slot: first[0].Slot,
		First: tail, Attempt: 1, FixedDelay: true, SentAt: f.Clock}
	check.OK(t, f.E.CreateRuns(ctx, []core.Run{run})[0])
	s.Def.Params = "y"
	f.Save(s)
	if again := f.Fires(); len(again) != 0 || f.Job("shop/poll").Sched.Tail != tail {
		t.Errorf("a running tail was sent again: %+v", again)
	}
}

func TestDeleteAndPrune(t *testing.T) {
	f := newFixture(t)
	check.Call(t)(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "old", Set: "ours"}))
	for _, name := range []string{"a", "b", "c"} {
		s := spec(name, every(time.Hour))
		s.Def.Set = "ours"
		if name == "c" {
			s.Def.Set = "theirs"
		}
		f.Create(s)
	}
	at := start.Add(time.Hour)
	waiting, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/b", At: &at})
	if err != nil || !waiting.Waiting {
		t.Fatal(waiting, err)
	}
	row := core.Permits{Name: "row/" + waiting.Run.ID.Job().String(), V: 1, Limit: 100, Holders: []core.Holder{{First: 1, Until: start}}}
	check.OK(t, f.E.PutPermits(ctx, []core.Permits{row})[0])
	req := manage.PruneRequest{Set: "ours", Stay: map[string]core.Notify{"shop/a": {}}, DryRun: true}
	dry, err := f.M.Prune(ctx, ann, req)
	if err != nil || len(dry.Jobs) != 1 || dry.Jobs[0].Name != "b" || len(dry.Apps) != 1 || f.Job("shop/b").Def.Set != "ours" {
		t.Fatalf("%+v %v", dry, err)
	}
	req.DryRun = false
	if res, err := f.M.Prune(ctx, ann, req); err != nil || len(res.Jobs) != 1 || res.Jobs[0].Err != nil || res.Apps[0].Err != nil {
		t.Fatalf("%+v %v", res, err)
	}
	fails(t, core.CodeNotFound, "b")(f.M.Job(ctx, "shop/b"))
	if p, err := f.E.Permits(ctx, []string{row.Name}); err != nil || len(p[row.Name].Holders) > 0 {
		t.Errorf("its failures in a row: %+v, %v", p, err)
	}
	if v, err := f.M.Run(ctx, waiting.Run.ID.String()); err != nil || v.Run.State != core.Skipped || v.Run.Reason != core.ReasonDeleted {
		t.Errorf("its trigger: %+v %v", v, err)
	}
	fails(t, core.CodeNotFound, "app")(f.M.App(ctx, "old"))
	f.Job("shop/c")
	fails(t, core.CodeRefused, "app with jobs")(f.M.DeleteApp(ctx, ann, "shop"))
	fails(t, core.CodeInvalid, "no set")(f.M.Prune(ctx, ann, manage.PruneRequest{}))
	if r, err := f.M.Delete(ctx, ann, "shop/a", nil); err != nil || r.Change != manage.Deleted {
		t.Errorf("%+v %v", r, err)
	}
	fails(t, core.CodeNotFound, "again")(f.M.Delete(ctx, ann, "shop/a", nil))
}

// reads counts the jobs in lists.
type reads struct {
	store.Jobs
	jobs int
}

func (r *reads) List(ctx context.Context, app string, after core.JobID, limit int) ([]store.Got[*core.Job], core.JobID, error) {
	list, next, err := r.Jobs.List(ctx, app, after, limit)
	r.jobs += len(list)
	return list, next, err
}

// TestRefusedDeletionReadsOneJob: rejecting the deletion of an app with jobs takes one read job.
func TestRefusedDeletionReadsOneJob(t *testing.T) {
	f := newFixture(t)
	for i := range 20 {
		f.Create(spec(fmt.Sprint("sweep", i), every(time.Hour)))
	}
	s := *f.E
	r := &reads{Jobs: s.Jobs}
	s.Jobs = r
	if err := f.Fresh(&faults{Store: &s}).DeleteApp(ctx, ann, "shop"); code(err) != core.CodeRefused || r.jobs != 1 {
		t.Errorf("%d jobs were read, %v", r.jobs, err)
	}
}

func TestSaveMany(t *testing.T) {
	f := newFixture(t)
	specs := make([]manage.JobSpec, 10_000)
	for i := range specs {
		specs[i] = spec(fmt.Sprintf("job-%d", i), core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 30 2 * * ?"}},
			Timezone: "Europe/Berlin"})
	}
	began := time.Now()
	for _, want := range []string{manage.Created, manage.Unchanged} {
		for _, r := range f.Save(specs...) {
			if r.Change != want || r.ID == 0 {
				t.Fatalf("%+v", r)
			}
		}
	}
	t.Logf("10,000 jobs made and found unchanged in %s", time.Since(began))
}

// TestUnreadableJobIsRefusedAlone: of jobs that are saved together, only the unreadable one is
// rejected, with the reason.
func TestUnreadableJobIsRefusedAlone(t *testing.T) {
	f := newFixture(t)
	bad, good := f.Create(spec("bad", every(10*time.Second))), f.Create(spec("good", every(10*time.Second)))
	m := f.Fresh(&faults{Bad: []core.JobID{bad.Def.ID}})
	var specs []manage.JobSpec
	for _, name := range []string{"bad", "good", "new"} {
		specs = append(specs, spec(name, every(20*time.Second)))
	}
	for _, write := range []bool{false, true} {
		res := m.Check(ctx, specs, nil)
		if write {
			res = m.Save(ctx, ann, specs)
		}
		if code(res[0].Err) != core.CodeRefused || !strings.Contains(res[0].Err.Error(), "no JSON") {
			t.Errorf("the bad one: %+v", res[0])
		}
		if res[1].Change != manage.Updated || res[1].Err != nil || res[1].ID != good.Def.ID || res[2].Change != manage.Created ||
			res[2].Err != nil {
			t.Errorf("the others: %+v", res[1:])
		}
	}
}
