package dispatch_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// TestUndecidedFireComesAgain: a run whose claim got no answer is read several times and then sent. If it cannot be
// read, it is retried.
func TestUndecidedFireComesAgain(t *testing.T) {
	for fails, sent := range map[int]int{budget.ClaimLooks - 1: 1, budget.ClaimLooks: 0, 3 * budget.ClaimLooks: 0} {
		synctest.Test(t, func(t *testing.T) {
			g := newGated(t, dispatch.Options{})
			r, lost, left := g.s.damage(0, false), false, fails
			g.s.answer = func(p *store.RunPut, err error) error { // of the first write, and then some reads fail
				if p.Create == nil || lost {
					return err
				}
				lost = true
				return errors.New("connection reset")
			}
			g.s.runs = func([]core.RunID) error {
				if !lost || left == 0 {
					return nil
				}
				left--
				return core.ErrThrottled
			}
			again := 0
			for _, v := range g.d.Handle(t.Context(), g.messages(1, 1, "one")) {
				if again = len(r.msgs); !v.Ack {
					again++
				}
			}
			if n := g.sender.total[firstAddress]; n != sent || again != 1-sent {
				t.Errorf("after %d reads that failed it was sent %d times, and comes again %d times", fails, n, again)
			}
		})
	}
}

// TestDeadFiresAreRecorded: each readable run of a dead-letter message without a record gets one, even if the rest is
// damaged, and if its job cannot be decoded or is deleted. Stored runs stay unchanged.
func TestDeadFiresAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		dead := g.s.dead()
		msgs := g.messages(1, 4, "one") // jobs 1 to 4
		m := msgs[0]
		slot := m.Slot
		g.handle([]ring.Message{{Kind: ring.KindFires, Slot: slot, Fires: m.Fires[:1]}}) // job 1 has its run
		ran := g.s.Stored(m.Fires[0].Run)
		if len(ran) != 1 {
			t.Fatal(ran)
		}
		// Job 2 was changed since, so its run is planned again. The message of job 3 has a future revision, which
		// changes nothing.
		old := &m.Fires[1]
		old.Rev = 0
		gone := planned(77, slot)
		gone.Rev = 5
		byHand := core.Fire{Run: core.NumberedRun(4, 9), Rev: 1, At: slot, Slot: slot, Cause: core.CauseAPI}
		ofGone := core.Fire{Run: core.NumberedRun(77, 9), Rev: 1, At: slot, Slot: slot, Cause: core.CauseAPI}
		m.Fires = append(m.Fires, gone, byHand, ofGone)
		g.s.damage(3, true) // a job that cannot be decoded counts as deleted
		body := strings.Replace(string(ring.Encode(m)), `"fires":[{`, `"fires":[{"run":5,"cause":"boredom"},{`, 1)
		letter := core.Letter{ID: "1", Body: body, Reason: "fire 0: a cause that is none"}

		g.s.runsRead = func(got map[core.RunID]store.Got[*core.Run]) {
			for id := range got {
				got[id] = store.Got[*core.Run]{Err: core.ErrThrottled}
			}
		}
		if n, err := dead.Record(t.Context(), &letter); n != 0 || !errors.Is(err, core.ErrThrottled) {
			t.Errorf("with runs that cannot be read %d are recorded, %v", n, err)
		}
		g.s.runsRead = nil
		for range 2 {
			check.Call(t)(dead.Record(t.Context(), &letter))
		}
		var have []core.JobID
		for _, job := range []core.JobID{1, 2, 3, 4, 77} {
			skips, err := g.s.Skips(t.Context(), job, slot, slot)
			if err != nil || len(skips) > 1 {
				t.Errorf("job %d: %+v, %v", job, skips, err)
			}
			if len(skips) == 1 && skips[0].Reason == core.ReasonUndeliverable && skips[0].First == slot {
				have = append(have, job)
			}
		}
		if want := []core.JobID{3, 4, 77}; !slices.Equal(have, want) {
			t.Errorf("recorded for the jobs %v, want %v", have, want)
		}
		after := g.s.Stored(m.Fires[0].Run, m.Fires[1].Run, byHand.Run, ofGone.Run)
		if len(after) != 3 || after[m.Fires[0].Run].State != ran[m.Fires[0].Run].State {
			t.Errorf("runs %+v", after)
		}
		if r := after[byHand.Run]; r.State != core.Skipped || r.Reason != core.ReasonUndeliverable || r.Message != letter.Reason {
			t.Errorf("the run without a record is %+v", r)
		}

		// An unreadable message belongs to no job.
		for _, b := range []string{"", "{", `{"v":2,"kind":"fires"}`} {
			if n, err := dead.Record(t.Context(), &core.Letter{Body: b}); n != 0 || err != nil {
				t.Errorf("%q: %d, %v", b, n, err)
			}
		}
	})
}

