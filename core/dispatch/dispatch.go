// Package dispatch takes scheduled runs from the delay queue and sends them to executors. For each message it waits
// until the due time, reads the job, chooses an address, claims the run, sends it and writes the journal. Then it
// acknowledges the message. docs/internals/claim-protocol.md describes every step and every answer; tables.go holds its
// tables. The package never sends a run that it has not claimed, and never acknowledges a message before a store has
// its result.
package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// Options configure a Dispatcher. A field with its zero value gets the default in its comment.
type Options struct {
	Now func() time.Time
	// Nonce returns the owner name of an invocation; it must never return a name twice.
	Nonce func() string
	// OwnerDead reports whether an owner can no longer send although its claim has not expired. On one machine, these
	// are the owners of earlier processes.
	OwnerDead func(owner string) bool
	// Invocation is the maximum duration of a batch whose context has no deadline. Calls whose answer is awaited extend this
	// duration.
	Invocation time.Duration // 30 s
	// Reserve is how long before its deadline an invocation stops starting sends.
	Reserve time.Duration // 2 s
	// JournalEvery is the interval between two writes of the journal while sends are open.
	JournalEvery time.Duration // 250 ms
	// BackoffMin is the delay before the first retry after a temporary failure. It doubles up to BackoffMax.
	BackoffMin, BackoffMax time.Duration // 1 s, 60 s
	// WaitLook is the maximum interval between two checks of a run that waits for an executor. A random part of up to a
	// quarter is added.
	WaitLook time.Duration // 12 s
	// TellFor is the time limit for enqueueing the notifications of a batch. Claims whose notifications exceed the limit are
	// retried later.
	TellFor time.Duration // 1 s
	// Expiry is how long an executor counts as live after its last heartbeat.
	Expiry time.Duration // 90 s
	// CallTimeout is the timeout of a `call:` run if its job sets none.
	CallTimeout time.Duration // 60 s
	// Behind is how long the watchdog waits before it reads the journals of a minute.
	Behind time.Duration // 10 min
	// TimeoutGrace is the delay between the timeout of a run and the check of that run.
	TimeoutGrace time.Duration // 5 s
	// MaxAhead is the maximum delay of a message on the delay queue.
	MaxAhead time.Duration // 895 s
	// HoldAhead is how long before the due time a run is accepted. Earlier messages are enqueued again. It covers the
	// longest lead time of a message plus the second by which a queue may deliver early.
	HoldAhead time.Duration // 11 s
	// Health shares between dispatchers which jobs and addresses are slow. Runs of slow jobs and addresses use the slow
	// queue. nil disables the slow queue, as in a single process.
	Health Healths
	// Uses shares between dispatchers how often the route lfu chose each address, at most once per UsesEvery. nil:
	// nothing is shared.
	Uses      Uses
	UsesEvery time.Duration // 10 s
	// Lists reports whether the store finds runs by journal. Journals then also name runs that need no watchdog.
	Lists bool
	// A job or address becomes slow after more than SlowCount answers that took longer than SlowAfter within
	// SlowWithin, or after SlowTimeouts timeouts in a row. One answer per ProbeEvery decides whether it stays slow.
	SlowAfter    time.Duration // 500 ms
	SlowCount    int           // 10
	SlowWithin   time.Duration // 60 s
	SlowTimeouts int           // 3
	ProbeEvery   time.Duration // 60 s
	// HealthEvery is the minimum interval between two reads or two writes of Health.
	HealthEvery time.Duration // 5 s
	// SendsMin and SendsMax bound the concurrent sends to one address of an app. An awaited call counts against its address
	// for GateFor. A send that waits longer than GateWait is retried with a new message.
	SendsMin, SendsMax int           // 32, 512
	GateFor            time.Duration // 3 s
	GateWait           time.Duration // 10 s
	// AskFor limits how long a batch asks addresses before it chooses one. Without an answer after AskNext, the next
	// address is asked in parallel. An answer stays valid for AskAgain; an address that did not answer is asked again
	// after AskSilent.
	AskFor, AskNext     time.Duration // 3 s, 100 ms
	AskAgain, AskSilent time.Duration // 1 s, 10 s
	// SendsAll limits the sends without an answer. InHand limits the runs that are claimed or being asked for. InLine limits
	// the runs that wait, for up to GateWait, to be among InHand. An app may use at most as many places of each as are free.
	SendsAll, InHand, InLine int // 2048, 8192, 131072
	Log                      *slog.Logger
	// Sent is called for each send that has an answer; it must not block.
	Sent func(r *core.Run, at time.Time, a *Answer)
}

