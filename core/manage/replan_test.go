package manage_test

import (
	"context"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/ring"
)

// TestReplan: what has neither a run nor a record is on the ring again with its
// ID, once it is no longer on its way; nothing else is.
func TestReplan(t *testing.T) {
	at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
	f := newFixture(t)
	j := f.create(spec("sweep", every(10*time.Second)))
	other := f.create(spec("other", every(30*time.Second)))
	f.quiet()
	f.ran(j.Def.ID, at(10), 0)
	f.ran(j.Def.ID, at(40), 0)
	f.ran(other.Def.ID, at(30), 0)
	f.e.Manage.PutSkips(ctx, []core.Skip{{Job: j.Def.ID, First: at(50), Last: at(60), Count: 2, Reason: core.ReasonMisfire}})
	pushNext(f, j.Def.ID, at(90))
	pushNext(f, other.Def.ID, at(90))
	f.clock = at(85).Time()
	want := func(ref string, missing int64, runs ...core.RunID) {
		t.Helper()
		r, err := f.m.Replan(ctx, ann, ref, at(0), at(100))
		if err != nil || r.Missing != missing || r.Sent != missing || r.Partial {
			t.Fatalf("%+v %v, want %d", r, err, missing)
		}
		got := map[core.RunID]core.Cause{}
		for len(got) < len(runs) {
			wait, cancel := context.WithTimeout(ctx, 5*time.Second)
			page, err := f.e.Queue.Receive(wait, ring.KindFires, 10)
			cancel()
			if err != nil {
				t.Fatalf("%v sent, want %v", got, runs)
			}
			for _, d := range page {
				for _, x := range d.Message.Fires {
					got[x.Run] = x.Cause
				}
			}
			f.e.Queue.Ack(ctx, page)
		}
		for _, id := range runs {
			if got[id] != core.CauseMisfire {
				t.Errorf("run %d: %q", id, got[id])
			}
		}
	}
	lost := []core.RunID{core.PlannedRun(j.Def.ID, at(20)), core.PlannedRun(j.Def.ID, at(30)), core.PlannedRun(j.Def.ID, at(70)), core.PlannedRun(j.Def.ID, at(80))}
	want("shop/sweep", 4, lost...)
	want("shop/sweep", 4, lost...) // nobody took them yet
	for _, id := range lost {
		instant, _ := id.Planned()
		f.ran(j.Def.ID, instant, 0)
	}
	want("", 1, core.PlannedRun(other.Def.ID, at(60)))
	f.ran(other.Def.ID, at(60), 0)
	want("", 0)

	for _, bad := range []struct {
		ref      string
		from, to core.Instant
		code     core.Code
	}{{"", at(10), at(10), core.CodeInvalid}, {"", 5, at(10), core.CodeInvalid}, {"shop/none", at(0), at(10), core.CodeNotFound}} {
		if _, err := f.m.Replan(ctx, ann, bad.ref, bad.from, bad.to); code(err) != bad.code {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := f.m.Replan(ctx, manage.Actor{}, "", at(0), at(10)); err == nil {
		t.Error("nobody asked, and it was done")
	}
}
