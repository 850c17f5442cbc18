package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
)

// longestCall is the longest time that a call: of this batch may be awaited; 0
// when there is none.
func (b *batch) longestCall() time.Duration {
	var longest time.Duration
	for _, it := range b.items {
		if it.status != pending || it.job == nil {
			continue
		}
		if !b.calls[it.job.Def.App] && !hasCall(it.run.Addresses) {
			continue
		}
		t := it.job.Def.Timeout
		if t <= 0 {
			t = b.d.o.CallTimeout
		}
		longest = max(longest, t)
	}
	return longest
}

func hasCall(addresses []string) bool {
	return slices.ContainsFunc(addresses, isCall)
}

func isCall(address string) bool { return strings.HasPrefix(address, "call:") }

// sendAll sends what is mine, address by address and many at a time, so that
// one that hangs delays no other, and stores the journal while sends are open. It
// calls free when all of them have begun or wait for their turn. What asks before
// it is claimed, or waits to be taken in hand, does so beside them, and is sent as soon
// as it may be.
func (b *batch) sendAll(ctx context.Context, asks map[string][]*item, free func()) {
	ready := b.ready(b.items)
	waits := b.waiting()
	if len(ready)+len(asks)+len(waits) == 0 {
		return
	}
	var senders, writer, closer sync.WaitGroup
	stop, answered := make(chan struct{}), make(chan struct{})
	writer.Go(func() { b.keepJournal(ctx, stop) })
	closer.Go(func() { b.settle(ctx, answered) })
	for to, items := range ready {
		b.sendTo(ctx, to, items, &senders)
	}
	for _, items := range asks {
		senders.Go(func() { b.askThenSend(ctx, items, &senders) })
	}
	for app, items := range waits {
		senders.Go(func() { b.waitThenSend(ctx, app, items, &senders) })
	}
	free()
	senders.Wait()
	close(answered)
	closer.Wait()
	// The journal does not wait for ends that the store is slow to take.
	b.closeEnded(ctx)
	close(stop)
	writer.Wait()
}

// waiting takes the fires out that wait to be taken in hand, by app.
func (b *batch) waiting() map[string][]*item {
	waits := map[string][]*item{}
	b.items = slices.DeleteFunc(b.items, func(it *item) bool {
		if it.status != inLine {
			return false
		}
		it.status = pending
		waits[it.job.Def.App] = append(waits[it.job.Def.App], it)
		return true
	})
	return waits
}

// waitThenSend takes fires of an app through all steps, as many at a time as are taken
// in hand. What it keeps waiting comes again.
func (b *batch) waitThenSend(ctx context.Context, app string, items []*item, senders *sync.WaitGroup) {
	defer b.d.gates.leaveLine(app, len(items))
	until := time.Now().Add(b.d.o.GateWait)
	for len(items) > 0 {
		n, err := b.d.gates.takeTurn(ctx, app, len(items), until)
		if err != nil {
			for _, it := range items {
				it.pass(err)
			}
			b.mu.Lock()
			b.items = append(b.items, items...)
			b.mu.Unlock()
			return
		}
		some := items[:n]
		items = items[n:]
		for _, it := range some {
			it.held = true
		}
		asks, rest := b.asking(some)
		for _, asking := range asks {
			senders.Go(func() { b.askThenSend(ctx, asking, senders) })
		}
		b.claimThenSend(ctx, rest, senders)
	}
}

// askThenSend takes fires that ask the same through all steps.
func (b *batch) askThenSend(ctx context.Context, items []*item, senders *sync.WaitGroup) {
	bound, cancel := context.WithTimeout(ctx, b.d.o.AskFor)
	context.AfterFunc(bound, cancel) // not before: what a probe finds is for others too
	c := b.choose(bound, items[0].app, items[0].order, senders)
	for _, it := range items {
		it.choice = c
		it.choice.tries = slices.Clone(c.tries)
	}
	b.claimThenSend(ctx, items, senders)
}

