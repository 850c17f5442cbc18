package core_test

import (
	"testing"

	"github.com/tickring/tickring/core"
)

// TestSecondsOfAPermit: each attempt has one second, in order and no more than may; a clock
// that was an hour ahead costs nobody an hour, and one that is behind gives no second twice.
func TestSecondsOfAPermit(t *testing.T) {
	p := core.Permits{}
	ask := func(first core.RunID, attempt int, now core.Instant) (core.PermitAnswer, core.Instant) {
		answer, _ := p.Ask(core.Asked{First: first, Limit: 10, PerSecond: 2, Attempt: attempt, Now: now, Stored: true})
		return answer, p.From(first)
	}
	want := func(first core.RunID, attempt int, now core.Instant, answer core.PermitAnswer, from core.Instant) {
		t.Helper()
		if a, f := ask(first, attempt, now); a != answer || f != from {
			t.Errorf("run %d, attempt %d at %d: %d from %d, want %d from %d", first, attempt, now, a, f, answer, from)
		}
	}
	const now, hour = 10_000, 3600
	want(1, 1, now, core.PermitGranted, now)
	want(2, 1, now, core.PermitGranted, now)
	want(3, 1, now, core.PermitLater, now+1)
	want(3, 1, now, core.PermitLater, now+1)
	want(1, 2, now, core.PermitLater, now+1)   // a retry
	want(4, 1, now-1, core.PermitLater, now+2) // by a clock that is behind
	want(3, 1, now+1, core.PermitGranted, now+1)
	want(5, 1, now+1, core.PermitLater, now+2)
	want(6, 1, now+hour, core.PermitGranted, now+hour)
	want(7, 1, now+3, core.PermitGranted, now+3)
	want(6, 1, now+3, core.PermitGranted, now+hour) // what that clock said counts no more
	want(8, 1, now+3, core.PermitGranted, now+3)
	want(9, 1, now+3, core.PermitLater, now+4)
}
