package query_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestHome checks that exactly the problems are listed, filtered by the apps that a caller sees.
func TestHome(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"well", "fails", "late", "long"} {
		f.Create(spec(name, every(time.Hour)))
	}
	f.Create(spec("soon", every(10*time.Minute)))
	id := func(name string) core.JobID { j := f.Job("shop/" + name); return j.Def.ID }
	f.Clock = f.Clock.Add(5 * time.Minute)
	f.ran(id("well"), 9*time.Minute, 0, core.Succeeded)
	f.ran(id("well"), time.Minute, 0, core.Running) // within the usual time
	fails := f.ran(id("fails"), 4*time.Minute, 0, core.Failed)
	f.ran(id("late"), 4*time.Minute, 0, core.Planned)
	f.ran(id("long"), 30*time.Minute, 0, core.Succeeded)
	long := f.ran(id("long"), 4*time.Minute, 0, core.Running)
	h, err := f.M.Home(ctx, nil)
	check.OK(t, err)
	if h.Fail != 1 || len(h.Failing) != 1 || h.Failing[0].Job.Def.Name != "fails" || h.Failing[0].Last.ID != fails.ID {
		t.Errorf("failing: %d %+v", h.Fail, h.Failing)
	}
	if h.Delayed != 1 || len(h.Late) != 1 || h.Late[0].Job.Def.Name != "late" {
		t.Errorf("late: %d %+v", h.Delayed, h.Late)
	}
	if h.Linger != 1 || len(h.Long) != 1 || h.Long[0].Run != long.ID || h.Long[0].Usual != time.Second {
		t.Errorf("long: %d %+v", h.Linger, h.Long)
	}
	if len(h.Deserted) != 1 || h.Deserted[0].App != "shop" || h.Deserted[0].Jobs != 5 {
		t.Errorf("deserted: %+v", h.Deserted)
	}
	if h.Soon != 1 || len(h.Coming) != 1 || h.Coming[0].Name != "soon" {
		t.Errorf("soon: %d %+v", h.Soon, h.Coming)
	}
	none, err := f.M.Home(ctx, func(string) bool { return false })
	if err != nil || none.Fail+none.Delayed+none.Linger+none.Soon+len(none.Deserted) != 0 {
		t.Errorf("of nobody's: %+v, %v", none, err)
	}
}

// TestHomeNamesARunBehindSkips checks that a hanging run is listed behind any number of skipped runs, by a new
// process as by one that saw them.
func TestHomeNamesARunBehindSkips(t *testing.T) {
	f := newFixture(t)
	job := f.Create(spec("hangs", every(time.Hour)))
	f.ran(job.Def.ID, 31*time.Minute, 0, core.Succeeded)
	hangs := f.ran(job.Def.ID, 30*time.Minute, 0, core.Running)
	old := f.M
	for i := range 40 {
		h, err := old.Home(ctx, nil)
		if err != nil || len(h.Long) != 1 || h.Long[0].Run != hangs.ID || h.Long[0].Usual != time.Second {
			t.Fatalf("behind %d: %+v, %v", i, h.Long, err)
		}
		f.ran(job.Def.ID, 0, 0, core.Skipped)
		f.Clock = f.Clock.Add(time.Minute)
	}
	h, err := f.Fresh(f.Faults).Home(ctx, nil)
	if err != nil || len(h.Long) != 1 || h.Long[0].Run != hangs.ID {
		t.Errorf("by a new process: %+v, %v", h.Long, err)
	}
}

// TestHomeListsWhatIsOnItsWay checks that runs are listed until they are due, even though they are planned, and that
// jobs are in order of their next run. A pause and a change apply at once.
func TestHomeListsWhatIsOnItsWay(t *testing.T) {
	f := newFixture(t)
	daily := func(at string) core.Schedule {
		return core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 " + at + " * * ?"}}}
	}
	payroll := f.Create(spec("payroll", daily("10 12"))).Def.ID
	f.Create(spec("later", daily("12 12")))
	f.Create(spec("night", daily("0 3")))
	due := core.InstantOf(start)/60*60 + 600
	f.PushNext(payroll, due+24*3600)
	soon := func(want ...string) {
		t.Helper()
		h, err := f.M.Home(ctx, nil)
		var names []string
		for _, c := range h.Coming {
			names = append(names, c.Name)
		}
		if err != nil || !slices.Equal(names, want) || h.Soon != len(want) {
			t.Errorf("%d: %v, not %v, %v", h.Soon, names, want, err)
		}
		listed, _ := f.stand(query.JobsAsk{By: query.ByNext, JobFilter: query.JobFilter{Limit: max(1, len(want))}})
		if len(want) > 0 && !slices.Equal(listed, want) {
			t.Errorf("by when they fire: %v, not %v", listed, want)
		}
	}
	soon("payroll", "later")
	h, _ := f.M.Home(ctx, nil)
	if len(h.Coming) == 0 || h.Coming[0].At != due || h.Coming[0].Run != planned(payroll, due) {
		t.Errorf("%+v", h.Coming)
	}
	f.Clock = due.Time()
	soon("later")
	f.Pause(manage.Target{App: "shop"}, f.Clock.Add(time.Minute))
	soon("later")
	f.Pause(manage.Target{App: "shop"}, f.Clock.Add(time.Hour))
	soon()
	f.Resume(manage.Target{App: "shop"})
	f.Resumed()
	f.Save(spec("later", daily("0 4")), spec("payroll", daily("14 12")))
	soon("payroll")
}

// TestHomeNamesWhatIsNotPlanned checks that a due time that is not planned is reported, not the result of the
// previous run.
func TestHomeNamesWhatIsNotPlanned(t *testing.T) {
	f := newFixture(t)
	job := f.Create(spec("export", every(time.Hour)))
	f.ran(job.Def.ID, 0, 120*time.Millisecond, core.Succeeded)
	f.Clock = job.Sched.Next.Time().Add(10 * time.Minute)
	h, err := f.M.Home(ctx, nil)
	if err != nil || h.Delayed != 1 || len(h.Late) != 1 || h.Late[0].Due != job.Sched.Next || h.Late[0].Last != nil {
		t.Errorf("%d %+v, %v", h.Delayed, h.Late, err)
	}
}

// TestHomeNamesTheRunThatFailed checks that a failing job is listed with the failed run, even while the next run is
// open or skipped.
func TestHomeNamesTheRunThatFailed(t *testing.T) {
	f := newFixture(t)
	job := f.Create(spec("export", every(time.Hour)))
	f.Clock = f.Clock.Add(10 * time.Minute)
	failed := f.ran(job.Def.ID, 9*time.Minute, 0, core.Failed)
	f.ran(job.Def.ID, 3*time.Minute, 0, core.Running)
	for range 3 {
		h, err := f.M.Home(ctx, nil)
		if err != nil || len(h.Failing) != 1 || h.Failing[0].Last == nil || h.Failing[0].Last.ID != failed.ID {
			t.Errorf("%+v, %v", h.Failing, err)
		}
		f.Clock = f.Clock.Add(time.Minute)
		f.ran(job.Def.ID, 0, 0, core.Skipped)
	}
}
