package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// TestSentRev: a run records the job revision that it was sent with. It may have been created under an older one, or
// its job edited before its claim.
func TestSentRev(t *testing.T) {
	edit := func(s *data, rev int64) {
		s.edit(1, func(j *core.Job) { j.Sched.Rev, j.Def.Handler = rev, fmt.Sprint("of ", rev) })
	}
	trigger := func(s *data, app string) (core.RunID, []ring.Message) {
		now, id := core.InstantOf(time.Now()), core.NumberedRun(1, 100)
		s.trigger(core.Run{ID: id, App: app, State: core.Planned, Cause: core.CauseManual, Rev: s.jobOf(1).Sched.Rev,
			At: now, Slot: now, Attempt: 1, First: id})
		return id, []ring.Message{{Kind: ring.KindFires, Slot: now,
			Fires: []core.Fire{{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseManual, Seq: 1}}}}
	}
	for _, c := range []struct {
		name            string
		before, between bool // whether it is edited before its job is read, and between the read and the claim
		stored, sent    int64
	}{
		{"not edited", false, false, 0, 1},
		{"before the read", true, false, 5, 5},
		{"between the read and the claim", false, true, 0, 1},
		{"before and after the read", true, true, 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, handler := newData(t, plan.Local(), memory.Options{}), ""
				d := s.dispatcher(sends(func(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
					handler = s.Job.Def.Handler
					return dispatch.Answer{Kind: dispatch.AnswerAccepted}
				}), dispatch.Options{})
				j := core.Job{Def: core.Def{ID: 1, App: "one", Name: "j", Handler: "of 1"}}
				s.app("one", firstAddress)
				s.job(j)
				id, m := trigger(s, "one")
				if c.before {
					edit(s, 5)
				}
				if c.between {
					s.before(func() { edit(s, 9) })
				}
				if v := d.Handle(t.Context(), m)[0]; !v.Ack {
					t.Fatalf("not acked: %v", v.Err)
				}
				if r := s.run(id); r.SentRev != c.stored || r.RevSent() != c.sent || handler != fmt.Sprint("of ", c.sent) {
					t.Errorf("it has %d, sent under %d with handler %q, want %d and %d", r.SentRev, r.RevSent(), handler, c.stored, c.sent)
				}
			})
		})
	}
	t.Run("a shard", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newSpreading(t, 2, nil)
			id, m := trigger(b.s, "a")
			if !b.handle(m[0]) {
				t.Fatal("not acked")
			}
			edit(b.s, 5)
			b.comes()
			if whole, shard := b.s.run(id), b.s.run(b.s.run(id).Shard.First); whole.RevSent() != 1 || shard.Rev != 1 || shard.RevSent() != 5 {
				t.Errorf("the broadcast under %d, its shard, made under %d, under %d", whole.RevSent(), shard.Rev, shard.RevSent())
			}
		})
	})
}
