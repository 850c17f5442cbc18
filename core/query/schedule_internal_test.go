package query

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestNextBehindPausesIsKnown checks that the cached next time equals nextOf, and is computed once until pauses
// change.
func TestNextBehindPausesIsKnown(t *testing.T) {
	hourly := core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Hour, Aligned: true}}}
	const now = core.Instant(1_800_000_000)
	pause := func(from, to time.Duration) core.Pause {
		return core.Pause{From: now.Time().Add(from), To: now.Time().Add(to)}
	}
	held := pause(-time.Hour, 90*time.Minute)
	for name, c := range map[string]struct {
		pauses []core.Pause
		own    core.Instant
	}{
		"none":           {[]core.Pause{{}, {}}, 0},
		"of its app":     {[]core.Pause{{}, held}, 0},
		"of both":        {[]core.Pause{pause(-time.Hour, 30*time.Hour+time.Millisecond), held}, 0},
		"one by one":     {[]core.Pause{held, pause(time.Hour, 5*time.Hour)}, 0},
		"its own":        {[]core.Pause{{}, {}}, now + 100_000},
		"its own and so": {[]core.Pause{held, {}}, now + 1000},
	} {
		t.Run(name, func(t *testing.T) {
			s := core.Sched{ID: 7, Rev: 1, State: core.Started, Schedule: hourly}
			if c.own != 0 {
				s.State, s.PauseUntil = core.Paused, c.own
			}
			want := firstOf(nextOf(&s, now, core.Horizon, 1, c.pauses...))
			var n nexts
			if got := n.next(&s, now, c.pauses...); got != want || want == 0 {
				t.Fatalf("%s, want %s", got, want)
			}
			s.Schedule.Any = nil // another computation would find nothing
			check.Equal(t, n.next(&s, now+60, c.pauses...), want, "a minute later")
			s.Schedule, s.State = hourly, core.Started
			if got, want := n.next(&s, now), firstOf(nextOf(&s, now, core.Horizon, 1)); got != want {
				t.Errorf("without pauses %s, want %s", got, want)
			}
		})
	}
	var n nexts
	s := core.Sched{ID: 7, Rev: 1, State: core.Started, Schedule: hourly}
	if at := n.next(&s, now, core.Pause{}, core.Pause{From: now.Time()}); at != 0 {
		t.Errorf("held without an end, and next %s", at)
	}
	soon := core.Pause{From: now.Time().Add(10 * time.Minute), To: now.Time().Add(100 * time.Minute)}
	if got, want := n.next(&s, now, soon), firstOf(nextOf(&s, now, core.Horizon, 1, soon)); got != want {
		t.Errorf("behind a pause that is to come %s, want %s", got, want)
	}
}
