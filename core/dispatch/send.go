package dispatch

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

func hasCall(addresses []string) bool {
	return slices.ContainsFunc(addresses, isCall)
}

func isCall(address string) bool { return strings.HasPrefix(address, "call:") }

// sendAll sends the claimed items and stores the journal while sends are open. It sends to many addresses in parallel,
// so that one that hangs delays no other. It calls free once all sends have begun or wait for their turn. Items that
// ask addresses, ask for permits or wait to be in hand do so in parallel and are sent as soon as possible. Results are
// stored with the context writes.
func (b *batch) sendAll(ctx, writes context.Context, asks, limited map[string][]*item, free func()) {
	ready := b.ready(b.items)
	waits, rest := takeWaiting(b.items)
	b.items = rest
	var senders, writer, closer sync.WaitGroup
	writing, written := context.WithCancel(ctx)
	open, answered := context.WithCancel(ctx)
	writer.Go(func() { b.keepJournal(ctx, writing) })
	closer.Go(func() { b.endWhileOpen(writes, open) })
	for to, items := range ready {
		b.sendTo(ctx, to, items, &senders)
	}
	for _, items := range asks {
		senders.Go(func() { b.askThenSend(ctx, items, &senders) })
	}
	for _, items := range limited {
		senders.Go(func() { b.claimThenSend(ctx, items, &senders) })
	}
	for app, items := range waits {
		senders.Go(func() { b.waitThenSend(ctx, app, items, &senders) })
	}
	free()
	senders.Wait()
	answered()
	closer.Wait()
	// The journal does not wait while the store is slow to take results.
	b.closeEnded(writes)
	written()
	writer.Wait()
}

// takeWaiting removes the items that wait to be in hand and groups them by app.
func takeWaiting(items []*item) (waits map[string][]*item, rest []*item) {
	waits = map[string][]*item{}
	rest = slices.DeleteFunc(items, func(it *item) bool {
		if it.phase != (inLine{}) {
			return false
		}
		it.phase = undecided{}
		waits[it.job.Def.App] = append(waits[it.job.Def.App], it)
		return true
	})
	return waits, rest
}

