package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/route"
	"github.com/tickring/tickring/store"
)

// claim takes items through steps 4 and 5. The first write of an item without a record assumes that no record exists. claim reads
// the record only if that write decided nothing, or if the item was retried and may wait for an executor or a permit.
func (b *batch) claim(ctx context.Context, items []*item) {
	open := make([]*item, 0, len(items))
	for _, it := range items {
		if !it.recorded && !it.hint && it.phase == (undecided{}) && (it.try == 0 || !b.mayWait(it) && it.permit() == "") {
			open = append(open, it)
		}
	}
	b.decide(ctx, open, nil)
	for round := 0; ; round++ {
		open = open[:0]
		var ids []core.RunID
		for _, it := range items {
			if it.phase == (undecided{}) {
				open, ids = append(open, it), append(ids, it.fire.Run)
			}
		}
		if len(open) == 0 {
			return
		}
		if round == budget.ClaimLooks || ctx.Err() != nil || !b.owns(0) {
			for _, it := range open {
				it.phase = notDone{why: fmt.Errorf("run %d could not be evaluated in time", it.fire.Run)}
			}
			return
		}
		runs, err := readAll(ctx, ids, b.d.store.Runs.Get)
		if err != nil {
			if round+1 < budget.ClaimLooks {
				store.Sleep(ctx, 10*time.Millisecond<<round)
			}
			continue
		}
		b.decide(ctx, slices.DeleteFunc(open, func(it *item) bool {
			why := runs[it.fire.Run].Err
			if why != nil && !errors.Is(why, core.ErrThrottled) {
				it.phase = passing{why: why}
			}
			return why != nil
		}), runs)
	}
}

// A write creates the run of an item, or changes it: claims it, queues it, or closes it as skipped.
type write struct {
	it      *item
	create  *core.Run    // nil: it is a change
	put     *core.RunPut // nil: it is a create
	dropped bool         // it is not written now
}

// claim returns the run as claimed by the write, and as it was before; nil: the write claims nothing.
func (w *write) claim() (run, was *core.Run) {
	switch {
	case w.create != nil && w.create.State == core.Running:
		return w.create, &noRun
	case w.put != nil && w.put.Set&core.RunOwner != 0:
		return &w.put.To, &w.put.Was
	}
	return nil, nil
}

func kept(list []*write) []*write {
	return slices.DeleteFunc(list, func(w *write) bool { return w.dropped })
}

// decide applies table B to items whose records are in runs. It compares until with its own clock first and reads the
// journal that a run names only afterwards.
func (b *batch) decide(ctx context.Context, open []*item, runs map[core.RunID]store.Got[*core.Run]) {
	now := b.now()
	past := func(r *core.Run) bool {
		return (r.Expired(now) || b.d.o.OwnerDead(r.Owner)) && !b.d.lives(r.Owner)
	}
	var list []*write
	do := func(it *item, a act) {
		if w := b.do(ctx, it, a, now); w != nil {
			list = append(list, w)
		}
	}
	type other struct {
		*item
		is row
	}
	var others []other
	var keys []core.JournalKey
	for _, it := range open {
		switch what := b.seen(it, runs, past); {
		case what == othersLive || what == othersPast:
			// The process that claimed the run may have died. Then this hint may be the run's last message.
			it.hint = it.hint && what == othersLive
			others, keys = append(others, other{it, what}), append(keys, it.run.Journal)
		case it.hint && what != queued && what != nobodys && it.run.Journal != b.key:
			it.phase = done{} // its own message has it
		default:
			do(it, look(what, it.falls))
		}
	}
	if len(others) > 0 {
		journals, err := b.d.store.Journals(ctx, keys)
		for _, o := range others {
			if err == nil || o.is == othersLive { // otherwise the next round checks it again
				do(o.item, look(o.is.says(journals[o.run.Journal], o.run.ID), o.falls))
			}
		}
	}
	b.write(ctx, list)
}

// seen stores the record on the item and returns its row in table B.
func (b *batch) seen(it *item, runs map[core.RunID]store.Got[*core.Run], past func(*core.Run) bool) row {
	if run, is := runs[it.fire.Run]; is {
		it.run = run.Is
		if it.run.Journal != b.key && !it.unsure {
			it.wrote = 0
		} else if it.wrote == 0 { // by a write whose answer was lost
			it.wrote = core.Recorded
		}
		it.ofSlot(it.run)
		return rowOf(it.run, &it.fire, b.nonce, past)
	}
	if it.recorded {
		return noRecord
	}
	return noItem
}

