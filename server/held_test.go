package server

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestHeld: while reports are a day behind and catch up, nothing is swept, and this starts again after each sleep of the machine. A
// clock set back, a full disk, and reports that never catch up hold the sweep for a bounded time only.
func TestHeld(t *testing.T) {
	const every = time.Minute
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	at := func(ago time.Duration) core.Instant { return core.InstantOf(now.Add(-ago)) }
	var h held
	sweeps := func(n int, counted func(i int) core.Instant) (held int) {
		for i := range n {
			if now = now.Add(every); h.holds(counted(i), now, every) {
				held++
			}
		}
		return held
	}
	fresh := func(int) core.Instant { return at(8 * time.Hour) }
	check.Equal(t, sweeps(100, fresh), 0, "sweeps are held though nothing is behind")
	for range 2 { // it sleeps for three days, twice
		now = now.Add(72 * time.Hour)
		from := at(80 * time.Hour)
		if n := sweeps(100, func(i int) core.Instant { return from + core.Instant(i*3600) }); n < 50 || n > 60 {
			t.Errorf("%d sweeps are held while 57 hours are summed, one each minute", n)
		}
		sweeps(1, fresh)
	}
	stuck := at(48 * time.Hour)
	if n := sweeps(1000, func(int) core.Instant { return stuck }); n < 59 || n > 61 {
		t.Errorf("%d sweeps are held in a row where reports come no further", n)
	}
	h = held{}
	if n := sweeps(3000, func(int) core.Instant { return at(50 * time.Hour) }); n < 1439 || n > 1441 {
		t.Errorf("%d sweeps are held where reports are as slow as time", n)
	}
	sweeps(1, fresh)
	if n := sweeps(10, func(int) core.Instant { return at(-1000 * time.Hour) }); n != 0 {
		t.Errorf("%d sweeps are held by sums of a clock a day ahead", n)
	}
}
