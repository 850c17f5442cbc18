package dispatch_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestUnreadableJobHoldsUpNoOther: one run of a message has a job that cannot be decoded. The others are sent at once.
// It is retried twenty times and then moves to the dead-letter queue with the reason. It never counts as deleted.
func TestUnreadableJobHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
		g := newGated(t, dispatch.Options{})
		s := g.s.damage(2, false)
		msgs := g.messages(1, 3, "one")
		fires := msgs[0].Fires
		g.handle(msgs)
		runs := g.s.stored(fires[0].Run, fires[1].Run, fires[2].Run)
		if len(runs) != 2 || len(s.msgs) != 1 || len(s.msgs[0].Fires) != 1 || s.msgs[0].Fires[0] != fires[1] {
			t.Fatalf("%d runs, again %+v", len(runs), s.msgs)
		}
		tries := 1
		for ; len(s.msgs) > 0 && tries < 100; tries++ {
			again := s.msgs
			s.msgs = nil
			g.handle(again)
		}
		if tries != 21 || len(s.buried) != 1 || !strings.HasPrefix(s.buried[0], "job 2 ") {
			t.Errorf("%d tries, buried %q", tries, s.buried)
		}
	})
}

// TestUnreadableAppHoldsUpNoOther: the behavior for an app that cannot be decoded.
func TestUnreadableAppHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
		g := newGated(t, dispatch.Options{})
		s := g.s.damage(0, false)
		memory.DamageApp(t, g.s.Records, "two")
		msgs := append(g.messages(1, 1, "one"), g.messages(2, 1, "two")...)
		sent, held := msgs[0].Fires[0], msgs[1].Fires[0]
		g.handle(msgs)
		runs := g.s.stored(sent.Run, held.Run)
		if len(runs) != 1 || runs[sent.Run].Address == "" || len(s.msgs) != 1 || s.msgs[0].Fires[0] != held {
			t.Fatalf("runs %+v, again %+v", runs, s.msgs)
		}
		tries := 1
		for ; len(s.msgs) > 0 && tries < 100; tries++ {
			again := s.msgs
			s.msgs = nil
			g.handle(again)
		}
		if tries != 21 || len(s.buried) != 1 || !strings.HasPrefix(s.buried[0], "app two ") {
			t.Errorf("%d tries, buried %q", tries, s.buried)
		}
	})
}