// ofSlot selects the copy whose due time is the one of the record. Copies with another due time do nothing.
func (it *item) ofSlot(run *core.Run) {
	if i := slices.IndexFunc(it.others, func(f core.Fire) bool { return f.Slot == run.Slot }); i >= 0 {
		it.fire = it.others[i]
	}
}

// do sets the next phase of an item, or returns the write that leads to it.
func (b *batch) do(ctx context.Context, it *item, a act, now time.Time) *write {
	switch a {
	case isDone:
		if it.phase = (done{}); it.lost != nil && it.lost.Made(it.run) {
			b.d.finish.Ended(it.run)
		}
		if it.run.ShardEnded() || it.run.FreesSlots() { // its closer may have died before it did this
			it.phase = b.mend(ctx, it.run)
		}
	case toBury:
		it.phase = it.unrecorded()
	case toLeave:
		it.phase = settled(core.Left)
	case toMend:
		it.phase = b.mend(ctx, it.run)
	case toJoin:
		if it.phase, it.wrote = (done{}), core.Recorded; b.d.finish.JoinDue(ctx, it.run) != nil {
			it.phase, it.wrote = notDone{why: fmt.Errorf("the join of run %d is not evaluated yet", it.run.ID),
				retryAt: now.Add(b.d.o.BackoffMax)}, 0
		}
	case toSpread:
		it.phase = b.spread(ctx, it)
	case toKeep: // the answer to the claim was lost
		it.wrote = core.Done
		it.own()
	case toClaim:
		if b.route(it) {
			return b.creates(it, now, core.Running)
		} else if it.waits() {
			return b.creates(it, now, core.Queued)
		}
	case toRecord:
		return b.creates(it, now, core.Skipped)
	case toSkip:
		if it.run.State == core.Queued && it.falls == fallsPast {
			it.reason = core.ReasonDeadline // the misfire policy is checked first, but does not apply to a waiting run
		}
		return it.changes(b.listed(it.run.SkipUnsent(it.reason, now)).Owing(it.tellsSkip()))
	case toTake:
		if b.route(it) {
			take := it.run.Take(b.claimed(it), first(it.order), now, it.choice.tries)
			return it.changes(take.Under(it.job.Sched.Rev, it.tellsEnd()).Counted(it.permit()))
		} else if it.waits() && it.run.State != core.Queued {
			return it.changes(b.listed(it.run.Wait()).Counted(it.permit()))
		} else if it.waits() { // perhaps it got a permit since it was read
			b.d.finish.ReleasePermits(ctx, it.run, core.PermitNames(it.permit()))
		}
	case toRetake:
		it.order = ownOrder(it.run.Address)
		take := it.run.Take(b.claimed(it), "", now, nil)
		return it.changes(take.Under(it.job.Sched.Rev, it.tellsEnd()))
	case toWait:
		at := it.run.Until
		if !at.After(now) { // the claim has expired, but its owner is still running
			at = now.Add(b.d.o.BackoffMax)
		}
		it.phase = notDone{why: fmt.Errorf("run %d is claimed by another process until %s", it.run.ID, it.run.Until.Format(time.RFC3339Nano)),
			retryAt: at}
	}
	return nil
}

func (b *batch) creates(it *item, now time.Time, state core.State) *write {
	return &write{it: it, create: new(b.recorded(it, now, state))}
}

func (it *item) changes(p core.RunPut) *write { return &write{it: it, put: &p} }

// write does all writes and sets phases from their answers. Items whose writes cannot start in time stay undecided.
func (b *batch) write(ctx context.Context, list []*write) {
	list = b.permits(ctx, list)
	list = b.broadcast(ctx, list)
	creates := make([]core.Run, 0, len(list)) // a run takes about a kilobyte
	var puts []core.RunPut
	var createOf, putOf []*write
	for _, w := range b.told(ctx, list) {
		if w.create != nil {
			creates, createOf = append(creates, *w.create), append(createOf, w)
		} else {
			puts, putOf = append(puts, *w.put), append(putOf, w)
		}
	}
	if len(creates) > 0 && b.owns(0) {
		for k, err := range b.d.store.CreateRuns(ctx, creates) {
			b.created(ctx, createOf[k], err)
		}
	}
	if len(puts) > 0 && b.owns(0) {
		for k, err := range b.d.store.ChangeRuns(ctx, puts) {
			b.changed(ctx, putOf[k], err)
		}
	}
}

