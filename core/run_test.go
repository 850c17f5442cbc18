package core

import (
	"testing"
	"time"
)

// The claim sets SentAt before an executor is known to be available.
func TestSent(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		r              Run
		sent, lateness bool
	}{
		{Run{State: Planned}, false, false},
		{Run{State: Planned, SentAt: at}, false, false}, // released
		{Run{State: Planned, SentAt: at, MaybeSent: true}, true, true},
		{Run{State: Running, SentAt: at, Owner: "me"}, true, true},
		{Run{State: Running, SentAt: at, Owner: "me", Cause: CauseManual}, true, false},
		{Run{State: Succeeded, SentAt: at}, true, true},
		{Run{State: Succeeded, SentAt: at, Cause: CauseAPI}, true, false},
		{Run{State: Succeeded, SentAt: at, Cause: CauseRetry}, true, true},
		{Run{State: Failed, SentAt: at, Reason: ReasonHandler}, true, true},
		{Run{State: Failed, SentAt: at, Reason: ReasonNotAccepted}, true, true},
		{Run{State: Failed, SentAt: at, Reason: ReasonNoExecutor}, false, false},
		{Run{State: Skipped, SentAt: at, Reason: ReasonOverlap}, true, true},
		{Run{State: Skipped, SentAt: at, Reason: ReasonPaused}, false, false},
		{Run{State: Skipped, Reason: ReasonCancelled}, false, false},
	} {
		c.r.Slot = InstantOf(at)
		if c.r.Sent() != c.sent || c.r.HasLateness() != c.lateness {
			t.Errorf("%s %s %s: sent %t, lateness %t", c.r.State, c.r.Reason, c.r.Cause, c.r.Sent(), c.r.HasLateness())
		}
	}
}
