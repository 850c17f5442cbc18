package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/route"
)

// claim is the first write of each fire that has no record of its own (table
// A): a claim for what is to be sent, a skipped record for what falls. What has
// a record of its own is looked at instead, as are all refused writes.
func (b *batch) claim(ctx context.Context, items []*item) {
	now := b.now()
	var runs []core.Run
	var of []*item
	for _, it := range items {
		if it.status != pending {
			continue
		}
		if _, planned := it.fire.Run.Planned(); !planned {
			continue
		}
		switch it.intent {
		case send:
			if !b.route(it) {
				continue
			}
			runs, of = append(runs, b.claimed(it, now)), append(of, it)
		case fallsRecord, fallsLate:
			runs, of = append(runs, b.skipped(it, now)), append(of, it)
		case fallsSilent:
			it.status = left
		}
	}
	b.create(ctx, runs, of)
}

func (b *batch) create(ctx context.Context, runs []core.Run, of []*item) {
	if len(runs) == 0 {
		return
	}
	if !b.owns(0) {
		return // not begun; what is pending is looked at, and not done
	}
	for k, err := range b.d.store.Create(ctx, runs) {
		it := of[k]
		switch {
		case err == nil && runs[k].State == core.Skipped:
			it.status = done
			b.chainSkipped(ctx, &runs[k])
		case err == nil:
			run := runs[k] // apart from the others, which may be over long before it
			it.run, it.status, it.claimed = &run, mine, true
		case throttled(err) && it.intent == send:
			it.pass(err)
		case throttled(err):
			it.status, it.err = notDone, err
		}
		// Refused or unknown: still pending, looked at next.
	}
}

// claimed is the record of a fire that this invocation is about to send.
func (b *batch) claimed(it *item, now time.Time) core.Run {
	_, fixed := it.job.Sched.Schedule.FixedDelay()
	r := core.Run{ID: it.fire.Run, App: it.job.Def.App, State: core.Running, Cause: it.fire.Cause, Rev: it.fire.Rev, At: it.fire.At, Slot: it.fire.Slot, Seq: it.fire.Seq,
		Owner: b.nonce, Until: b.until, Journal: b.key, SentAt: now, Attempt: 1, First: it.fire.Run, Retries: it.job.Def.Retry.Max, FixedDelay: fixed, Tries: it.choice.tries}
	if len(it.order) > 0 {
		r.Address = it.order[0]
	}
	return r
}

// skipped is the record of a fire that falls.
func (b *batch) skipped(it *item, now time.Time) core.Run {
	_, fixed := it.job.Sched.Schedule.FixedDelay()
	return core.Run{ID: it.fire.Run, App: it.job.Def.App, State: core.Skipped, Reason: it.reason, Cause: it.fire.Cause, Rev: it.fire.Rev, At: it.fire.At, Slot: it.fire.Slot, Seq: it.fire.Seq,
		Attempt: 1, First: it.fire.Run, FixedDelay: fixed, EndedAt: now}
}

// chainSkipped lets a fixed delay go on after a skipped fire; what fails here
// the tick repairs when the job's planAt comes.
func (b *batch) chainSkipped(ctx context.Context, run *core.Run) {
	if !run.FixedDelay {
		return
	}
	if err := b.d.finish.ChainEnded(ctx, run.First, run.EndedAt); err != nil {
		b.d.o.Log.Warn("next fire of a fixed delay is left to the tick", "run", run.ID, "err", err)
	}
}

// addresses are those that a fire may be sent to.
func (b *batch) addresses(it *item) []string {
	if len(it.run.Addresses) > 0 {
		return it.run.Addresses
	}
	return b.live[it.job.Def.App]
}

// slow reports that a fire is bound for a slow address and not on the slow lane yet.
func (b *batch) slow(it *item) bool {
	return b.d.health.on() && !it.slow && len(it.order) > 0 && b.d.health.slow(it.fire.Run.Job(), it.order[0], b.now())
}

