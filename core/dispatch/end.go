package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// endWhileOpen stores results every JournalEvery until open ends: a crash before that sends the runs again, though they
// ran. Slow follow-ups of earlier results do not delay it. It also requeues runs to be retried or moved to the slow
// queue: at the end of an hour-long call they would be late.
func (b *batch) endWhileOpen(ctx, open context.Context) {
	var ends sync.WaitGroup
	defer ends.Wait()
	for thinned := time.Now(); store.Sleep(open, b.d.o.JournalEvery); {
		if items := b.toEnd(); len(items) > 0 {
			ends.Go(func() { b.end(ctx, items) })
		}
		b.putBack(ctx)
		if time.Since(thinned) >= gateWait {
			thinned = time.Now()
			b.thin(ctx)
		}
	}
}

// closeEnded stores the results of failed runs and of runs that ended with the answer (step 8).
func (b *batch) closeEnded(ctx context.Context) {
	of, errs := b.end(ctx, b.toEnd())
	for try := 0; len(of) > 0 && try < 8 && b.inTime(b.d.o.Reserve) && store.Sleep(ctx, 50*time.Millisecond<<min(try, 5)); try++ {
		of, errs = b.end(ctx, b.toEnd())
	}
	for k, it := range of {
		p := it.phase.(ended)
		if p.Kind == AnswerEnded {
			b.late = append(b.late, b.result(it, p))
		}
		b.set(it, unclosed(errs[k], p, it.run.MaybeSent, it.run.Until))
	}
}

// closeLate stores results that could not be stored in time, for example because the disk was full or the table
// throttled. Only this process has them, so it retries until ctx ends.
func (b *batch) closeLate(ctx context.Context) {
	for try := 0; len(b.late) > 0 && store.Sleep(ctx, 100*time.Millisecond<<min(try, 5)); try++ {
		var left []finish.Result
		for i, err := range b.d.finish.End(ctx, b.late) {
			if closing(err) == nil {
				left = append(left, b.late[i])
			}
		}
		b.late = left
	}
	for i := range b.late {
		r := &b.late[i]
		b.d.o.Log.Error("result of a call not stored: the run will be lost", "run", r.Run, "job", r.Run.Job(), "state", r.State)
	}
}

// toEnd returns the ended items that are not being stored yet.
func (b *batch) toEnd() []*item {
	b.mu.Lock()
	defer b.mu.Unlock()
	var items []*item
	for _, it := range b.items {
		if _, is := it.phase.(ended); is && !it.ending {
			it.ending = true
			items = append(items, it)
		}
	}
	return items
}

// end stores the results of items once and returns the items to retry with their errors.
func (b *batch) end(ctx context.Context, items []*item) (of []*item, errs []error) {
	if len(items) == 0 {
		return nil, nil
	}
	results := make([]finish.Result, len(items))
	for i, it := range items {
		results[i] = b.result(it, it.phase.(ended))
	}
	for k, err := range b.d.finish.End(ctx, results) {
		if p := closing(err); p != nil {
			b.set(items[k], p)
		} else {
			of, errs = append(of, items[k]), append(errs, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range items {
		it.ending = false
	}
	return of, errs
}

// result returns the result of a run from its answer.
func (b *batch) result(it *item, e ended) finish.Result {
	return finish.Result{Run: it.fire.Run, State: e.State, Reason: e.Reason, Code: e.Code, Message: e.Message, At: b.now(), Owner: b.nonce,
		RetryAfter: e.RetryAfter}
}

// putBackRest requeues unfinished runs (step 9), and moves undeliverable ones to the dead-letter queue.
func (b *batch) putBackRest(ctx context.Context) {
	for _, it := range b.items {
		switch p := it.phase.(type) {
		case ours:
			it.phase = passing{claimed: true, why: errNotBegun}
		case undeliverable:
			it.phase = b.bury(ctx, it, p.why)
		}
	}
	b.putBack(ctx)
}

func (b *batch) bury(ctx context.Context, it *item, why string) phase {
	m := ring.Message{Kind: ring.KindFires, Slot: it.fire.Slot, Fires: []core.Fire{it.fire}}
	if err := b.d.store.Queue.Bury(ctx, m, why); err != nil {
		return notDone{why: err}
	}
	b.d.o.Log.Error("undeliverable fire", "run", it.fire.Run, "job", it.fire.Run.Job(), "scheduledAt", it.fire.At, "why", why)
	return done{}
}

// hintTries is how often a hint is requeued because something failed, for about 18 minutes. After that, the run's own
// message has come and is requeued in its place.
const hintTries = 20

// putBack releases the claims of passing items and enqueues their runs as new messages, grouped by equal message
// fields. An item whose message is not sent keeps its phase.
func (b *batch) putBack(ctx context.Context) {
	type group struct {
		slot, at    core.Instant
		try, unread int
		slow, now   bool
		hint        bool
		waits       time.Time // when the wait for an executor ends
		most        time.Duration
	}
	var gives []core.RunPut
	groups := map[group][]*item{}
	for _, it := range in[passing](b) {
		p := it.phase.(passing)
		if p.claimed {
			gives = append(gives, it.giveBack())
		}
		if it.hint && (p.at == 0 && !p.waits.IsZero() || it.try >= hintTries) {
			b.set(it, done{})
			continue
		}
		g := group{slot: it.fire.Slot, try: it.try + 1, slow: it.slow, waits: p.waits, most: p.most, at: p.at, hint: it.hint}
		if p.unread {
			g.unread = it.unread + 1
		}
		if p.slowly {
			g.try, g.slow, g.now = it.try, true, true
		}
		groups[g] = append(groups[g], it)
	}
	if len(gives) > 0 {
		b.d.store.ChangeRuns(ctx, gives) // continue after any answer
	}
	var out []ring.Out
	var of [][]*item
	for g, items := range groups {
		at := b.now()
		switch {
		case g.now:
		case g.at != 0:
			at = b.d.laterLook(g.at)
		case g.waits.IsZero():
			at = at.Add(b.d.backoff(g.try, b.d.o.BackoffMax))
		default:
			at = b.d.nextLook(g.try, g.slot, g.most, g.waits)
		}
		for chunk := range slices.Chunk(items, ring.MaxFires) {
			m := ring.Message{Kind: ring.KindFires, Slot: g.slot, Try: g.try, Unread: g.unread, Slow: g.slow, Hint: g.hint}
			for _, it := range chunk {
				m.Fires = append(m.Fires, it.fire)
			}
			out, of = append(out, ring.Out{NotBefore: at, Message: m}), append(of, chunk)
		}
	}
	if len(out) == 0 {
		return
	}
	for k, err := range b.d.store.Queue.Enqueue(ctx, out) {
		for _, it := range of[k] {
			if it.onward = err == nil; !it.onward {
				p := it.phase.(passing)
				p.why = err
				b.set(it, p)
				continue
			}
			b.set(it, done{})
		}
	}
}

// giveBack releases the claim of a run. The run keeps the last answer of each address that rejected it.
func (it *item) giveBack() core.RunPut {
	p := it.run.GiveBack()
	if it.answer != "" {
		p.To.Tries = append(slices.DeleteFunc(slices.Clone(it.run.Tries), func(t core.Try) bool { return t.Address == it.run.Address }),
			core.Try{Address: it.run.Address, Message: it.answer})
		p.Set |= core.RunTries
	}
	return p
}
