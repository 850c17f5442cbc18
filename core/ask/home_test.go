package ask_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
)

// TestHome: what needs somebody is there, what does not is not, and each by what a caller sees.
func TestHome(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"well", "fails", "late", "long"} {
		f.Create(spec(name, every(time.Hour)))
	}
	f.Create(spec("soon", every(10*time.Minute)))
	id := func(name string) core.JobID { j := f.Job("shop/" + name); return j.Def.ID }
	f.Clock = f.Clock.Add(5 * time.Minute)
	f.ran(id("well"), 9*time.Minute, 0, core.Succeeded)
	f.ran(id("well"), time.Minute, 0, core.Running) // no longer than it may
	fails := f.ran(id("fails"), 4*time.Minute, 0, core.Failed)
	f.ran(id("late"), 4*time.Minute, 0, core.Planned)
	f.ran(id("long"), 30*time.Minute, 0, core.Succeeded)
	long := f.ran(id("long"), 4*time.Minute, 0, core.Running)
	h, err := f.M.Home(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
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

// TestHomeNamesARunBehindSkips: a run that hangs is named however many were skipped for it since, by
// a process that saw them come as by one that is new.
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
		at := core.InstantOf(f.Clock)
		id := core.PlannedRun(job.Def.ID, at)
		if err := f.E.Dispatch.Create(ctx, []core.Run{{ID: id, App: "shop", State: core.Skipped, Reason: core.ReasonOverlap,
			Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1, First: id, EndedAt: at.Time()}})[0]; err != nil {
			t.Fatal(err)
		}
		f.Clock = f.Clock.Add(time.Minute)
	}
	h, err := f.Fresh(f.Faults).Home(ctx, nil)
	if err != nil || len(h.Long) != 1 || h.Long[0].Run != hangs.ID {
		t.Errorf("by a new process: %+v, %v", h.Long, err)
	}
}
