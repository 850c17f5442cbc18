package dispatch_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
)

// TestEarly: how early lonely messages come is told and stored once a minute, by
// one of the processes, and the cut follows where they come too late.
func TestEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		g := newGated(t, dispatch.Options{})
		g.d = dispatch.New(g.s, g.s, g.sender, nil, dispatch.Options{EarlyEvery: time.Minute, Plan: plan.AWS(), Log: slog.New(slog.NewJSONHandler(&told, nil))})
		other := dispatch.New(g.s, g.s, g.sender, nil, dispatch.Options{EarlyEvery: time.Minute, Plan: plan.AWS(), Log: slog.New(slog.DiscardHandler)})
		begin := time.Now().Truncate(time.Second).Add(time.Second)
		message := func(at time.Time, cause core.Cause, try int) ring.Message {
			slot := core.InstantOf(at)
			return ring.Message{Kind: ring.KindFires, Slot: slot, Try: try, Fires: []core.Fire{{Run: core.PlannedRun(99, slot), Rev: 1, At: slot, Slot: slot, Cause: cause}}}
		}
		// One message a second for three minutes, each 30 ms before its slot; what is
		// put back, made by hand, very late or put on the slow lane says nothing of the cut.
		for n := range 180 {
			slot := begin.Add(time.Duration(n) * time.Second)
			time.Sleep(time.Until(slot.Add(-30 * time.Millisecond))) // of the bubble
			if n == 100 {
				if was, err := g.s.Global(t.Context()); err != nil || was.Early.Messages != 60 || was.Early.Shift != 50*time.Millisecond {
					t.Errorf("after a minute %+v is stored, %v", was.Early, err)
				}
			}
			late := slot.Add(-20 * time.Second)
			for _, d := range []*dispatch.Dispatcher{g.d, other} {
				d.Handle(t.Context(), []ring.Message{message(slot, core.CauseSchedule, 0)})
			}
			slow := message(slot, core.CauseSchedule, 0)
			slow.Slow = true
			g.d.Handle(t.Context(), []ring.Message{message(late, core.CauseSchedule, 0), message(slot, core.CauseSchedule, 3), message(slot, core.CauseManual, 0), slow})
		}
		is, err := g.s.Global(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := is.Early
		if e.Messages != 60 || e.Low != 30*time.Millisecond || e.Median != 30*time.Millisecond {
			t.Errorf("measured %+v", e)
		}
		if e.Shift != 50*time.Millisecond || time.Since(e.Shifted) < time.Minute {
			t.Errorf("the cut follows once in a quarter of an hour: %s at %s", e.Shift, e.Shifted)
		}
		lines := 0
		for line := range bytes.Lines(told.Bytes()) {
			var l struct {
				Msg    string
				Lonely int
				Low    int `json:"lonelyLowMs"`
			}
			if err := json.Unmarshal(line, &l); err != nil {
				t.Fatal(err)
			}
			if l.Msg == "how early messages came" {
				if lines++; l.Lonely != 60 || l.Low != 30 {
					t.Errorf("told %s", line)
				}
			}
		}
		if lines != 2 {
			t.Errorf("it was told %d times in three minutes, want 2", lines)
		}
	})
}

// TestLongestCutIsHeld: what comes as early as the longest cut and the second that
// a queue of whole seconds rounds away is held, and not put back.
func TestLongestCutIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1010 * time.Millisecond))) // of the bubble
		msgs := g.messages(1, 3, "one")
		slot := core.InstantOf(time.Now().Add(plan.AWS().Cut.Max + time.Second))
		for i := range msgs {
			msgs[i].Slot = slot
			for k := range msgs[i].Fires {
				f := &msgs[i].Fires[k]
				f.Run, f.At, f.Slot = core.PlannedRun(f.Run.Job(), slot), slot, slot
			}
		}
		g.handle(msgs)
		if d := time.Since(slot.Time()); d < 0 || g.sender.total[firstAddress] != 3 {
			t.Errorf("%s after the slot %d of 3 were sent", d, g.sender.total[firstAddress])
		}
	})
}
