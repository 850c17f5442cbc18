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
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	stored "github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
)

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

// TestFaults: after a fault of any kind at any write, a change is stored once with one change record, or rejected and
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
		{"resume app", "", func(m *people.People) error { _, err := m.Resume(ctx, ann, manage.Target{App: "old"}, ""); return err },
			func(f *fixture) bool { a, _ := f.M.App(ctx, "old"); return !a.Pause.To.IsZero() }},
		{"app", "", func(m *people.People) error { _, err := m.SaveApp(ctx, ann, manage.AppSpec{Name: "new"}); return err },
			func(f *fixture) bool { _, err := f.M.App(ctx, "new"); return err == nil }},
		{"delete app", "", func(m *people.People) error { return m.DeleteApp(ctx, ann, "old") },
			func(f *fixture) bool { _, err := f.M.App(ctx, "old"); return err != nil }},
		{"channel", "", func(m *people.People) error {
			_, err := m.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: feishu()})
			return err
		}, func(f *fixture) bool { _, err := f.M.Channel(ctx, "finance"); return err == nil }},
		{"delete channel", "", func(m *people.People) error { return m.DeleteChannel(ctx, ann, "mail") },
			func(f *fixture) bool { _, err := f.M.Channel(ctx, "mail"); return err != nil }},
		{"notify", "", func(m *people.People) error {
			_, err := m.SaveNotify(ctx, ann, core.Notify{To: []string{"mail"}})
			return err
		},
			func(f *fixture) bool { g, _ := f.M.Global(ctx); return len(g.Notify.To) > 0 }},
	} {
		for _, mode := range modes {
			for at := 1; ; at++ {
				f := newFixture(t)
				j := f.Create(spec("sweep", every(time.Second)))
				check.Call(t)(f.M.SaveChannel(ctx, ann, manage.ChannelSpec{Channel: mailTo("mail.example.com")}))
				check.Call(t)(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "old"}))
				check.Call(t)(f.M.Pause(ctx, ann, manage.Target{App: "old"}, manage.PauseRequest{}))
				before, berr := f.Changes("", "", 100)
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
				if after, aerr := f.Changes("", "", 100); err == nil && !w.Kill && (len(after) != len(before)+1 || berr != nil || aerr != nil) {
					t.Errorf("%s: %d change records, then %d; %v, %v", what, len(before), len(after), berr, aerr)
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
				if err := o.do(f.M); err != nil && !(strings.HasPrefix(o.name, "delete") && code(err) == core.CodeNotFound) {
					t.Errorf("%s, again: %v", what, err)
				}
				if !o.made(f) {
					t.Errorf("%s, again: not made", what)
				}
			}
		}
	}
}

// TestRefusedDeletionReadsOneJob: rejecting the deletion of an app with jobs takes one read job.
func TestRefusedDeletionReadsOneJob(t *testing.T) {
	f := newFixture(t)
	for i := range 20 {
		f.Create(spec(fmt.Sprint("sweep", i), every(time.Hour)))
	}
	read := 0
	s := hook.Over(f.E, func(_ context.Context, c *hook.Call, next func() []error) []error {
		errs := next()
		read += len(c.GotList)
		return errs
	})
	if err := f.Fresh(&faults{Store: s}).DeleteApp(ctx, ann, "shop"); code(err) != core.CodeRefused || read != 1 {
		t.Errorf("%d jobs were read, %v", read, err)
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

// TestExecutorsRemovedAtOnce: executors of an app that are removed within one millisecond have an entry each in the audit log.
func TestExecutorsRemovedAtOnce(t *testing.T) {
	f := newFixture(t)
	addresses := []string{"http://10.0.0.1:9999", "http://10.0.0.2:9999"}
	for _, address := range addresses {
		check.OK(t, f.E.PutExecutor(ctx, core.Executor{App: "shop", Address: address, Beat: f.Clock.Add(-time.Hour)}))
	}
	for _, address := range addresses {
		check.OK(t, f.M.RemoveExecutor(ctx, ann, "shop", address))
	}
	list, err := f.Changes("shop", "", 10)
	check.OK(t, err)
	n := 0
	for _, c := range list {
		if c.Verb == core.VerbRemoved {
			n++
		}
	}
	check.Equal(t, n, 2)
}

// TestChangesWake: a change wakes the waiting runs of its jobs or apps, which may no longer have to wait. A creation wakes none.
func TestChangesWake(t *testing.T) {
	f := newFixture(t)
	s := &stored.Store{Store: f.E, T: t}
	id := f.Create(spec("sweep", every(time.Hour))).Def.ID
	hourly, on := spec("sweep", every(time.Hour)), spec("more", every(time.Hour))
	hourly.Def.Title, on.Def.Title = "Sweep", "More"
	pause := func(target manage.Target) error {
		_, err := f.M.Pause(ctx, ann, target, manage.PauseRequest{})
		return err
	}
	for _, c := range []struct {
		what string
		do   func() error
		want ring.Check
	}{
		{"create", func() error { return f.Save(spec("more", every(time.Hour)))[0].Err }, ring.Check{}},
		{"edit", func() error { return f.Save(hourly)[0].Err }, ring.Check{Jobs: []core.JobID{id}}},
		{"edit two", func() error { return f.Save(on, spec("sweep", every(time.Hour)))[0].Err }, ring.Check{Jobs: []core.JobID{id + 1, id}}},
		{"no change", func() error { return f.Save(on)[0].Err }, ring.Check{}},
		{"pause", func() error { return pause(manage.Target{Job: "shop/more"}) }, ring.Check{Jobs: []core.JobID{id + 1}}},
		{"delete", func() error { _, err := f.M.Delete(ctx, ann, "shop/more", nil); return err }, ring.Check{Jobs: []core.JobID{id + 1}}},
		{"edit the app", func() error { _, err := f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "shop", Title: "Shop"}); return err },
			ring.Check{App: "shop"}},
		{"pause the app", func() error { return pause(manage.Target{App: "shop"}) }, ring.Check{App: "shop"}},
		{"pause everything", func() error { return pause(manage.Target{All: true}) }, ring.Check{App: "shop"}},
	} {
		f.Clock = f.Clock.Add(time.Minute)
		check.OK(t, c.do())
		var got ring.Check
		if list := s.Due(ring.KindCheck); len(list) > 0 {
			got = *list[0].Message.Check
			s.Ack(list...)
		}
		check.Equal(t, fmt.Sprint(got), fmt.Sprint(c.want), c.what)
	}
}
