package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// unreadable is a store in which some runs cannot be read.
type unreadable struct {
	dispatch.Store
	all bool
}

func (u *unreadable) Runs(ctx context.Context, runs []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	if u.all {
		return map[core.RunID]core.Run{}, runs, nil
	}
	return u.Store.Runs(ctx, runs)
}

// blind is a store that loses the answers to the first writes of runs and then fails some reads of them.
type blind struct {
	*memory.Store
	lost  bool
	fails int
}

func (b *blind) Create(ctx context.Context, runs []core.Run) []error {
	errs := b.Store.Create(ctx, runs)
	for i := range errs {
		if !b.lost {
			errs[i] = errors.New("connection reset")
		}
	}
	b.lost = true
	return errs
}

func (b *blind) Runs(ctx context.Context, runs []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	if b.lost && b.fails > 0 {
		b.fails--
		return nil, nil, core.ErrThrottled
	}
	return b.Store.Runs(ctx, runs)
}

// TestUndecidedFireComesAgain: a run whose claim got no answer is read several times and then sent. If it cannot be
// read, it is retried.
func TestUndecidedFireComesAgain(t *testing.T) {
	for fails, sent := range map[int]int{budget.ClaimLooks - 1: 1, budget.ClaimLooks: 0, 3 * budget.ClaimLooks: 0} {
		synctest.Test(t, func(t *testing.T) {
			wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
			g := newGated(t, dispatch.Options{})
			log := slog.New(slog.DiscardHandler)
			r := &damaged{Ring: g.s}
			g.d = dispatch.New(&blind{Store: g.s, fails: fails}, r, g.sender,
				finish.New(g.s, g.s, finish.Options{Plan: plan.Local(), Log: log}), dispatch.Options{Log: log})
			again := len(r.again)
			for _, v := range g.d.Handle(t.Context(), g.messages(1, 1, "one")) {
				if again = len(r.again); !v.Ack {
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
// damaged. Stored runs stay unchanged.
func TestDeadFiresAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC))) // a bubble starts in 2000, before valid run IDs
		g := newGated(t, dispatch.Options{})
		store := &unreadable{Store: g.s}
		dead := dispatch.NewDead(store, g.s, g.s, g.s, nil, nil, false, slog.New(slog.DiscardHandler))
		msgs := g.messages(1, 4, "one") // jobs 1 to 4
		m := msgs[0]
		slot := m.Slot
		g.handle([]ring.Message{{Kind: ring.KindFires, Slot: slot, Fires: m.Fires[:1]}}) // job 1 has its run
		ran, _, err := g.s.Runs(t.Context(), []core.RunID{m.Fires[0].Run})
		if err != nil || len(ran) != 1 {
			t.Fatal(ran, err)
		}
		// Job 2 was changed since, so its run is planned again. The message of job 3 has a future revision, which
		// changes nothing.
		old := &m.Fires[1]
		old.Rev = 0
		gone := core.Fire{Run: core.PlannedRun(77, slot), Rev: 5, At: slot, Slot: slot, Cause: core.CauseSchedule}
		byHand := core.Fire{Run: core.NumberedRun(4, 9), Rev: 1, At: slot, Slot: slot, Cause: core.CauseAPI}
		m.Fires = append(m.Fires, gone, byHand)
		body := strings.Replace(string(ring.Encode(m)), `"fires":[{`, `"fires":[{"run":5,"cause":"boredom"},{`, 1)
		letter := core.Letter{ID: "1", Body: body, Reason: "fire 0: a cause that is none"}

		store.all = true
		if n, err := dead.Record(t.Context(), &letter); n != 0 || !errors.Is(err, core.ErrThrottled) {
			t.Errorf("with runs that cannot be read %d are recorded, %v", n, err)
		}
		store.all = false
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
		after, _, err := g.s.Runs(t.Context(), []core.RunID{m.Fires[0].Run, m.Fires[1].Run, byHand.Run})
		if err != nil || len(after) != 2 || after[m.Fires[0].Run].State != ran[m.Fires[0].Run].State {
			t.Errorf("runs %+v, %v", after, err)
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
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC))) // a bubble starts in 2000, before valid run IDs
		g := newGated(t, dispatch.Options{})
		dead := dispatch.NewDead(g.s, g.s, g.s, g.s, nil, nil, false, slog.New(slog.DiscardHandler))
		msgs := g.messages(1, 2, "one")
		for _, m := range msgs {
			must(t, g.s.Bury(t.Context(), m, "received too often"))
		}
		must(t, g.s.Bury(t.Context(), ring.Message{Kind: ring.KindCheck, Slot: 9, Check: &ring.Check{}}, "a check"))
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
		must(t, g.s.Enqueue(t.Context(), plan.Pack(fires, ring.MaxFires, nil))...)
		got, err := g.s.Receive(t.Context(), ring.KindFires, 10)
		must(t, err)
		for i := range got {
			g.handle([]ring.Message{got[i].Message})
		}
		if g.sender.total[firstAddress] != 2 {
			t.Errorf("%d of 2 were sent", g.sender.total[firstAddress])
		}
		// A pass finds later messages, page by page.
		for n := range 250 {
			at := core.InstantOf(time.Now()) - core.Instant(n) - 100
			f := core.Fire{Run: core.PlannedRun(1, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}
			must(t, g.s.Bury(t.Context(), ring.Message{Kind: ring.KindFires, Slot: at, Fires: []core.Fire{f}}, "received too often"))
		}
		if n, err := dead.Pass(t.Context()); n != 250 || err != nil {
			t.Errorf("%d of 250 recorded, %v", n, err)
		}
	})
}

