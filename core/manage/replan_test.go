package manage_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/plan"
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

// TestReplanOfWhatIsPlannedAhead: a replan without an end takes the ring for
// empty. What was on it, due or to come, is on it again: instants up to those that
// are still to be planned, runs that wait for their turn, and those whose owner is
// over. What has ended, or has somebody who is at it, is left alone.
func TestReplanOfWhatIsPlannedAhead(t *testing.T) {
	at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
	f := newFixture(t)
	j := f.create(spec("sweep", every(10*time.Second)))
	f.quiet()
	f.clock = at(45).Time()
	open := func(id core.RunID, slot int, change func(r *core.Run)) core.RunID {
		r := core.Run{ID: id, App: "shop", State: core.Planned, Cause: core.CauseSchedule, At: at(slot), Slot: at(slot), Attempt: 1, First: id}
		if change != nil {
			change(&r)
		}
		if err := f.e.Finish.Create(ctx, []core.Run{r})[0]; err != nil {
			t.Fatal(err)
		}
		return id
	}
	owned := func(until int) func(r *core.Run) {
		return func(r *core.Run) {
			r.State, r.Owner, r.Until, r.SentAt, r.Address = core.Running, "nonce", at(until).Time(), at(30).Time(), "http://10.0.0.1:9999"
		}
	}
	planned := func(s int) core.RunID { return core.PlannedRun(j.Def.ID, at(s)) }
	f.ran(j.Def.ID, at(10), 0)
	want := []core.RunID{planned(20), planned(30), planned(60), planned(80), planned(90)}
	open(planned(20), 20, nil)       // given back
	open(planned(30), 30, owned(40)) // its owner is over
	open(planned(40), 40, owned(70)) // its owner is at it
	f.ran(j.Def.ID, at(50), 0)       // claimed before it was due
	f.e.Manage.PutSkips(ctx, []core.Skip{{Job: j.Def.ID, First: at(70), Last: at(70), Count: 1, Reason: core.ReasonMisfire}})
	retry := core.NumberedRun(j.Def.ID, 1)
	want = append(want, open(retry, 46, func(r *core.Run) { r.Cause = core.CauseRetry }))
	open(core.NumberedRun(j.Def.ID, 2), 30, func(r *core.Run) { r.State = core.Succeeded })
	pushNext(f, j.Def.ID, at(100))
	f.fires() // the ring is empty

	if r, err := f.m.Replan(ctx, ann, "", at(0), at(100)); err != nil || r.Sent != 0 {
		t.Errorf("with an end, up to what is planned: %+v %v", r, err)
	}
	r, err := f.m.Replan(ctx, ann, "", at(0), 0)
	if err != nil || r.Jobs != 1 || r.Missing != int64(len(want)) || r.Sent != r.Missing || r.Next != "" {
		t.Fatalf("%+v %v, want %d", r, err, len(want))
	}
	got := map[core.RunID]core.Cause{}
	for _, fire := range f.fires() {
		got[fire.Run] = fire.Cause
	}
	for _, id := range want {
		if got[id] == "" {
			t.Errorf("run %s is not on the ring: %v", id, got)
		}
	}
	if len(got) != len(want) || got[planned(60)] != core.CauseSchedule || got[retry] != core.CauseRetry {
		t.Errorf("on the ring are %v, want %v", got, want)
	}
}

// TestHealGoesOn: what a tick noted as lost is sent again, of all jobs, from where
// the walk before had come to; then nothing more is done.
func TestHealGoesOn(t *testing.T) {
	at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
	for name, c := range map[string]struct {
		loss core.Loss
		want int64
	}{
		"nothing was lost": {core.Loss{}, 0},
		"all":              {core.Loss{From: at(0)}, 9},
		"from the second":  {core.Loss{From: at(0), Next: "1"}, 6},
		"within the third": {core.Loss{From: at(0), Next: "3@" + strconv.FormatInt(int64(at(25)), 10)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.quiet()
			for _, name := range []string{"one", "two", "three"} {
				j := f.create(spec(name, every(10*time.Second)))
				pushNext(f, j.Def.ID, at(40))
			}
			f.clock = at(5).Time()
			g, err := f.e.Manage.Global(ctx)
			if err != nil {
				t.Fatal(err)
			}
			seen := g.Rev
			g.Loss, g.Rev = c.loss, seen+1
			if err := f.e.Manage.PutGlobal(ctx, seen, g); err != nil {
				t.Fatal(err)
			}
			now := func() time.Time { return f.clock }
			m := manage.New(f.e.Manage, f.e.Ring, nil, nil, manage.Options{Now: now, Plan: plan.Local(), PageFor: 1, Together: 1})
			for range 2 {
				sent, err := m.Heal(ctx)
				if err != nil || sent != c.want {
					t.Errorf("%d sent, want %d: %v", sent, c.want, err)
				}
				c.want = 0
			}
			if g, err := f.e.Manage.Global(ctx); err != nil || g.Loss.From != 0 || (g.Loss.At.IsZero() != (c.loss.From == 0)) {
				t.Errorf("noted is %+v: %v", g.Loss, err)
			}
			late, cancel := context.WithTimeout(ctx, 0)
			defer cancel()
			if sent, err := m.Heal(late); sent != 0 || err != nil {
				t.Errorf("without time %d are sent: %v", sent, err)
			}
		})
	}
}
