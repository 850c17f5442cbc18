package finish_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// A handler's word on its retry is followed within bounds. A kill or a timeout takes precedence.
func TestWordOnTheRetry(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct {
		name             string
		state            core.State
		after            time.Duration
		attempt, retries int
		kill             string // user who killed it, if any
		over             bool   // past its timeout
		want             core.Reason
		left             int // retries of the next attempt; -1: none follows
		wait             time.Duration
	}{
		{"snoozes", core.Failed, time.Minute, 1, 0, "", false, core.ReasonSnoozed, 0, time.Minute},
		{"keeps its retries", core.Failed, time.Minute, 4, 3, "", false, core.ReasonSnoozed, 3, time.Minute},
		{"for a day", core.Failed, 24 * time.Hour, 1, 0, "", false, core.ReasonSnoozed, 0, 24 * time.Hour},
		{"too long", core.Failed, 24*time.Hour + 1, 1, 0, "", false, core.ReasonHandler, -1, 0},
		{"too long, and retried", core.Failed, 48 * time.Hour, 1, 2, "", false, core.ReasonHandler, 1, 5 * time.Second},
		{"the last of its chain", core.Failed, time.Minute, 100, 0, "", false, core.ReasonSnoozed, 0, time.Minute},
		{"beyond that", core.Failed, time.Minute, 101, 0, "", false, core.ReasonHandler, -1, 0},
		{"with all retries left", core.Failed, time.Minute, 1, 100, "", false, core.ReasonHandler, 99, 5 * time.Second},
		{"cancels", core.Failed, core.NoRetry, 1, 3, "", false, core.ReasonCancelled, -1, 0},
		{"was killed", core.Failed, time.Minute, 1, 3, "ann", false, core.ReasonPerson, -1, 0},
		{"its time was over", core.Failed, core.NoRetry, 1, 3, "", true, core.ReasonTimeout, 2, 5 * time.Second},
		{"succeeded", core.Succeeded, time.Minute, 1, 3, "", false, "", -1, 0},
		{"timed out", core.TimedOut, core.NoRetry, 1, 3, "", false, core.ReasonTimeout, 2, 5 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.job(1, nil)
			r.run(id, func(x *core.Run) {
				x.Attempt, x.Retries, x.KillBy = c.attempt, c.retries, c.kill
				if c.kill != "" || c.over {
					x.KillAt = begin
				}
			})
			reason := map[core.State]core.Reason{core.Failed: core.ReasonHandler, core.TimedOut: core.ReasonTimeout}[c.state]
			for range 2 { // a second report creates nothing again
				r.Must(r.end(finish.Result{Run: id, State: c.state, Reason: reason, Message: "said", RetryAfter: c.after}))
			}
			got := r.Run(id)
			if got.Reason != c.want || !strings.HasSuffix(got.Message, "said") {
				t.Errorf("it is %s: %s %q", got.State, got.Reason, got.Message)
			}
			if got.Message != "said" {
				texts.Equal(t, c.name, got.Message)
			}
			list := r.Numbered(1)
			if c.left < 0 {
				if len(list) > 0 {
					t.Errorf("followed by %+v", list)
				}
				return
			}
			if len(list) != 1 || list[0].Retries != c.left || list[0].Attempt != c.attempt+1 || list[0].Slot != core.Ceil(begin.Add(c.wait)) {
				t.Fatalf("followed by %+v", list)
			}
			if n := len(r.messages(ring.KindFires)); n > 1 {
				t.Errorf("%d messages", n)
			}
		})
	}
}