// claimThenSend takes fires in hand through all steps; then they are among those of
// the batch.
func (b *batch) claimThenSend(ctx context.Context, items []*item, senders *sync.WaitGroup) {
	b.claim(ctx, items)
	b.look(ctx, items)
	ready := b.ready(items)
	b.mu.Lock()
	b.items = append(b.items, items...)
	b.mu.Unlock()
	for to, items := range ready {
		b.sendTo(ctx, to, items, senders)
	}
}

// ready is what of items can be sent, by address.
func (b *batch) ready(items []*item) map[at][]*item {
	byAddress := map[at][]*item{}
	for _, it := range items {
		if it.status != mine {
			b.letGo(it)
			continue
		}
		if it.run.Address == "" {
			b.letGo(it)
			it.end = &Answer{State: core.Failed, Reason: core.ReasonNoExecutor, Message: noExecutor(it)}
			it.status = ending
			continue
		}
		to := at{it.job.Def.App, it.run.Address}
		byAddress[to] = append(byAddress[to], it)
	}
	return byAddress
}

// sendTo sends items to one address, in their order and as many at a time as its
// gate lets through. What it keeps waiting comes again.
func (b *batch) sendTo(ctx context.Context, to at, items []*item, senders *sync.WaitGroup) {
	gate := b.d.gates.of(to)
	until := time.Now().Add(b.d.o.GateWait)
	awaited := isCall(to.address)
	var mu sync.Mutex
	next := func() (it *item) {
		mu.Lock()
		defer mu.Unlock()
		if len(items) > 0 {
			it, items = items[0], items[1:]
		}
		return it
	}
	var work func()
	work = func() {
		for it := next(); it != nil; it = next() {
			p, err := gate.enter(ctx, until)
			if err != nil {
				b.turnAway(ctx, it, err)
				continue
			}
			if !awaited {
				p.leave(b.sendOne(ctx, it))
				b.letGo(it)
				continue
			}
			// Once it is only awaited another goes on in the place of this one.
			senders.Add(1)
			t := time.AfterFunc(b.d.o.GateFor, func() {
				defer senders.Done()
				if p.linger() {
					work()
				}
			})
			took := b.sendOne(ctx, it)
			b.letGo(it)
			if t.Stop() {
				senders.Done()
			}
			if !p.leave(took) {
				return
			}
		}
	}
	for range min(gate.offer(len(items)), len(items)) {
		senders.Go(work)
	}
}

// turnAway has what was not let through its gate come again; what this invocation
// has no time for any more stays as it is, and is given back at its end.
func (b *batch) turnAway(ctx context.Context, it *item, why error) {
	b.letGo(it)
	if ctx.Err() == nil {
		it.err = why
		b.set(it, passing)
	}
}

func noExecutor(it *item) string {
	if len(it.run.Tries) > 0 {
		return "no executor of " + it.job.Def.App + " answered"
	}
	return "no executor of " + it.job.Def.App + " is registered"
}

// keepJournal stores the journal each JournalEvery while there are new
// answers: what is answered and not yet stored is what a crash sends again.
// With none for long it is stored as begun: the watchdog goes over the minutes
// of claims once, and would not see a journal that comes after it.
func (b *batch) keepJournal(ctx context.Context, stop <-chan struct{}) {
	every := b.d.o.JournalEvery
	t := time.NewTimer(every)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-t.C:
		}
		b.mu.Lock()
		due := b.dirty || b.blocked || b.since() >= b.d.o.Behind/10 && !b.names() // well before the watchdog comes
		b.mu.Unlock()
		next := every
		if due && !b.writeJournal(ctx) {
			next = every / 5 // nothing is sent meanwhile
		}
		t.Reset(next)
	}
}

// settle closes what was answered with its end each JournalEvery while sends
// are open: until then a crash sends it again, though it ran. And it puts back what
// was told to come again, or to go on the slow lane: beside a call of an hour it
// would be late.
func (b *batch) settle(ctx context.Context, stop <-chan struct{}) {
	t := time.NewTicker(b.d.o.JournalEvery)
	defer t.Stop()
	thinned := time.Now()
	for {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-t.C:
			b.end(ctx)
			b.putBack(ctx, b.as(passing))
			b.putSlow(ctx, b.as(slowed))
			if time.Since(thinned) >= b.d.o.GateWait {
				thinned = time.Now()
				b.thin(ctx)
			}
		}
	}
}