// TestDeadFiresOfOddJobsAreRecorded: jobs that cannot be decoded or are deleted do not prevent the records of their
// message or of older ones.
func TestDeadFiresOfOddJobsAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
		g := newGated(t, dispatch.Options{})
		m := g.messages(1, 3, "one")[0] // jobs 1 to 3
		m.Fires = append(m.Fires, core.Fire{Run: core.NumberedRun(77, 9), Rev: 1, At: m.Slot, Slot: m.Slot, Cause: core.CauseAPI})
		dead := dispatch.NewDead(&damaged{Store: g.s, job: 2}, g.s, g.s, g.s, nil, nil, false, slog.New(slog.DiscardHandler))
		letter := core.Letter{ID: "1", Body: string(ring.Encode(m)), Reason: "job 2 cannot be read: no JSON"}
		if n, err := dead.Record(t.Context(), &letter); n != len(m.Fires) || err != nil {
			t.Errorf("%d of %d fires are recorded, %v", n, len(m.Fires), err)
		}
	})
}

// lockedJobs is a store of jobs whose secrets cannot be decrypted.
type lockedJobs struct{ dispatch.Store }

func (l lockedJobs) Jobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	found, unread, err := l.Store.Jobs(ctx, ids)
	var bad core.Unreadable
	for id, j := range found {
		bad.Add(id, &core.Locked[*core.Job]{Record: j, Err: core.Errorf(core.CodeRefused, "a secret cannot be decrypted")})
	}
	return map[core.JobID]*core.Job{}, unread, errors.Join(err, bad.Err())
}

// TestDeadFiresOfLockedJobs: a job with a secret that cannot be decrypted is not gone. Its triggered run is recorded
// with its app, and a fire of an older revision is not recorded.
func TestDeadFiresOfLockedJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
		g := newGated(t, dispatch.Options{})
		m := g.messages(1, 1, "one")[0]
		m.Fires[0].Rev = 0
		triggered := core.NumberedRun(1, 9)
		m.Fires = append(m.Fires, core.Fire{Run: triggered, Rev: 1, At: m.Slot, Slot: m.Slot, Cause: core.CauseAPI})
		dead := dispatch.NewDead(lockedJobs{g.s}, g.s, g.s, g.s, nil, nil, false, slog.New(slog.DiscardHandler))
		n, err := dead.Record(t.Context(), &core.Letter{ID: "1", Body: string(ring.Encode(m)), Reason: "job 1 cannot be read"})
		runs, _, rerr := g.s.Runs(t.Context(), []core.RunID{triggered})
		if n != 1 || err != nil || rerr != nil || runs[triggered].App == "" {
			t.Errorf("%d recorded, %v; %+v, %v", n, err, runs, rerr)
		}
	})
}

// TestDeadPostRunLetterAsksTheLaneNothing: dead-letter notifications use the post-run queue. A dead message of that queue
// sends none, since each would cause the next.
func TestDeadPostRunLetterAsksTheLaneNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(t, dispatch.Options{})
		dead := dispatch.NewDead(g.s, g.s, g.s, g.s, nil, nil, false, slog.New(slog.DiscardHandler))
		asked := func(id string, m ring.Message) int {
			body := string(ring.Encode(m))
			if id == "poison" {
				body = "no message"
			}
			check.Call(t)(dead.Record(t.Context(), &core.Letter{ID: id, At: time.Now(), Reason: "received too often", Body: body}))
			due, waiting, _, err := g.s.Depth(t.Context(), ring.KindPostRun)
			must(t, err)
			return due + waiting
		}
		now := time.Now()
		note := ring.Noted([]ring.Note{{Event: core.EventDeadLetter, Why: "received too often", When: now}}, now)[0].Message
		of := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(now), PostRun: &ring.PostRun{Run: core.NumberedRun(1, 1),
			PostRun: core.PostRun{Log: true}}}
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

// TestDeadListsRuns: if lists use journals, one journal names the runs that a dead-letter message records, another one a run
// whose writer died.
func TestDeadListsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
		g := newGated(t, dispatch.Options{})
		s := &journalled{Store: g.s, down: true}
		dead := dispatch.NewDead(s, s, s, s, finish.New(s, s, finish.Options{Plan: plan.Local()}), nil, true, slog.New(slog.DiscardHandler))
		now := core.InstantOf(time.Now())
		f := core.Fire{Run: core.NumberedRun(4, 9), Rev: 1, At: now, Slot: now, Cause: core.CauseAPI}
		ended := core.Run{ID: core.NumberedRun(4, 8), App: "one", State: core.Succeeded, Cause: core.CauseAPI, At: now - 600, Slot: now - 600,
			SentAt: time.Now(), EndedAt: time.Now(), Journal: core.JournalKey{Minute: int64(now)/60 - 10, Nonce: "dead"}}
		must(t, g.s.Create(t.Context(), []core.Run{ended})[0])
		of := f
		of.Run = ended.ID
		letter := core.Letter{ID: "1", Reason: "received too often",
			Body: string(ring.Encode(ring.Message{Kind: ring.KindFires, Slot: now, Fires: []core.Fire{f, of}}))}
		if _, err := dead.Record(t.Context(), &letter); err == nil {
			t.Error("recorded without a journal")
		}
		time.Sleep(5 * time.Minute)
		s.down, s.all = false, nil
		check.Call(t)(dead.Record(t.Context(), &letter))
		runs, _, err := g.s.Runs(t.Context(), []core.RunID{f.Run, ended.ID})
		if err != nil || len(runs) != 2 {
			t.Fatal(runs, err)
		}
		for id, r := range runs {
			if !slices.ContainsFunc(s.all, func(j core.Journal) bool { _, is := j.Find(id); return is && j.Key.Minute == r.Journal.Minute }) {
				t.Errorf("run %d with journal %s: it wrote %+v", id, r.Journal, s.all)
			}
		}
	})
}