func (o *Options) defaults() {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Nonce == nil {
		o.Nonce = rand.Text
	}
	if o.OwnerDead == nil {
		o.OwnerDead = func(string) bool { return false }
	}
	o.Invocation = cmp.Or(o.Invocation, 30*time.Second)
	o.Reserve = cmp.Or(o.Reserve, 2*time.Second)
	o.TellFor = cmp.Or(o.TellFor, time.Second)
	o.JournalEvery = cmp.Or(o.JournalEvery, 250*time.Millisecond)
	o.BackoffMin = cmp.Or(o.BackoffMin, time.Second)
	o.BackoffMax = cmp.Or(o.BackoffMax, time.Minute)
	o.WaitLook = cmp.Or(o.WaitLook, 12*time.Second)
	o.Expiry = cmp.Or(o.Expiry, 90*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Minute)
	o.Behind = cmp.Or(o.Behind, 10*time.Minute)
	o.TimeoutGrace = cmp.Or(o.TimeoutGrace, 5*time.Second)
	o.MaxAhead = cmp.Or(o.MaxAhead, 895*time.Second)
	o.HoldAhead = cmp.Or(o.HoldAhead, 11*time.Second)
	o.SlowAfter = cmp.Or(o.SlowAfter, 500*time.Millisecond)
	o.SlowCount = cmp.Or(o.SlowCount, 10)
	o.SlowWithin = cmp.Or(o.SlowWithin, time.Minute)
	o.SlowTimeouts = cmp.Or(o.SlowTimeouts, 3)
	o.ProbeEvery = cmp.Or(o.ProbeEvery, time.Minute)
	o.HealthEvery = cmp.Or(o.HealthEvery, 5*time.Second)
	o.UsesEvery = cmp.Or(o.UsesEvery, 10*time.Second)
	o.SendsMin = cmp.Or(o.SendsMin, 32)
	o.SendsMax = cmp.Or(o.SendsMax, 512)
	o.GateFor = cmp.Or(o.GateFor, 3*time.Second)
	o.GateWait = cmp.Or(o.GateWait, 10*time.Second)
	o.AskFor = cmp.Or(o.AskFor, 3*time.Second)
	o.AskNext = cmp.Or(o.AskNext, 100*time.Millisecond)
	o.AskAgain = cmp.Or(o.AskAgain, time.Second)
	o.AskSilent = cmp.Or(o.AskSilent, 10*time.Second)
	o.SendsAll = cmp.Or(o.SendsAll, 2048)
	o.InHand = cmp.Or(o.InHand, 8192)
	o.InLine = cmp.Or(o.InLine, 1<<17)
	o.Log = cmp.Or(o.Log, slog.Default())
}

// A Dispatcher sends the runs that messages of the delay queue carry.
type Dispatcher struct {
	store   Store
	ring    Ring
	sender  Sender
	finish  *finish.Finish
	o       Options
	gates   *gates
	plans   *schedules
	health  *healths
	probes  *probes
	uses    *uses
	waits   waits
	scripts sources
	looked  looked

	underWay sync.Map     // owners that are running invocations of this Dispatcher
	wanted   atomic.Int64 // the minute of the last log line about missing local resources
	// answers counts, by kind, the sends that were not accepted since the last log line.
	answers [AnswerEnded + 1]struct{ minute, times atomic.Int64 }
}

// New returns a Dispatcher.
func New(store Store, r Ring, sender Sender, f *finish.Finish, o Options) *Dispatcher {
	o.defaults()
	d := &Dispatcher{store: store, ring: r, sender: sender, finish: f, o: o, plans: newSchedules(),
		waits: waits{out: map[core.RunID]awaiting{}}, scripts: sources{of: map[string]*source{}}}
	d.health, d.gates = newHealths(&d.o), newGates(&d.o)
	d.uses = newUses(&d.o)
	d.probes = newProbes(&d.o)
	return d
}

// A Verdict is the result of handling one message.
type Verdict struct {
	Ack bool
	// RetryAt is when an unacknowledged message should be delivered again; zero: at the queue's own time.
	RetryAt time.Time
	Err     error // why it is not acked
}

// Handle dispatches a batch of messages of kind fires and reports for each message whether it may be acknowledged. It
// handles the due times of a batch separately and waits until each is reached. Messages due later than HoldAhead are
// enqueued again. Handle returns when every send has an answer or the deadline is reached.
func (d *Dispatcher) Handle(ctx context.Context, msgs []ring.Message) []Verdict {
	return d.HandleFreeing(ctx, msgs, func() {})
}

