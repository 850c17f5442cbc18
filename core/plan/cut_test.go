package plan

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
)

const ms = time.Millisecond

func TestCut(t *testing.T) {
	aws := AWS().Cut
	for n, want := range map[int]time.Duration{
		0: 0, 1: 50 * ms, 50: 50 * ms, 51: time.Second, 2500: time.Second, 2501: 2 * time.Second, 5000: 2 * time.Second, 25_000: 10 * time.Second,
		50_000: 10 * time.Second, 1_000_000: 10 * time.Second,
	} {
		if got := aws.Of(0, n); got != want {
			t.Errorf("%d fires: %s, want %s", n, got, want)
		}
		if got := Local().Cut.Of(0, n); got != 0 {
			t.Errorf("on one machine %d fires have a cut of %s", n, got)
		}
	}
}

// A lonely message that goes to a queue of whole seconds 30 to 130 ms after the
// beginning of a pass turns visible 50 to 150 ms before its slot.
func TestLonelyIsCutByPhase(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cut := AWS().Cut
		e := core.Early{At: begin, Shift: time.Duration(rapid.Int64Range(-200, 500).Draw(t, "shift")) * ms}
		phase := cut.Phase(e, begin.Add(time.Minute))
		slot := core.InstantOf(begin) + core.Instant(rapid.Int64Range(240, 880).Draw(t, "ahead"))
		lonely := time.Second - phase - cut.Way
		if lonely < 50*ms || lonely > 450*ms {
			t.Fatalf("the cut followed to %s", lonely)
		}
		way := cut.Way + time.Duration(rapid.Int64Range(0, int64((lonely-cut.LonelyMin)/ms)).Draw(t, "way"))*ms
		sent := begin.Add(phase + way)
		held := slot.Time().Add(-cut.Of(slot, 1)).Sub(sent).Truncate(time.Second)
		if early := slot.Time().Sub(sent.Add(held)); early < cut.LonelyMin || early > lonely {
			t.Fatalf("sent %s after the second it is visible %s before its slot; want %s to %s", phase+way, early, cut.LonelyMin, lonely)
		}
	})
	if p := AWS().Cut.Phase(core.Early{}, begin); p != 820*ms {
		t.Errorf("the first phase is %s", p)
	}
	if p := AWS().Cut.Phase(core.Early{At: begin, Shift: 300 * ms}, begin.Add(3*time.Hour)); p != 820*ms {
		t.Errorf("what was measured three hours ago counts still: %s", p)
	}
	if p := Local().Cut.Phase(core.Early{At: begin, Shift: 300 * ms}, begin); p != 0 {
		t.Errorf("one machine has the phase %s", p)
	}
}

// The cut follows a queue that is slow by what it is slow, though what is measured
// was cut a quarter of an hour before, and stays within its bounds.
func TestCutFollows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cut := AWS().Cut
		slow := time.Duration(rapid.Int64Range(-500, 800).Draw(t, "slow")) * ms
		messages := rapid.SampledFrom([]int{5, 500}).Draw(t, "messages")
		var e core.Early
		shifts := []time.Duration{}
		now := begin
		moves := 0
		for range 12 * 60 {
			now = now.Add(time.Minute)
			shifts = append(shifts, e.Shift)
			cutThen := cut.Lonely + shifts[max(0, len(shifts)-15)] // planned up to 880 s ago
			low := cutThen - 20*ms - slow
			next := cut.Follow(e, core.Early{At: now, Messages: messages, Low: low, Median: low + 20*ms})
			if d := (next.Shift - e.Shift).Abs(); d > cut.FollowStep || d > 0 && now.Sub(e.Shifted) < cut.FollowEvery {
				t.Fatalf("from %s to %s after %s", e.Shift, next.Shift, now.Sub(e.Shifted))
			}
			if next.Shift != e.Shift {
				moves++
			}
			if next.Shift < cut.LonelyMin-cut.Lonely || next.Shift > cut.FollowMax {
				t.Fatalf("shift %s", next.Shift)
			}
			e = next
		}
		if messages < enoughEarly {
			if moves > 0 {
				t.Fatalf("%d messages moved the cut", messages)
			}
			return
		}
		low := cut.Lonely + e.Shift - 20*ms - slow
		switch {
		case low < cut.LonelyMin && e.Shift < cut.FollowMax:
			t.Fatalf("%s slow: a tenth comes %s before its slot, and the shift is only %s", slow, low, e.Shift)
		case low >= cut.LonelyMin+2*cut.FollowStep && cut.Lonely+e.Shift > cut.LonelyMin:
			t.Fatalf("%s slow: all come %s before their slots, and the shift is still %s", slow, low, e.Shift)
		case moves > 8:
			t.Fatalf("%s slow: it moved %d times", slow, moves)
		}
	})
}