// route finds the addresses to try, in order. It answers false when the item
// was decided without one: waiting for an executor after our own outage, or for an
// answer or a place in its app's share, or slow.
func (b *batch) route(it *item) bool {
	addresses := b.addresses(it)
	if len(addresses) == 0 {
		if b.outage {
			it.pass(fmt.Errorf("no executor of %s has registered again yet", it.job.Def.App))
			return false
		}
		it.order = nil
		return true // claimed, then failed: no-executor
	}
	switch {
	case route.Asks(it.job.Def.Route) != route.AskBeat:
		it.order = route.Order(it.job.Def.Route, addresses, it.fire.Run.Job(), it.fire.Seq, rand.Uint64())
	case it.choice.err != nil:
		it.pass(it.choice.err)
		return false
	default:
		it.order = it.choice.order
	}
	if b.slow(it) {
		it.status = slowed
		return false
	}
	return b.hold(it)
}

// hold takes a fire in hand that is about to be claimed, or asked for; false where it
// is to wait for that, or to come again.
func (b *batch) hold(it *item) bool {
	if it.held {
		return true
	}
	var waits bool
	if it.held, waits = b.d.gates.hold(it.job.Def.App); waits {
		it.status = inLine
	} else if !it.held {
		it.pass(errHand)
	}
	return it.held
}

// letGo ends that: it has its answer, or gets none here.
func (b *batch) letGo(it *item) {
	if it.held {
		it.held = false
		b.d.gates.letGo(it.job.Def.App)
	}
}

// lookRounds bounds how often an item is looked at in one invocation.
const lookRounds = 5

// look reads the runs of what is still pending and judges each (table B).
func (b *batch) look(ctx context.Context, items []*item) {
	for round := 0; ; round++ {
		var open []*item
		var ids []core.RunID
		for _, it := range items {
			if it.status == pending {
				open, ids = append(open, it), append(ids, it.fire.Run)
			}
		}
		if len(open) == 0 {
			return
		}
		if round == lookRounds || ctx.Err() != nil || !b.owns(0) {
			for _, it := range open {
				it.status, it.err = notDone, fmt.Errorf("run %d could not be judged in time", it.fire.Run)
			}
			return
		}
		runs, unread, err := readAll(ctx, ids, b.d.store.Runs)
		if err != nil {
			if round+1 < lookRounds {
				sleep(ctx, 10*time.Millisecond<<round)
			}
			continue
		}
		missing := map[core.RunID]bool{}
		for _, id := range unread {
			missing[id] = true
		}
		b.lookOnce(ctx, open, runs, missing)
	}
}

// lookOnce takes one round of table B: until is compared with the own clock
// first, and only then the journal that the run names is read.
func (b *batch) lookOnce(ctx context.Context, open []*item, runs map[core.RunID]core.Run, unread map[core.RunID]bool) {
	now := b.now()
	var create []core.Run
	var createOf []*item
	var skips []SkipUnsent
	var skipOf []*item
	var takes []TakeOver
	var takeOf []*item
	type foreign struct {
		it   *item
		past bool
	}
	var foreigns []foreign
	var keys []core.JournalKey
	for _, it := range open {
		run, ok := runs[it.fire.Run]
		switch {
		case !ok && unread[it.fire.Run]:
			continue
		case !ok:
			_, planned := it.fire.Run.Planned()
			switch {
			case !planned:
				it.bury("there is no record of run " + it.fire.Run.String())
			case it.intent == send:
				if b.route(it) {
					create, createOf = append(create, b.claimed(it, now)), append(createOf, it)
				}
			case it.intent == fallsSilent:
				it.status = left
			default:
				create, createOf = append(create, b.skipped(it, now)), append(createOf, it)
			}
			continue
		}
		it.run = &run
		switch {
		case b.moved(it):
			it.status = done
		case !run.State.Open() && len(run.Owes) == 0:
			it.status = done
		case !run.State.Open():
			if err := b.d.finish.Mend(ctx, &run); err != nil {
				it.status = left
			} else {
				it.status = done
			}
		case run.Owner == b.nonce:
			// Ours: the answer to the claim was lost.
			if len(it.order) == 0 || it.order[0] != run.Address {
				it.order = ownOrder(run.Address)
			}
			it.status, it.claimed = mine, true
		case run.Owner == "" && !run.MaybeSent:
			switch it.intent {
			case send:
				if b.route(it) {
					t := b.take(&run, now)
					t.Tries = it.choice.tries
					if len(it.order) > 0 {
						t.Address = it.order[0]
					}
					takes, takeOf = append(takes, t), append(takeOf, it)
				}
			case fallsSilent:
				it.status = left
			default:
				skips, skipOf = append(skips, SkipUnsent{Run: run.ID, Until: run.Until, Reason: it.reason, EndedAt: now}), append(skipOf, it)
			}
		case run.Owner == "":
			if it.intent == fallsRecord || it.intent == fallsSilent {
				it.status = left
				continue
			}
			it.order = ownOrder(run.Address)
			takes, takeOf = append(takes, b.take(&run, now)), append(takeOf, it)
		default:
			past := (run.Expired(now) || b.d.o.OwnerDead(run.Owner)) && !b.d.lives(run.Owner)
			foreigns, keys = append(foreigns, foreign{it, past}), append(keys, run.Journal)
		}
	}
	if len(foreigns) > 0 {
		journals, err := b.d.store.Journals(ctx, keys)
		if err != nil {
			journals = nil
		}
		for _, f := range foreigns {
			it := f.it
			if err == nil {
				j := journals[it.run.Journal]
				if e, ok := j.Find(it.run.ID); ok && (e.Outcome == core.Accepted || e.Outcome == core.Unconfirmed) {
					it.status = done
					continue
				}
			}
			switch {
			case !f.past:
				it.status, it.retryAt = notDone, it.run.Until
				if !it.retryAt.After(now) { // its owner lives all the same
					it.retryAt = now.Add(b.d.o.BackoffMax)
				}
				it.err = fmt.Errorf("run %d is another's until %s", it.run.ID, it.run.Until.Format(time.RFC3339Nano))
			case err != nil:
				continue // read again
			case it.intent == send || it.intent == fallsLate:
				it.order = ownOrder(it.run.Address)
				takes, takeOf = append(takes, b.take(it.run, now)), append(takeOf, it)
			default:
				it.status = left
			}
		}
	}
	b.create(ctx, create, createOf)
	b.skipUnsent(ctx, skips, skipOf)
	b.takeOver(ctx, takes, takeOf)
}