// as is what is in a state now.
func (b *batch) as(s status) []*item {
	b.mu.Lock()
	defer b.mu.Unlock()
	var of []*item
	for _, it := range b.items {
		if it.status == s {
			of = append(of, it)
		}
	}
	return of
}

// mayBegin is asked directly before each send: the own until, the deadline,
// the slot by this clock, and whether the journal is being refused.
func (b *batch) mayBegin(ctx context.Context, it *item) bool {
	for {
		if ctx.Err() != nil || !b.owns(b.d.o.Reserve) {
			return false
		}
		b.mu.Lock()
		blocked := b.blocked
		b.mu.Unlock()
		early := it.fire.Slot.Time().Sub(b.now()) // a clock that was set back since the hold
		if !blocked && early <= 0 {
			return true
		}
		if !sleep(ctx, max(early, b.d.o.JournalEvery/10)) {
			return false
		}
	}
}

// sendOne sends one run, moving on to further addresses as long as each proves
// not to have it (tables D and E). It answers how long the last answer took.
func (b *batch) sendOne(ctx context.Context, it *item) time.Duration {
	cut := ctx
	if d, ok := ctx.Deadline(); ok {
		// A call that lasts is let go while there is time to journal that it was.
		var cancel context.CancelFunc
		cut, cancel = context.WithDeadline(ctx, d.Add(-b.d.o.Reserve*3/4))
		defer cancel()
	}
	for {
		if !b.mayBegin(ctx, it) {
			b.set(it, passing) // nothing of it is on its way: it waits for no call beside it
			return 0
		}
		b.set(it, sending)
		at, began := b.now(), time.Now()
		a := b.d.sender.Send(cut, Shipment{Run: it.run, Job: it.job, App: it.app, Address: it.run.Address})
		// Cut off by the end of the invocation, it did not answer in time either.
		a.TimedOut = a.TimedOut || a.Kind == AnswerUnconfirmed && errors.Is(cut.Err(), context.DeadlineExceeded)
		b.d.health.note(&a, b.now(), it.run.Address, jobName(it.fire.Run.Job()))
		if b.d.o.Sent != nil {
			b.d.o.Sent(it.run, at, a.Kind)
		}
		resend := it.run.MaybeSent
		switch a.Kind {
		case AnswerAccepted:
			b.set(it, accepted)
			b.trace(ctx, it, &a)
			return a.Took
		case AnswerRepeat:
			if resend {
				b.set(it, accepted)
				return a.Took
			}
		case AnswerEnded:
			it.end = &a
			b.set(it, ending)
			return time.Since(began) // the call's work is what takes its place
		case AnswerUnconfirmed:
			b.set(it, unconfirmed)
			return a.Took
		}
		if resend {
			// Nothing that this address says proves anything about the first send.
			b.set(it, unconfirmed)
			return a.Took
		}
		switch a.Kind {
		case AnswerBusy:
			b.set(it, passing)
			return a.Took
		case AnswerBlocked:
			it.end = &Answer{State: core.Skipped, Reason: core.ReasonOverlap, Code: a.Code, Message: a.Message}
			b.set(it, ending)
			return a.Took
		}
		it.run.Tries = append(it.run.Tries, core.Try{Address: it.run.Address, Code: a.Code, Message: a.Message})
		it.next++
		if it.next >= len(it.order) {
			it.end = &Answer{State: core.Failed, Reason: core.ReasonNotAccepted, Code: a.Code, Message: a.Message}
			b.set(it, ending)
			return a.Took
		}
		if !b.moveOn(ctx, it, it.order[it.next]) {
			return a.Took
		}
	}
}