// HandleFreeing is Handle for callers that limit concurrent batches. It calls free once, when the batch only waits for
// executors. The options limit these waits, so one app cannot delay the runs of another app.
func (d *Dispatcher) HandleFreeing(ctx context.Context, msgs []ring.Message, free func()) []Verdict {
	verdicts := make([]Verdict, len(msgs))
	bySlot := map[core.Instant][]int{}
	d.health.sync(ctx, d.o.Now())
	defer func() { d.health.sync(ctx, d.o.Now()); d.uses.tell(ctx, d.o.Now()) }()
	now := core.InstantOf(d.o.Now())
	for i, m := range msgs {
		slot := max(m.Slot, now) // overdue messages and messages due in this second are handled together
		bySlot[slot] = append(bySlot[slot], i)
	}
	var slots sync.WaitGroup
	var busy atomic.Int32 // due times that have not called freed
	busy.Store(int32(len(bySlot)))
	for slot, idx := range bySlot {
		freed := sync.OnceFunc(func() {
			if busy.Add(-1) == 0 {
				free()
			}
		})
		if len(bySlot) == 1 {
			d.slot(ctx, slot, msgs, idx, verdicts, freed)
			break
		}
		slots.Go(func() { d.slot(ctx, slot, msgs, idx, verdicts, freed) })
	}
	slots.Wait()
	return verdicts
}

// slot handles the messages of one due time as one invocation with its own nonce.
func (d *Dispatcher) slot(ctx context.Context, slot core.Instant, msgs []ring.Message, idx []int, verdicts []Verdict, freed func()) {
	defer freed()
	if wait := slot.Time().Sub(d.o.Now()); wait > d.o.HoldAhead {
		d.putOff(ctx, slot, msgs, idx, verdicts)
		return
	}
	if err := d.hold(ctx, slot); err != nil {
		for _, i := range idx {
			verdicts[i] = Verdict{RetryAt: slot.Time(), Err: err}
		}
		return
	}
	b := newBatch(d, msgs, idx)
	d.underWay.Store(b.nonce, true)
	defer d.underWay.Delete(b.nonce)
	b.run(ctx, freed)
	b.verdicts(verdicts)
}

// wants logs, at most once a minute, that sends wait for resources missing on this machine.
func (d *Dispatcher) wants(address, why string, of ...any) {
	if minute := d.o.Now().Unix() / 60; d.wanted.Swap(minute) != minute {
		d.o.Log.Error("sends delayed: not enough descriptors, ports or memory", append(of, "address", address, "err", why)...)
	}
}

// lives reports whether an owner is an invocation running in this process. Its claim may have expired: the clock was
// set, or the machine slept while a call was awaited.
func (d *Dispatcher) lives(owner string) bool {
	_, is := d.underWay.Load(owner)
	return is
}

// hold waits until the due time by this process's clock, which may be set during the wait.
func (d *Dispatcher) hold(ctx context.Context, slot core.Instant) error {
	for {
		wait := slot.Time().Sub(d.o.Now())
		if wait <= 0 {
			return ctx.Err()
		}
		if !sleep(ctx, min(wait, time.Second)) {
			return ctx.Err()
		}
	}
}

// putOff enqueues messages that are due much later again, with a new delay.
func (d *Dispatcher) putOff(ctx context.Context, slot core.Instant, msgs []ring.Message, idx []int, verdicts []Verdict) {
	at := slot.Time()
	if limit := d.o.Now().Add(d.o.MaxAhead); at.After(limit) {
		at = limit
	}
	out := make([]ring.Out, len(idx))
	for k, i := range idx {
		out[k] = ring.Out{NotBefore: at, Message: msgs[i]}
	}
	for k, err := range d.ring.Enqueue(ctx, out) {
		verdicts[idx[k]] = Verdict{Ack: err == nil, RetryAt: at, Err: err}
	}
}

// backoff returns the delay before try n (from 1) after a temporary failure. It is random, so that runs that failed
// together are not retried together.
func (d *Dispatcher) backoff(try int, most time.Duration) time.Duration {
	w := min(d.o.BackoffMin<<min(try-1, 16), most)
	return w + mathrand.N(w/4+1)
}

// distinct sorts s and removes duplicates.
func distinct[T ~int32 | ~int64 | ~string](s []T) []T {
	slices.Sort(s)
	return slices.Compact(s)
}