// waitThenSend takes items of an app through all steps, in groups as they come in hand. Items that wait longer than
// gateWait are retried.
func (b *batch) waitThenSend(ctx context.Context, app string, items []*item, senders *sync.WaitGroup) {
	defer b.d.gates.leaveLine(app, len(items))
	until := time.Now().Add(gateWait)
	for len(items) > 0 {
		n, err := b.d.gates.takeTurn(ctx, app, len(items), until)
		if err != nil {
			for _, it := range items {
				it.phase = passing{why: err}
			}
			b.sendClaimed(ctx, items, senders) // which leaves these as they are
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

// askThenSend takes items with equal questions through all steps.
func (b *batch) askThenSend(ctx context.Context, items []*item, senders *sync.WaitGroup) {
	bound, cancel := context.WithTimeout(ctx, askFor)
	context.AfterFunc(bound, cancel) // not earlier: other batches use the probes too
	c := b.choose(bound, items[0], senders)
	for _, it := range items {
		it.choice = c
		it.choice.tries = slices.Clone(c.tries)
	}
	b.claimThenSend(ctx, items, senders)
}

// claimThenSend takes items through all steps and adds them to the batch.
func (b *batch) claimThenSend(ctx context.Context, items []*item, senders *sync.WaitGroup) {
	b.claim(ctx, items)
	waits, rest := takeWaiting(items)
	b.sendClaimed(ctx, rest, senders)
	for app, items := range waits {
		senders.Go(func() { b.waitThenSend(ctx, app, items, senders) })
	}
}

func (b *batch) sendClaimed(ctx context.Context, items []*item, senders *sync.WaitGroup) {
	ready := b.ready(items)
	b.mu.Lock()
	b.items = append(b.items, items...)
	b.mu.Unlock()
	for to, items := range ready {
		b.sendTo(ctx, to, items, senders)
	}
}

// ready groups the items that can be sent by address.
func (b *batch) ready(items []*item) map[at][]*item {
	byAddress := map[at][]*item{}
	for _, it := range items {
		switch {
		case it.phase != (ours{}):
			b.letGo(it)
		case it.run.Address == "":
			b.letGo(it)
			it.phase = ended{Answer{State: core.Failed, Reason: core.ReasonNoExecutor, Message: noExecutor(it)}}
		default:
			to := at{it.job.Def.App, it.run.Address}
			byAddress[to] = append(byAddress[to], it)
		}
	}
	return byAddress
}

// sendTo sends items to one address in order, as many at a time as its gate admits. Items that wait longer than
// gateWait are retried.
func (b *batch) sendTo(ctx context.Context, to at, items []*item, senders *sync.WaitGroup) {
	gate := b.d.gates.of(to)
	until := time.Now().Add(gateWait)
	awaited := isCall(to.address)
	var taken atomic.Int32
	next := func() *item {
		if i := int(taken.Add(1)); i <= len(items) {
			return items[i-1]
		}
		return nil
	}
	var work func()
	work = func() {
		for it := next(); it != nil; it = next() {
			p, err := gate.enter(ctx, until)
			if err != nil {
				b.letGo(it)
				if ctx.Err() == nil { // at the end of the invocation, putBackRest releases its claim
					b.set(it, passing{claimed: true, why: err})
				}
				continue
			}
			if !awaited {
				began, took := time.Now(), time.Duration(math.MaxInt64)
				for ; it != nil; it = next() {
					took = min(took, b.sendOne(ctx, it))
					if b.letGo(it); time.Since(began) >= placeFor {
						break
					}
				}
				p.leave(took)
				continue
			}
			// After gateFor, the next send may start while this call is still awaited.
			senders.Add(1)
			t := time.AfterFunc(gateFor, func() {
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

func noExecutor(it *item) string {
	if len(it.run.Tries) > 0 {
		return "no executor of " + it.job.Def.App + " answered"
	}
	return "no executor of " + it.job.Def.App + " is registered"
}

// mayBegin reports, directly before a send, whether it may start. It checks the claim and the deadline and waits for
// the due time and for a blocked journal.
func (b *batch) mayBegin(ctx context.Context, it *item) bool {
	for {
		if ctx.Err() != nil || !b.owns(b.d.o.Reserve) || b.left(it) <= b.d.o.Reserve {
			return false
		}
		early := it.fire.Slot.Time().Sub(b.now()) // the clock may have been set back since the hold
		if !b.blocked.Load() && early <= 0 {
			return true
		}
		if !store.Sleep(ctx, max(early, b.d.o.JournalEvery/10)) {
			return false
		}
	}
}

// left returns how long the claim of an item still allows work.
func (b *batch) left(it *item) time.Duration { return it.run.Until.Add(-untilAfter).Sub(b.now()) }

// sendOne sends one run. It tries further addresses while each proves not to have the run. It returns how long the last
// answer took.
func (b *batch) sendOne(ctx context.Context, it *item) time.Duration {
	limited := ctx
	if d, set := ctx.Deadline(); set {
		// A long call is abandoned while there is time to store that in the journal.
		if own := time.Now().Add(b.left(it)); own.Before(d) {
			d = own
		}
		var cancel context.CancelFunc
		limited, cancel = context.WithDeadline(ctx, d.Add(-b.d.o.Reserve*3/4))
		defer cancel()
	}
	params, err := it.params()
	source := ""
	if err == nil && it.job.Def.Script != nil {
		source, err = b.d.scripts.read(limited, b.d.store, &it.job.Def)
		if !errors.Is(err, errNoSource) && err != nil {
			b.set(it, passing{claimed: true, why: err})
			return 0
		}
	}
	switch {
	case err != nil && it.run.MaybeSent: // which proves nothing about the first send
		b.set(it, settled(core.Unconfirmed))
		return 0
	case err != nil:
		b.set(it, ended{Answer{State: core.Failed, Reason: core.ReasonNotAccepted, Message: "not sent: " + err.Error()}})
		return 0
	}
	for {
		if !b.mayBegin(ctx, it) {
			b.set(it, passing{claimed: true, why: errNotBegun}) // nothing was sent, so it does not wait for other calls of the batch
			return 0
		}
		sentAt, began := b.now(), time.Now()
		a := b.d.sender.Send(limited, SendRequest{Run: it.run, Job: it.job, App: it.app, Address: it.run.Address,
			Dialect: b.dialects[at{it.app.Name, it.run.Address}], Params: params, Source: source})
		// An answer that the end of the invocation cut off did not come in time either.
		a.TimedOut = a.TimedOut || a.Kind == AnswerUnconfirmed && errors.Is(limited.Err(), context.DeadlineExceeded)
		if b.d.o.SlowQueue { // jobName allocates
			b.d.health.note(&a, b.now(), it.run.Address, jobName(it.fire.Run.Job()))
		}
		if a.Ours {
			b.d.wants(it.run.Address, a.Message, "run", it.fire.Run, "job", it.fire.Run.Job(), "scheduledAt", it.fire.At)
		}
		if b.d.o.Sent != nil {
			b.d.o.Sent(it.run, sentAt, &a)
		}
		p := sent(&a, it.run.MaybeSent, len(it.order) > 1)
		b.keepAnswer(it, &a, p)
		if p == (moves{}) {
			if p = b.moveOn(ctx, it, &a); p == (ours{}) {
				continue
			}
		}
		b.set(it, p)
		switch a.Kind {
		case AnswerAccepted:
			b.trace(ctx, it, &a)
		case AnswerEnded:
			return time.Since(began) // an awaited call occupies its place until it ends
		}
		return a.Took
	}
}

// keepAnswer keeps an answer that neither accepted nor ended the run, to store it in the journal or when the claim is
// released. It logs one line per kind of answer and minute.
func (b *batch) keepAnswer(it *item, a *Answer, p phase) {
	if a.Ours || a.Kind == AnswerAccepted || a.Kind == AnswerRepeat || a.Kind == AnswerEnded || a.Kind == AnswerBlocked {
		return
	}
	if _, moved := p.(moves); !moved {
		b.mu.Lock()
		it.answer = core.CutAnswer(a.Message)
		b.mu.Unlock()
	}
	line := &b.d.answers[a.Kind]
	line.times.Add(1)
	if minute := b.now().Unix() / 60; line.minute.Swap(minute) != minute {
		b.d.o.Log.Warn("send not accepted", "answer", a.Kind.String(), "times", line.times.Swap(0), "app", it.app.Name,
			"address", it.run.Address, "run", it.fire.Run, "job", it.fire.Run.Job(), "err", core.CutAnswer(a.Message))
	}
}

// moveOn moves the claim to the next address before anything is sent there.
func (b *batch) moveOn(ctx context.Context, it *item, a *Answer) phase {
	it.run.Tries = append(it.run.Tries, core.Try{Address: it.run.Address, Code: a.Code, Message: a.Message})
	if !b.inTime(b.d.o.Reserve) {
		return passing{claimed: true, why: errNotBegun}
	}
	move := it.run.Readdress(it.order[1], it.run.Tries)
	err := b.d.store.ChangeRuns(ctx, []core.RunPut{move})[0]
	var stored map[core.RunID]*core.Run
	if answerOf(err) == unknown {
		stored, _ = store.Complete(readAll(ctx, []core.RunID{move.ID}, b.d.store.Runs.Get))
	}
	p := failover(err, &move, stored[move.ID])
	if p == (ours{}) {
		b.mu.Lock()
		it.run.Address, it.order = move.To.Address, it.order[1:]
		b.mu.Unlock()
	}
	return p
}

// trace stores on the run the executor's request ID and log location. The run works without them, so errors are only
// logged. It does not change a run that has ended.
func (b *batch) trace(ctx context.Context, it *item, a *Answer) {
	if a.Request == "" || !b.inTime(b.d.o.Reserve) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, b.d.o.Reserve)
	defer cancel()
	tries := append(slices.Clone(it.run.Tries), core.Try{Address: it.run.Address, Code: a.Code, Request: a.Request, Log: a.Log})
	err := b.d.store.ChangeRuns(ctx, []core.RunPut{it.run.Readdress(it.run.Address, tries)})[0]
	if answerOf(err) > refused {
		b.d.o.Log.Info("log location of a run not stored", "run", it.fire.Run, "job", it.fire.Run.Job(), "request", a.Request, "err", err)
	}
}
