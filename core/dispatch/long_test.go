package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestLongCallIsWatched: a call answered late, with 202 or not at all, is in a journal of the minute of its claim,
// which the watchdog has passed. It must still be watched.
func TestLongCallIsWatched(t *testing.T) {
	for _, took := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			g := newGated(t, dispatch.Options{})
			const address = "call:https://h"
			g.sender.takes[address] = took
			g.s.app("calls", address)
			g.s.job(core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h", Timeout: 3 * time.Hour}})
			w := finish.NewWatchdog(g.s.f, nil, finish.WatchOptions{})
			now := core.InstantOf(time.Now())
			id := core.PlannedRun(7, now)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				g.handle([]ring.Message{{Kind: ring.KindFires, Slot: now,
					Fires: []core.Fire{{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseSchedule}}}})
			}()
			for range 24 * 60 {
				check.Call(t)(w.Pass(t.Context()))
				wait(time.Minute)
			}
			<-ended
			if r := g.s.run(id); r.State != core.Lost || r.Reason != core.ReasonNoReport {
				t.Errorf("accepted after %s, and a day later it is %s: no check is scheduled", took, r.State)
			}
			if g.sender.total[address] != 1 {
				t.Errorf("%d sends", g.sender.total[address])
			}
		})
	}
}

// TestCallHoldsUpNobodysClaim: other runs in the batch of a long call get a claim of normal duration, so that a crash
// delays them no longer.
func TestCallHoldsUpNobodysClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		const address = "call:https://h"
		g.sender.takes[address], g.sender.takes[firstAddress] = 20*time.Minute, 2*time.Second
		msgs := g.messages(1, 1, "one")
		g.s.app("calls", address)
		g.s.job(core.Job{Def: core.Def{ID: 7, App: "calls", Name: "j", Handler: "/h", Timeout: 3 * time.Hour}})
		beside, long := msgs[0].Fires[0].Run, core.PlannedRun(7, msgs[0].Slot)
		msgs[0].Fires = append(msgs[0].Fires, core.Fire{Run: long, Rev: 1, At: msgs[0].Slot, Slot: msgs[0].Slot, Cause: core.CauseSchedule})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.handle(msgs)
		}()
		began := time.Now()
		wait(time.Second)
		found := g.s.stored(beside, long)
		if r := found[beside]; r.Owner == "" || r.Until.Sub(began) > 32*time.Second {
			t.Errorf("a run beside a call is claimed by %q for %s", r.Owner, r.Until.Sub(began))
		}
		if r := found[long]; r.Owner == "" || r.Until.Sub(began) < 3*time.Hour {
			t.Errorf("a call of 3 hours is claimed by %q for %s", r.Owner, r.Until.Sub(began))
		}
		<-ended
	})
}