// TestRedrive: the runs of a redriven message are sent, though they were recorded as skipped.
func TestRedrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		dead := g.s.dead()
		msgs := g.messages(1, 2, "one")
		for _, m := range msgs {
			must(t, g.s.Queue.Bury(t.Context(), m, "received too often"))
		}
		must(t, g.s.Queue.Bury(t.Context(), ring.Message{Kind: ring.KindCheck, Slot: 9, Check: &ring.Check{}}, "a check"))
		if n, err := dead.Pass(t.Context()); n != 2 || err != nil {
			t.Fatalf("%d recorded, %v", n, err)
		}
		if n, err := dead.Pass(t.Context()); n != 0 || err != nil {
			t.Fatalf("%d recorded once more, %v", n, err)
		}
		list, err := g.s.Letters(t.Context(), "", 10)
		if err != nil || len(list) != 2 {
			t.Fatal(list, err)
		}
		fires, unread := ring.Salvage([]byte(list[1].Body))
		if len(fires) != 2 || unread != 0 {
			t.Fatalf("%d fires, %d unread", len(fires), unread)
		}
		must(t, g.s.Queue.Enqueue(t.Context(), plan.Pack(fires, ring.MaxFires, nil))...)
		got := g.s.Receive(ring.KindFires, 10)
		for i := range got {
			g.handle([]ring.Message{got[i].Message})
		}
		if g.sender.total[firstAddress] != 2 {
			t.Errorf("%d of 2 were sent", g.sender.total[firstAddress])
		}
		// A pass finds later messages, page by page.
		for n := range 250 {
			at := core.InstantOf(time.Now()) - core.Instant(n) - 100
			must(t, g.s.Queue.Bury(t.Context(), messageOf(planned(1, at)), "received too often"))
		}
		if n, err := dead.Pass(t.Context()); n != 250 || err != nil {
			t.Errorf("%d of 250 recorded, %v", n, err)
		}
	})
}

// TestDeadFiresOfLockedJobs: a job with a secret that cannot be decrypted is not gone. Its triggered run is recorded
// with its app, and a fire of an older revision is not recorded.
func TestDeadFiresOfLockedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		m := g.messages(1, 1, "one")[0]
		m.Fires[0].Rev = 0
		triggered := core.NumberedRun(1, 9)
		m.Fires = append(m.Fires, core.Fire{Run: triggered, Rev: 1, At: m.Slot, Slot: m.Slot, Cause: core.CauseAPI})
		g.s.jobsRead = func(got map[core.JobID]store.Got[*core.Job]) {
			for id, g := range got {
				g.Err = &core.Locked{Err: core.Errorf(core.CodeRefused, "a secret cannot be decrypted")}
				got[id] = g
			}
		}
		dead := g.s.dead()
		n, err := dead.Record(t.Context(), &core.Letter{ID: "1", Body: string(ring.Encode(m)), Reason: "job 1 cannot be read"})
		if r := g.s.Run(triggered); n != 1 || err != nil || r.App == "" {
			t.Errorf("%d recorded, %v; %+v", n, err, r)
		}
	})
}

// TestDeadPostRunLetterAsksTheLaneNothing: dead-letter notifications use the post-run queue. A dead message of that queue
// sends none, since each would cause the next.
func TestDeadPostRunLetterAsksTheLaneNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		dead := g.s.dead()
		asked := func(id string, m ring.Message) int {
			body := string(ring.Encode(m))
			if id == "poison" {
				body = "no message"
			}
			check.Call(t)(dead.Record(t.Context(), &core.Letter{ID: id, At: time.Now(), Reason: "received too often", Body: body}))
			due, waiting := g.s.Depth(ring.KindPostRun)
			return due + waiting
		}
		now := time.Now()
		note := ring.Noted([]ring.Note{{Event: core.EventDeadLetter, Why: "received too often", When: now}}, now)[0].Message
		of := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(now), PostRun: &ring.PostRun{Run: core.NumberedRun(1, 1)}}
		for id, m := range map[string]ring.Message{"note": note, "log": of} {
			if n := asked(id, m); n != 0 {
				t.Errorf("a dead %s asks the lane for %d more", id, n)
			}
		}
		if n := asked("poison", of); n != 1 {
			t.Errorf("%d notifications for a dead-letter message without a queue", n)
		}
	})
}

// TestUnreadableHoldsUpNoOther: a run whose job or app cannot be decoded is retried, and is then moved to the dead-letter queue. The
// other runs of its message are sent.
func TestUnreadableHoldsUpNoOther(t *testing.T) {
	for what, app := range map[string]string{"job 2 ": "one", "app two ": "two"} {
		synctest.Test(t, func(t *testing.T) {
			g := newGated(t, dispatch.Options{})
			s := g.s.damage(2, false)
			if app == "two" {
				s = g.s.damage(0, false)
				memory.DamageApp(t, g.s.Records, app)
			}
			msgs := append(g.messages(1, 1, "one"), g.messages(2, 1, app)...)
			sent, held := msgs[0].Fires[0], msgs[1].Fires[0]
			g.handle(msgs)
			runs := g.s.Stored(sent.Run, held.Run)
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