// created sets the phase after the answer to a create.
func (b *batch) created(ctx context.Context, w *write, err error) {
	it, state, waits := w.it, w.create.State, w.it.phase
	it.phase = firstWrite(err, state == core.Skipped)
	it.written(err, state == core.Running)
	switch {
	case it.phase == done{}:
		it.phase = b.mend(ctx, w.create)
	case it.phase == ours{} && state == core.Queued:
		it.phase = waits
	case it.phase == ours{}:
		if it.run = w.create; it.run.IsBroadcast() {
			it.phase = b.spread(ctx, it)
		}
	}
}

// changed sets the phase after the answer to a change.
func (b *batch) changed(ctx context.Context, w *write, err error) {
	it, p, waits := w.it, w.put, w.it.phase
	if p.Set&core.RunJournal != 0 {
		it.written(err, p.Set&core.RunOwner != 0)
	}
	if it.phase = takeOver(err); p.Ends() {
		it.phase = firstWrite(err, true)
	}
	if err != nil {
		if p.Ends() && !errors.Is(err, core.ErrRefused) {
			it.lost = p
		}
		return
	}
	switch p.Apply(it.run); {
	case p.Ends():
		b.d.finish.Ended(it.run)
		it.phase = b.mend(ctx, it.run)
	case p.To.State == core.Queued:
		it.phase = waits
	case it.run.IsBroadcast():
		it.phase = b.spread(ctx, it)
	default:
		it.own()
	}
}

// written records that the journal must list a run, if its write succeeded or may have succeeded.
func (it *item) written(err error, claims bool) {
	if a := answerOf(err); a == okay || a == unknown {
		if it.wrote, it.unsure = core.Recorded, it.unsure || a == unknown; claims {
			it.wrote = core.Done
		}
	}
}

// listed makes a put without a claim name the journal of this batch, if lists find runs by journals and the run was never claimed.
func (b *batch) listed(p core.RunPut) core.RunPut {
	if b.d.store.ByJournal && p.Was.SentAt.IsZero() {
		return p.In(b.key)
	}
	return p
}

// recorded returns the new record of a run that is about to be sent, waits for an executor, or is skipped.
func (b *batch) recorded(it *item, now time.Time, state core.State) core.Run {
	_, fixed := it.job.Sched.Schedule.FixedDelay()
	f := &it.fire
	r := core.Run{ID: f.Run, App: it.job.Def.App, Cause: f.Cause, Rev: f.Rev, At: f.At, Slot: f.Slot, Seq: f.Seq,
		Attempt: 1, First: f.Run, FixedDelay: fixed, Retries: it.job.Def.Retry.Max}
	if it.of != nil {
		r = it.of.ShardRun(f.Run)
	}
	if b.d.store.ByJournal {
		r.Journal = b.key
	}
	switch r.State = state; state {
	case core.Skipped:
		r.Reason, r.EndedAt = it.reason, now
		r.Owe(it.tellsSkip())
		return r
	case core.Running:
		c := b.claimed(it)
		r.Owner, r.Until, r.Journal, r.SentAt, r.Address = c.Owner, c.Until, c.Journal, now, first(it.order)
		if rev := it.job.Sched.Rev; rev != r.Rev { // a shard, or a run whose ID was issued for it alone
			r.SentRev = rev
		}
	}
	if r.Tries = it.choice.tries; it.of == nil { // the end of a shard has effects only through its broadcast
		r.Follow(&it.job.Def)
		r.Permit = it.permit()
		r.Notice = it.tellsEnd()
	}
	r.KeepLog = it.job.Def.Keep.Kept() // shards have their own logs
	return r
}

// own sets the phase to ours; the run goes to the address of its claim.
func (it *item) own() {
	it.phase = ours{}
	if len(it.order) == 0 || it.order[0] != it.run.Address {
		it.order = ownOrder(it.run.Address)
	}
}

func first(order []string) string {
	if len(order) == 0 {
		return ""
	}
	return order[0]
}

