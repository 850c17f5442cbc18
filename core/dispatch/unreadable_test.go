package dispatch_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

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
			r := b.s.Run(id)
			shards, whole = append(shards, r.ShardFires()...), append(whole, id)
		}
		b.s.unreadable(whole[0])
		b.d.Handle(t.Context(), []ring.Message{messageOf(shards...)})
		if len(shards) != 2 || !slices.Equal(b.runs, []core.RunID{shards[1].Run}) {
			t.Errorf("sent %v of %v", b.runs, shards)
		}
	})
}

// TestUnreadableRunIsNotClaimed: a scheduled run that is stored and cannot be read is enqueued again.
func TestUnreadableRunIsNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSpreading(t, 1, func(d *core.Def) { d.Route = core.RouteFirst })
		id, m := b.fire()
		other, n := b.fire()
		b.s.Create(core.Run{ID: id, App: "a", State: core.Planned, Cause: core.CauseSchedule, Rev: 1, Attempt: 1, First: id})
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
		g.s.Create(core.Run{ID: bad, App: "a", State: core.Planned, Cause: core.CauseSchedule, Rev: 1, Attempt: 1, First: bad})
		g.s.unreadable(bad)
		n, err := g.s.dead().Record(t.Context(), &core.Letter{ID: "1", Body: string(ring.Encode(m)), Reason: "received too often"})
		if n != len(m.Fires)-1 || err != nil {
			t.Errorf("%d of %d fires are recorded, %v", n, len(m.Fires), err)
		}
	})
}
