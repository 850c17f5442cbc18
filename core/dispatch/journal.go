package dispatch

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// keepJournal stores the journal every JournalEvery until open ends, if there are new answers: a crash sends runs again
// whose answers are not stored. Without new answers it stores the begun runs in time: the watchdog reads each minute of
// claims once and misses journals that come later.
func (b *batch) keepJournal(ctx, open context.Context) {
	every := b.d.o.JournalEvery
	for next := every; store.Sleep(open, next); {
		b.mu.Lock()
		due := b.dirty || b.blocked.Load() || b.since() >= b.d.o.Behind/10 && b.unnamed() // well before the watchdog reads the minute
		b.mu.Unlock()
		if next = every; due && !b.writeJournal(ctx) {
			next = every / 5 // no send starts until it is stored
		}
	}
}

// finalJournal stores the accepted, unconfirmed and left runs. If the store fails, a check carries the journal.
func (b *batch) finalJournal(ctx context.Context) {
	b.mu.Lock()
	needed := slices.ContainsFunc(b.over, func(e core.Entry) bool { return e.Outcome.Settled() }) ||
		slices.ContainsFunc(b.items, func(it *item) bool { return entry(it.phase).Settled() })
	stored := !needed || b.stored && !b.dirty && !b.unnamed()
	b.mu.Unlock()
	if stored {
		b.stored = true
		return
	}
	for try := 0; ctx.Err() == nil && b.inTime(b.d.o.Reserve/2); try++ {
		if b.writeJournal(ctx) {
			return
		}
		if !store.Sleep(ctx, min(50*time.Millisecond<<min(try, 5), time.Second)) {
			break
		}
	}
	// The check may be sent after the deadline: it is neither a claim nor a send. Without it, the messages are only
	// delivered again.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.d.o.Reserve/2)
	defer cancel()
	b.mu.Lock()
	j, _, unlisted := b.journal()
	b.mu.Unlock()
	b.stored = b.tell(last, j) == nil
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range unlisted {
		it.listed = b.stored
	}
}

// listTries is the total number of attempts to store journals that only list runs.
const listTries = 3

// list stores journals that name the runs claimed, recorded or found closed by this invocation, if no stored journal
// names them. If the store fails, the messages of these runs are delivered again, unless a new message carries a run.
func (b *batch) list(ctx context.Context) {
	b.readUnread(ctx)
	journals, items := b.lists()
	for try := 1; len(journals) > 0; {
		err := b.d.store.PutJournal(ctx, journals[0])
		switch {
		case journalled(err):
			journals = journals[1:]
		case try < listTries && b.inTime(b.d.o.Reserve/2) && store.Sleep(ctx, 50*time.Millisecond<<try):
			try++
		default:
			n := 0
			for _, it := range items {
				in := func(j core.Journal) bool { _, is := j.Find(it.fire.Run); return is }
				if slices.ContainsFunc(journals, in) {
					it.unlisted = !it.onward
					n++
				}
			}
			b.d.o.Log.Warn("runs not listed", "runs", n, "err", err)
			return
		}
	}
}

// readUnread reads the runs that this invocation finished without a read. Lists may lack them: another process may have
// claimed them and died.
func (b *batch) readUnread(ctx context.Context) {
	of := map[core.RunID]*item{}
	for _, it := range b.items {
		if b.unread(it) {
			of[it.fire.Run] = it
		}
	}
	if len(of) == 0 {
		return
	}
	runs, err := readAll(ctx, slices.Sorted(maps.Keys(of)), b.d.store.Runs.Get)
	n, why := 0, err
	for id, it := range of {
		switch r, is := runs[id]; {
		case err != nil, r.Err != nil:
			it.unlisted, why = true, cmp.Or(why, r.Err)
			n++
		case is:
			it.run = r.Is
		}
	}
	if n > 0 {
		b.d.o.Log.Warn("runs not listed", "runs", n, "err", why)
	}
}

// unread reports whether lists may lack a run that was not read, and no new message carries it: a shard whose broadcast was
// over, a run whose hint was dropped, or a run that was left.
func (b *batch) unread(it *item) bool {
	return b.d.store.ByJournal && it.run == &noRun && !it.onward &&
		((it.fire.Of != 0 || it.hint) && it.phase == (done{}) || it.phase == settled(core.Left))
}