func ownOrder(address string) []string {
	if address == "" {
		return nil
	}
	return []string{address}
}

// mend creates the follow-ups of a closed run. If that fails, the watchdog does it, because the journal lists the run as left.
func (b *batch) mend(ctx context.Context, run *core.Run) phase {
	if err := b.d.finish.Mend(ctx, run); err != nil {
		b.d.o.Log.Warn("follow-ups of a run left to the watchdog", "run", run.ID, "job", run.ID.Job(), "err", err)
		return settled(core.Left)
	}
	return done{}
}

// local is the address list of commands, which need no executor.
var local = []string{core.LocalAddress}

// addresses returns the addresses that an item may be sent to.
func (b *batch) addresses(it *item) []string {
	if it.job.Def.Command != nil {
		return local
	}
	if len(it.run.Addresses) > 0 {
		return it.run.Addresses
	}
	return b.live[it.job.Def.App]
}

// slow reports whether the address of an item is slow while the item is not on the slow queue. If so, it moves the item there.
func (b *batch) slow(it *item) bool {
	if !b.d.o.SlowQueue || it.slow || len(it.order) == 0 || !b.d.health.slow(it.fire.Run.Job(), it.order[0], b.now()) {
		return false
	}
	it.phase = passing{slowly: true, why: errNotDone}
	return true
}

// mayWait reports whether a due run may wait for an executor if none is available.
func (b *batch) mayWait(it *item) bool {
	return it.job.WaitsUntil(it.app, it.fire.Slot).After(it.fire.Slot.Time())
}

// waits reports whether an item waits for an executor or a permit.
func (it *item) waits() bool {
	p, is := it.phase.(passing)
	return is && !p.waits.IsZero()
}

// route sets the addresses to try, in order. It returns false if the item cannot be sent now: it waits for an executor
// or for its app's limits, its addresses could not be asked, or its address is slow.
func (b *batch) route(it *item) bool {
	addresses := b.addresses(it)
	switch {
	case it.of != nil:
		it.order = b.shardOrder(it)
	case len(addresses) == 0:
		it.order = nil
	case route.Used(it.job.Def.Route):
		it.order = b.d.uses.order(it.fire.Run.Job(), addresses, b.now())
	case route.Asks(it.job.Def.Route) == route.AskNothing:
		it.order = route.Order(it.job.Def.Route, addresses, it.fire.Run.Job(), it.fire.Seq, rand.Uint64())
	case it.choice.err != nil:
		it.phase = passing{why: it.choice.err}
		return false
	default:
		it.order = it.choice.order
	}
	if it.of == nil && len(it.run.Addresses) == 0 && len(it.order) > 0 { // a run with its own addresses shows the choice anyway
		if chosen := core.ChosenFrom(it.job.Def.Route, it.order[0], addresses); chosen != nil {
			before := slices.DeleteFunc(slices.Clone(it.run.Tries), func(t core.Try) bool { return t.Of > 0 })
			it.choice.tries = append(before, chosen...)
		}
	}
	if len(it.order) == 0 {
		if until := it.job.WaitsUntil(it.app, it.fire.Slot); b.mayWait(it) && !b.now().After(until) {
			p := passing{waits: until, why: errNobody}
			if len(addresses) > 0 { // they were asked, and none is available
				p.most = waitLook
			}
			it.phase = p
			return false
		}
		if len(addresses) == 0 {
			if b.outage {
				it.phase = passing{why: fmt.Errorf("no executor of %s has registered again since the outage", it.job.Def.App)}
			}
			return !b.outage // claimed first, then failed with no-executor
		}
	}
	return !b.slow(it) && b.hold(it)
}

// hold reports whether the item counts against Options.InHand or could be added. If not, the item waits in line or is retried.
func (b *batch) hold(it *item) bool {
	if it.held {
		return true
	}
	var waits bool
	if it.held, waits = b.d.gates.hold(it.job.Def.App); waits {
		it.phase = inLine{}
	} else if !it.held {
		it.phase = passing{why: errHand}
	}
	return it.held
}

// letGo removes the item from Options.InHand: it has its answer, or gets none in this batch.
func (b *batch) letGo(it *item) {
	if it.held {
		it.held = false
		b.d.gates.letGo(it.job.Def.App)
	}
}
