package enginetest

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// post-run: a close writes its follow-ups for the post-run queue, whether the run was read or
// not; only a writer that read them clears them.
func postRuns(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(4)
	owes := core.PostRun{Log: true}
	plain := put(t, e, id[0], nil)
	failed := put(t, e, id[1], func(r *core.Run) { r.KeepLog = core.KeepLogAlways })
	always := put(t, e, id[2], func(r *core.Run) { r.KeepLog = core.KeepLogAlways })
	never := put(t, e, id[3], func(r *core.Run) { r.KeepLog = core.KeepLogNever })

	end := core.End(failed.ID, core.Run{State: core.Failed, Reason: core.ReasonHandler, Code: 500, EndedAt: base, PostRun: owes,
		KeepLog: core.KeepLogAlways})
	end.Set |= core.RunPostRun
	end.Seen = &failed
	allNil(t, e.Finish.PutRuns(ctx, []core.RunPut{end}))
	failed.State, failed.Reason, failed.Code, failed.EndedAt, failed.PostRun = core.Failed, core.ReasonHandler, 500, base, owes
	sameRun(t, e, failed)

	for _, r := range []*core.Run{&plain, &always, &never} {
		unread := []core.RunPut{core.End(r.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base})}
		allNil(t, e.Finish.PutRuns(ctx, unread))
		if unread[0].Seen == nil || unread[0].Seen.KeepLog != r.KeepLog {
			t.Errorf("the close of run %d showed %+v", r.ID, unread[0].Seen)
		}
		r.State, r.Code, r.EndedAt = core.Succeeded, 200, base
		sameRun(t, e, *r)
	}
	for _, c := range []struct {
		r    *core.Run
		owes bool
	}{{&plain, false}, {&failed, true}, {&always, true}, {&never, false}} {
		r := mustRun(t, e, c.r.ID)
		if r.Owing() != c.owes || (r.OwesPostRun() == owes) != c.owes {
			t.Errorf("run %d owes %+v", r.ID, r.OwesPostRun())
		}
	}
	other := failed // as an earlier read returned it
	other.PostRun = core.PostRun{}
	refused(t, e.Finish.PutRuns(ctx, []core.RunPut{other.ClearPostRun(core.PostRun{})})[0])
	answers(t, e.Finish.PutRuns(ctx, []core.RunPut{failed.ClearPostRun(core.PostRun{}), always.ClearPostRun(core.PostRun{})}), "ok", "ok")
	refused(t, e.Finish.PutRuns(ctx, []core.RunPut{failed.ClearPostRun(core.PostRun{})})[0])
	failed.PostRun, always.KeepLog = core.PostRun{}, ""
	for _, r := range []core.Run{plain, failed, always, never} {
		sameRun(t, e, r)
		if r.Owing() {
			t.Errorf("run %d owes %+v", r.ID, r.OwesPostRun())
		}
	}
}

// keptLogs: the end of a log is kept unchanged, a reason in its place never removes it, and it
// goes with its run.
func keptLogs(t *testing.T, h Harness) {
	p := &passing{Engine: h.Open(t), h: h, now: time.Now()}
	e, ctx := p.Engine, t.Context()
	createJobs(t, e, job(1)) // kept 7 days
	ended := func(r *core.Run) { closed(r); r.EndedAt, r.Slot = p.now, core.InstantOf(p.now) }
	r, young := put(t, e, core.NumberedRun(1, 1), ended), put(t, e, core.NumberedRun(1, 2), ended)
	if _, is, err := e.Manage.KeptLog(ctx, r.ID); err != nil || is {
		t.Fatalf("a log that was not kept: %t, %v", is, err)
	}
	hard := make([]byte, core.KeptLogMax) // incompressible
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(hard)
	at := p.now.UTC().Truncate(time.Millisecond)
	why := core.KeptLog{Run: r.ID, At: at, Why: "10.0.0.1 gave no answer"}
	k := core.KeptLog{Run: r.ID, At: at, Text: hard, From: 990_001, Cut: 17, More: true}
	holds := func(want core.KeptLog) {
		t.Helper()
		got, is, err := e.Store.KeptLog(ctx, want.Run)
		ok(t, err)
		if !is || !bytes.Equal(got.Text, want.Text) {
			t.Fatalf("kept: %t, %d bytes of %d", is, len(got.Text), len(want.Text))
		}
		got.Text, want.Text = nil, nil
		same(t, "kept log", got, want)
	}
	ok(t, e.Store.PutLog(ctx, &r, why))
	holds(why)
	ok(t, e.Store.PutLog(ctx, &r, k))
	holds(k)
	refused(t, e.Store.PutLog(ctx, &r, why))
	holds(k)
	k.From++
	ok(t, e.Store.PutLog(ctx, &r, k))
	holds(k)
	why.Run = young.ID
	ok(t, e.Store.PutLog(ctx, &young, why))
	holds(why)
	holds(k)

	if h.Expires && h.Wait == nil {
		return // this store forgets by itself, and not in time
	}
	p.pass(t, 6*day)
	holds(k)
	p.pass(t, 20*day)
	for _, id := range []core.RunID{r.ID, young.ID} {
		if _, is := readRun(t, e, id); is {
			t.Errorf("run %d stays", id)
		}
		if _, is, err := e.Store.KeptLog(ctx, id); err != nil || is {
			t.Errorf("the log of run %d outlives it: %t, %v", id, is, err)
		}
	}
}

// postRunLane: messages of the post-run queue come only from it, unchanged, at their time.
func postRunLane(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	now := time.Now()
	m := ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(now) - 5000, Try: 2,
		PostRun: &ring.PostRun{Run: core.PlannedRun(1, at(60)), PostRun: core.PostRun{Log: true}}}
	allNil(t, e.Ring.Enqueue(ctx, []ring.Out{{NotBefore: now, Message: m}}))
	for _, kind := range []ring.Kind{ring.KindFires, ring.KindSlow, ring.KindCheck} {
		nothing(t, e, kind, 50*time.Millisecond)
	}
	oldest, err := e.Tick.OldestMessage(ctx)
	ok(t, err)
	if !oldest.First().IsZero() {
		t.Errorf("a message on the post-run queue makes the delay queue look late: %+v", oldest)
	}
	got, err := e.Queue.Receive(limited(t), ring.KindPostRun, 10)
	ok(t, err)
	if len(got) != 1 {
		t.Fatalf("received %+v", got)
	}
	same(t, "message", got[0].Message, m)
	allNil(t, e.Queue.Release(ctx, got, now))
	got, err = e.Queue.Receive(limited(t), ring.KindPostRun, 10)
	ok(t, err)
	if len(got) != 1 || got[0].Receives != 2 {
		t.Fatalf("released and received %+v", got)
	}
	allNil(t, e.Queue.Ack(ctx, got))
	nothing(t, e, ring.KindPostRun, h.visibility()+50*time.Millisecond)
}