// mayLack reports whether lists may lack a run that another invocation wrote. That invocation may have died before it
// stored its journal.
func (b *batch) mayLack(it *item) bool {
	r := it.run
	if !b.d.store.ByJournal || it.wrote != 0 && (!it.unsure || r.Journal == b.key) || r == &noRun {
		return false
	}
	switch it.phase {
	case done{}:
		// The first message of a run that finds it queued came twice, so the process that queued the run may have died.
		return !r.State.Open() || !r.Journal.IsZero() && (r.IsBroadcast() || r.State == core.Queued && it.try == 0)
	case settled(core.Left):
		return !r.Journal.IsZero()
	}
	return false
}

// lists returns the journals that name the unlisted runs, and their items.
func (b *batch) lists() (journals []core.Journal, items []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own, _, items := b.journal()
	l := listing{own}
	for _, it := range b.items {
		if b.mayLack(it) {
			l.add(it.run)
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	return slices.DeleteFunc(l, func(j core.Journal) bool { return len(j.Entries) == 0 }), items
}

// A listing has the journals in which lists find runs, one for each minute. They share V and, except the minute, the key.
type listing []core.Journal

// add names a run in the minute of its journal. If its record names none, that is the minute of its end.
func (l *listing) add(r *core.Run) {
	minute := cmp.Or(r.Journal.Minute, r.EndedAt.Unix()/60)
	i := slices.IndexFunc(*l, func(j core.Journal) bool { return j.Key.Minute == minute })
	if i < 0 {
		j := core.Journal{Key: (*l)[0].Key, V: (*l)[0].V}
		j.Key.Minute = minute
		i, *l = len(*l), append(*l, j)
	}
	(*l)[i].Entries = append((*l)[i].Entries, core.Entry{Run: r.ID, Outcome: core.Recorded})
}

// writeJournal stores the journal once; only one caller at a time. If the journal names a run too late for the
// watchdog, a check announces it first: readers rely on a stored journal, and the watchdog may have passed that minute.
func (b *batch) writeJournal(ctx context.Context) bool {
	b.mu.Lock()
	b.dirty = false
	j, unnamed, unlisted := b.journal()
	b.mu.Unlock()
	var err error
	announced := false
	if len(unnamed) > 0 && b.tooLate() {
		err = b.tell(ctx, j)
		announced = err == nil
	}
	if err == nil {
		err = b.d.store.PutJournal(ctx, j)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stored = journalled(err); b.stored {
		for _, it := range unlisted {
			it.listed = true
		}
	}
	if announced || b.stored && !b.tooLate() {
		for _, it := range unnamed {
			it.named = true
		}
	} else if len(unnamed) > 0 {
		b.stored = false // it took too long: retry with an announcement
	}
	b.blocked.Store(!b.stored)
	b.dirty = b.dirty || !b.stored
	return b.stored
}

// journal returns the next version: all runs that this invocation claimed or left, with their outcomes. unnamed are the
// runs for the watchdog that no write named in time; unlisted are the runs that only lists need. Callers hold mu.
func (b *batch) journal() (j core.Journal, unnamed, unlisted []*item) {
	b.v++
	j = core.Journal{Key: b.key, V: b.v, Entries: make([]core.Entry, 0, len(b.over)+len(b.items))}
	j.Entries = append(j.Entries, b.over...)
	for _, it := range b.items {
		e := b.entry(it)
		if e.Outcome == 0 {
			continue
		}
		j.Entries = append(j.Entries, e)
		switch {
		case it.named:
		case e.Outcome.Watched():
			unnamed = append(unnamed, it)
		case !it.listed:
			unlisted = append(unlisted, it)
		}
	}
	answers := 0
	for i := range j.Entries {
		if j.Entries[i].Answer != "" {
			if answers++; answers > core.AnswersMax {
				j.Entries[i].Answer = ""
			}
		}
	}
	return j, unnamed, unlisted
}

// entry returns the journal's entry for an item; outcome 0: not listed.
func (b *batch) entry(it *item) core.Entry {
	e := core.Entry{Run: it.fire.Run, Address: it.run.Address, Outcome: entry(it.phase)}
	if e.Outcome == 0 && b.d.store.ByJournal {
		e.Outcome = it.wrote
	}
	switch e.Outcome {
	case core.Left, core.Recorded:
		e.Address = ""
	case core.Unconfirmed:
		e.Answer = it.answer
	}
	return e
}

// unnamed reports whether a run that the journal must name is not named in time. Callers hold mu.
func (b *batch) unnamed() bool {
	return slices.ContainsFunc(b.items, func(it *item) bool { return !it.named && entry(it.phase) != 0 })
}

// tooLate reports whether the watchdog may have read the minute of the claims, or may read it soon. It does not see a
// journal that is first stored now.
func (b *batch) tooLate() bool { return b.since() > b.d.o.Behind/2 }

// since returns the minimum age of the claims for the watchdog, which uses the wall clock. The wall clock includes
// sleep of the machine; the monotonic clock covers clocks that were set back.
func (b *batch) since() time.Duration {
	return max(time.Since(b.began), b.now().Round(0).Sub(time.Unix(b.key.Minute*60+60, 0)))
}

// tell enqueues a check that carries the journal. The consumer stores it, and has it read if the watchdog has passed its minute.
func (b *batch) tell(ctx context.Context, j core.Journal) error {
	c := &ring.Check{Journal: &j}
	for _, e := range j.Entries {
		c.Runs = append(c.Runs, e.Run)
	}
	return b.d.store.Queue.Enqueue(ctx, []ring.Out{checkAt(core.InstantOf(b.now()), c)})[0]
}

func checkAt(at core.Instant, c *ring.Check) ring.Out {
	return ring.Out{NotBefore: at.Time(), Message: ring.Message{Kind: ring.KindCheck, Slot: at, Check: c}}
}

// thin drops data of finished items that the end of the batch does not need. The end may be an hour away if one call is
// awaited in a batch of a thousand runs.
func (b *batch) thin(ctx context.Context) {
	b.mu.Lock()
	var answered []*item
	kept := make([]*item, 0, len(b.items))
	for _, it := range b.items {
		e := b.entry(it)
		switch {
		case !e.Outcome.Watched() && (it.named || it.listed):
			b.over = append(b.over, e)
		case b.mayLack(it) || b.unread(it):
			kept = append(kept, it)
		case e.Outcome.Settled() && it.named:
			b.over = append(b.over, e)
			for _, m := range it.msgs {
				b.of[m] = true
			}
			answered = append(answered, it)
		case it.phase != (done{}) || e.Outcome != 0:
			kept = append(kept, it)
		}
	}
	b.items = kept
	b.mu.Unlock()
	b.checks(ctx, answered)
}

// checks enqueues checks of runs with a timeout, due soon after that timeout.
func (b *batch) checks(ctx context.Context, items []*item) {
	byTime := map[core.Instant][]core.RunID{}
	for _, it := range items {
		if p := it.phase; p != settled(core.Accepted) && p != settled(core.Unconfirmed) {
			continue
		}
		var after []time.Duration
		if d := it.job.Def.Timeout; d > 0 {
			after = append(after, d+b.d.o.TimeoutGrace)
		}
		if d := it.job.Def.LostAfter; d < b.d.o.Behind {
			after = append(after, d+b.d.o.TimeoutGrace)
		}
		for _, d := range after {
			// For later times the watchdog reads the journal early enough.
			if at := core.Ceil(b.now().Add(d)); at.Time().Sub(b.now()) <= ring.Farthest {
				byTime[at] = append(byTime[at], it.fire.Run)
			}
		}
	}
	if len(byTime) == 0 {
		return
	}
	var out []ring.Out
	for at, runs := range byTime {
		out = append(out, checkAt(at, &ring.Check{Runs: runs}))
	}
	if err := cmp.Or(b.d.store.Queue.Enqueue(ctx, out)...); err != nil { // the journal names the runs, so the watchdog checks them later
		b.d.o.Log.Warn("check not sent", "err", err)
	}
}