// trace keeps on the run where it can be found at its address. Without it the
// run is as well off, so nothing is done about a failure; a run that has ended
// by now is left alone.
func (b *batch) trace(ctx context.Context, it *item, a *Answer) {
	if a.Request == "" || !b.inTime(b.d.o.Reserve) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.d.o.Reserve)
	defer cancel()
	tries := append(slices.Clone(it.run.Tries), core.Try{Address: it.run.Address, Code: a.Code, Request: a.Request, Log: a.Log})
	err := b.d.store.Readdress(ctx, Readdress{Run: it.fire.Run, Owner: b.nonce, Address: it.run.Address, To: it.run.Address, Tries: tries})
	if err != nil && !refused(err) {
		b.d.o.Log.Info("where the run writes its log is not kept", "run", it.fire.Run, "job", it.fire.Run.Job(), "request", a.Request, "err", err)
	}
}

// moveOn is the failover on the way (table E): the claim names the new address
// before anything is sent there.
func (b *batch) moveOn(ctx context.Context, it *item, to string) bool {
	if !b.inTime(b.d.o.Reserve) {
		b.set(it, passing)
		return false
	}
	err := b.d.store.Readdress(ctx, Readdress{Run: it.fire.Run, Owner: b.nonce, Address: it.run.Address, To: to, Tries: it.run.Tries})
	switch {
	case err == nil:
		b.address(it, to)
		return true
	case refused(err):
		it.err = err
		b.set(it, notDone)
		return false
	case throttled(err):
		b.set(it, passing)
		return false
	}
	found, _, err := readAll(ctx, []core.RunID{it.fire.Run}, b.d.store.Runs)
	run, ok := found[it.fire.Run]
	switch {
	case err == nil && ok && run.State.Open() && run.Owner == b.nonce && run.Address == to:
		b.address(it, to)
		return true
	case err == nil && ok && run.State.Open() && run.Owner == b.nonce && run.Address == it.run.Address:
		b.set(it, passing)
	default:
		it.err = err
		b.set(it, notDone)
	}
	return false
}

func (b *batch) set(it *item, s status) {
	b.mu.Lock()
	it.status = s
	if s == accepted || s == unconfirmed {
		b.dirty = true
	}
	b.mu.Unlock()
}

func (b *batch) address(it *item, to string) {
	b.mu.Lock()
	it.run.Address = to
	b.mu.Unlock()
}

// ended is what is to be closed, each with its result.
func (b *batch) ended() (of []*item, results []finish.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		if it.status == ending {
			results = append(results, finish.Result{Run: it.fire.Run, State: it.end.State, Reason: it.end.Reason, Code: it.end.Code, Message: it.end.Message, At: b.now(), Owner: b.nonce})
			of = append(of, it)
		}
	}
	return of, results
}

// end closes once what is to be closed, and answers what still is, and why.
func (b *batch) end(ctx context.Context) (of []*item, errs []error) {
	items, results := b.ended()
	if len(items) == 0 {
		return nil, nil
	}
	for k, err := range b.d.finish.End(ctx, results) {
		it := items[k]
		switch {
		case err == nil:
			b.set(it, done)
		case refused(err):
			it.err = err
			b.set(it, notDone)
		default:
			of, errs = append(of, it), append(errs, err)
		}
	}
	return of, errs
}

// closeEnded closes what failed for good, and what its answer ended (step 8).
func (b *batch) closeEnded(ctx context.Context) {
	of, errs := b.end(ctx)
	for try := 0; len(of) > 0 && try < 8 && b.inTime(b.d.o.Reserve); try++ {
		if !sleep(ctx, 50*time.Millisecond<<min(try, 5)) {
			break
		}
		of, errs = b.end(ctx)
	}
	for k, it := range of {
		if it.end.Kind == AnswerEnded || it.run.MaybeSent {
			// It ran: its end is not stored, and nothing may send it again but a
			// taker, to the same address. Unconfirmed until it is reported or lost.
			b.set(it, unconfirmed)
			continue
		}
		it.err = errs[k]
		it.retryAt = b.until
		b.set(it, notDone)
	}
}
