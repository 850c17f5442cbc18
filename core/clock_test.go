package core

import (
	"testing"
	"time"
)

// TestClockOf checks that a clock in whole seconds is measured to about a second, minus half the
// round trip. Less than two seconds count as none, and slow answers as unknown.
func TestClockOf(t *testing.T) {
	begun := time.Date(2026, 11, 20, 12, 0, 0, 900e6, time.UTC)
	for _, c := range []struct {
		ahead, took time.Duration // the clock's difference, and the time of the answer
		want        Clock
	}{
		{0, 0, Clock{Known: true}}, {0, time.Second, Clock{Known: true}}, {0, 1900 * time.Millisecond, Clock{Known: true}},
		{1400 * time.Millisecond, 20 * time.Millisecond, Clock{Known: true}},
		{1400 * time.Millisecond, 2 * time.Second, Clock{Known: true}}, {-1400 * time.Millisecond, 0, Clock{Known: true}},
		{12 * time.Second, time.Second, Clock{Known: true, Ahead: 12}},
		{-40 * time.Second, 1800 * time.Millisecond, Clock{Known: true, Ahead: -40}},
		{3 * time.Second, 10 * time.Millisecond, Clock{Known: true, Ahead: 3}}, {time.Minute, 2100 * time.Millisecond, Clock{}},
		{200 * 365 * 24 * time.Hour, 0, Clock{Known: true, Ahead: 1<<31 - 1}},
	} {
		said := begun.Add(c.took/2 + c.ahead).Truncate(time.Second)
		got := ClockOf(said, begun, c.took)
		if off := got.Ahead - c.want.Ahead; got.Known != c.want.Known || off < -1 || off > 1 || c.want.Ahead == 0 && got.Ahead != 0 {
			t.Errorf("%s ahead, taking %s: %+v", c.ahead, c.took, got)
		}
	}
	if got := ClockOf(time.Time{}, begun, 0); got.Known {
		t.Errorf("without a reported time: %+v", got)
	}
}
