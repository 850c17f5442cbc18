package dispatch_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
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

// unreadable makes one run unreadable for dispatchers.
func (s *data) unreadable(bad core.RunID) {
	s.runsRead = func(got map[core.RunID]store.Got[*core.Run]) {
		if _, is := got[bad]; is {
			got[bad] = store.Got[*core.Run]{Err: errors.New("no JSON")}
		}
	}
}

// TestUnreadableBroadcastHoldsUpNoOther: its shard waits, and the shard of another broadcast in the batch is sent.
func TestUnreadableBroadcastHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSpreading(t, 1, nil)
		var shards []core.Fire
		var whole []core.RunID
		for range 2 {
			id, m := b.fire()
			b.handle(m)
			r := b.s.run(id)
			shards, whole = append(shards, r.ShardFires()...), append(whole, id)
		}
		b.s.unreadable(whole[0])
		b.d.Handle(t.Context(), []ring.Message{messageOf(shards...)})
		if len(shards) != 2 || !slices.Equal(b.runs, []core.RunID{shards[1].Run}) {
			t.Errorf("sent %v of %v", b.runs, shards)
		}
	})
}

// TestUnreadableRunIsNotClaimed: a scheduled run that is stored and cannot be read is put back, and the error is logged.
func TestUnreadableRunIsNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSpreading(t, 1, func(d *core.Def) { d.Route = core.RouteFirst })
		id, m := b.fire()
		other, n := b.fire()
		b.s.create(core.Run{ID: id, App: "a", State: core.Planned, Cause: core.CauseSchedule, Rev: 1, Attempt: 1, First: id})
		b.s.unreadable(id)
		again := b.s.damage(0, false)
		b.d.Handle(t.Context(), []ring.Message{messageOf(append(m.Fires, n.Fires...)...)})
		if !slices.Equal(b.runs, []core.RunID{other}) || len(again.msgs) != 1 || again.msgs[0].Fires[0].Run != id {
			t.Errorf("sent %v, put back %+v", b.runs, again.msgs)
		}
	})
}

// TestUnreadableRunOfALetter: the other runs of the message are recorded, and so are later messages.
func TestUnreadableRunOfALetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(begin))
		g := newGated(t, dispatch.Options{})
		m := g.messages(1, 2, "one")[0]
		bad := m.Fires[0].Run
		g.s.create(core.Run{ID: bad, App: "a", State: core.Planned, Cause: core.CauseSchedule, Rev: 1, Attempt: 1, First: bad})
		g.s.unreadable(bad)
		n, err := g.s.dead().Record(t.Context(), &core.Letter{ID: "1", Body: string(ring.Encode(m)), Reason: "received too often"})
		if n != len(m.Fires)-1 || err != nil {
			t.Errorf("%d of %d fires are recorded, %v", n, len(m.Fires), err)
		}
	})
}