// moved reports that a trigger was given another slot after this fire was sent
// on its way: it has an entry in the due index for that one, written with the
// change, and this message has nothing to do with it any more.
func (b *batch) moved(it *item) bool {
	c := it.run.Cause
	return (c == core.CauseManual || c == core.CauseAPI) && it.run.State == core.Planned && it.run.Owner == "" && it.run.Slot != it.fire.Slot
}

func ownOrder(address string) []string {
	if address == "" {
		return nil
	}
	return []string{address}
}

// take is a take-over of a run as read. Its until is later than the one read, so
// that none is written twice: what was read before names a state that is gone.
func (b *batch) take(run *core.Run, now time.Time) TakeOver {
	until := b.until
	if !until.After(run.Until) {
		until = run.Until.Add(time.Millisecond)
	}
	return TakeOver{Run: run.ID, Owner: run.Owner, Until: run.Until, NewOwner: b.nonce, NewUntil: until, Journal: b.key, Address: run.Address, SentAt: now}
}

func (b *batch) skipUnsent(ctx context.Context, skips []SkipUnsent, of []*item) {
	if len(skips) == 0 || !b.owns(0) {
		return
	}
	for k, err := range b.d.store.SkipUnsent(ctx, skips) {
		it := of[k]
		switch {
		case err == nil:
			it.status = done
			it.run.EndedAt = skips[k].EndedAt
			b.chainSkipped(ctx, it.run)
		case throttled(err):
			it.status, it.err = notDone, err
		}
	}
}

func (b *batch) takeOver(ctx context.Context, takes []TakeOver, of []*item) {
	if len(takes) == 0 || !b.owns(0) {
		return
	}
	for k, err := range b.d.store.TakeOver(ctx, takes) {
		it, t := of[k], &takes[k]
		if err != nil {
			continue // look again; after the last round it is not done
		}
		it.run.State, it.run.Owner, it.run.Until, it.run.Journal = core.Running, b.nonce, t.NewUntil, b.key
		it.run.MaybeSent = it.run.MaybeSent || t.Owner != ""
		if len(t.Tries) > 0 {
			it.run.Tries = t.Tries
		}
		if it.run.Address == "" {
			it.run.Address = t.Address
		}
		if it.run.SentAt.IsZero() {
			it.run.SentAt = t.SentAt
		}
		if len(it.order) == 0 || it.order[0] != it.run.Address {
			it.order = ownOrder(it.run.Address)
		}
		it.status, it.claimed = mine, true
	}
}
