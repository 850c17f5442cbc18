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
