package dispatch_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestUnreadableHoldsUpNoOther: a run whose job or app cannot be decoded is retried, and is then moved to the dead-letter queue. The
// other runs of its message are sent.
func TestUnreadableHoldsUpNoOther(t *testing.T) {
	for what, app := range map[string]string{"job 2 ": "one", "app two ": "two"} {
		synctest.Test(t, func(t *testing.T) {
			wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
			g := newGated(t, dispatch.Options{})
			s := g.s.damage(2, false)
			if app == "two" {
				s = g.s.damage(0, false)
				memory.DamageApp(t, g.s.Records, app)
			}
			msgs := append(g.messages(1, 1, "one"), g.messages(2, 1, app)...)
			sent, held := msgs[0].Fires[0], msgs[1].Fires[0]
			g.handle(msgs)
			runs := g.s.stored(sent.Run, held.Run)
			if len(runs) != 1 || runs[sent.Run].Address == "" || len(s.msgs) != 1 || len(s.msgs[0].Fires) != 1 || s.msgs[0].Fires[0] != held {
				t.Fatalf("runs %+v, again %+v", runs, s.msgs)
			}
			tries := 1
			for ; len(s.msgs) > 0 && tries < 100; tries++ {
				again := s.msgs
				s.msgs = nil
				g.handle(again)
			}
			if tries != 21 || len(s.buried) != 1 || !strings.HasPrefix(s.buried[0], what) {
				t.Errorf("%d tries, buried %q", tries, s.buried)
			}
		})
	}
}
