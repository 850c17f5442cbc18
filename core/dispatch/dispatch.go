// Package dispatch brings fires from the ring to executors: it holds until
// the slot, reads, judges, claims, routes, sends, journals and says what may be
// acked. Every step and what each answer leads to is docs/internals/claim-protocol.md, whose
// tables are tables.go. It refuses to send without a
// claim, and to ack what is not settled in a store.
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

// Options of a Dispatcher. The zero value of a field means its default.
type Options struct {
	Now func() time.Time
	// Nonce makes a fresh owner for every invocation; never the same twice.
	Nonce func() string
	// OwnerDead reports that an owner can no longer send although its until is
	// to come: on one machine, an owner of an earlier process.
	OwnerDead func(owner string) bool
	// Invocation is how long one may last where its context sets no deadline;
	// awaited calls lengthen it.
	Invocation time.Duration // 30 s
	// Reserve is how long before its deadline an invocation stops beginning sends.
	Reserve time.Duration // 2 s
	// JournalEvery is how long answers wait for the journal while sends are open.
	JournalEvery time.Duration // 250 ms
	// BackoffMin doubles up to BackoffMax between tries of a fire that failed for a passing reason.
	BackoffMin, BackoffMax time.Duration // 1 s, 60 s
	// WaitLook is the longest wait, and a quarter of it more, between two looks of a fire
	// that waits for an executor.
	WaitLook time.Duration // 12 s
	// TellFor is how long the claims of a batch wait at most until it is on its way that
	// people are told of some of them: those come again if it is not by then.
	TellFor time.Duration // 1 s
	// Expiry is how long an executor counts as live after its last heartbeat.
	Expiry time.Duration // 90 s
	// CallTimeout is how long a call: is awaited whose job has no timeout.
	CallTimeout time.Duration // 60 s
	// Behind is how long the watchdog stays behind the minutes of claims.
	Behind time.Duration // 10 min
	// TimeoutGrace is how long after a job's timeout its run is looked at.
	TimeoutGrace time.Duration // 5 s
	// MaxAhead is the longest wait on the ring.
	MaxAhead time.Duration // 895 s
	// HoldAhead is how early a fire is taken in hand; what is further away goes back on the ring.
	// The longest lead time of a message and the second by which a queue brings it too early.
	HoldAhead time.Duration // 11 s
	// Health is what dispatchers tell each other of slow jobs and addresses, whose
	// fires go on the slow lane. nil: there is no slow lane, which is right where
	// one process keeps them apart by itself.
	Health Healths
	// Uses is what dispatchers tell each other of the addresses that lfu chose, once in
	// UsesEvery at most. nil: there is no other, or none is told.
	Uses      Uses
	UsesEvery time.Duration // 10 s
	// Lists says that the store lists runs by the journals that name them. Journals then also name runs that need no watchdog.
	Lists bool
	// A job or an address is slow that answered later than SlowAfter more than
	// SlowCount times within SlowWithin, or not at all SlowTimeouts times in a row.
	// One answer in ProbeEvery says whether it still is.
	SlowAfter    time.Duration // 500 ms
	SlowCount    int           // 10
	SlowWithin   time.Duration // 60 s
	SlowTimeouts int           // 3
	ProbeEvery   time.Duration // 60 s
	// HealthEvery is how often it is read and published at most.
	HealthEvery time.Duration // 5 s
	// SendsMin and SendsMax bound the sends under way to one address of an app. An
	// awaited call counts for its address for GateFor; what waits for its turn longer
	// than GateWait comes again.
	SendsMin, SendsMax int           // 32, 512
	GateFor            time.Duration // 3 s
	GateWait           time.Duration // 10 s
	// AskFor bounds all that a batch asks of addresses before it chooses. After AskNext
	// without an answer the next is asked beside. What one said holds for AskAgain;
	// one that was silent is asked again after AskSilent.
	AskFor, AskNext     time.Duration // 3 s, 100 ms
	AskAgain, AskSilent time.Duration // 1 s, 10 s
	// SendsAll bounds all that have no answer yet, InHand the fires that are claimed,
	// or wait for what addresses say before, and have none, InLine those that wait
	// for a place among them, for GateWait. Of each an app may have as many as are free.
	SendsAll, InHand, InLine int // 2048, 8192, 131072
	Log                      *slog.Logger
	// Sent is called with each send that has an answer; it must not block.
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

// Dispatcher handles messages of fires.
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

	underWay sync.Map     // owners that are invocations of this Dispatcher
	wanted   atomic.Int64 // the minute in which it was said last that something is wanting here
	// answers counts sends that were not accepted since the last log line, by kind.
	answers [AnswerEnded + 1]struct{ minute, times atomic.Int64 }
}

// New makes a Dispatcher.
func New(store Store, r Ring, sender Sender, f *finish.Finish, o Options) *Dispatcher {
	o.defaults()
	d := &Dispatcher{store: store, ring: r, sender: sender, finish: f, o: o, plans: newSchedules(),
		waits: waits{out: map[core.RunID]awaiting{}}, scripts: sources{of: map[string]*source{}}}
	d.health, d.gates = newHealths(&d.o), newGates(&d.o)
	d.uses = newUses(&d.o)
	d.probes = newProbes(&d.o)
	return d
}

// Verdict says what becomes of a message.
type Verdict struct {
	Ack bool
	// RetryAt is when an unacked message should come again; zero: whenever the
	// queue brings it.
	RetryAt time.Time
	Err     error // why it is not acked
}

// Handle dispatches a batch of messages of kind fires, and answers for each
// whether it may be acked. Several slots in one batch go slot by slot, each
// held until its second; what is further away than HoldAhead goes back on the
// ring. It returns when every send has an answer or the deadline has come.
func (d *Dispatcher) Handle(ctx context.Context, msgs []ring.Message) []Verdict {
	return d.HandleFreeing(ctx, msgs, func() {})
}

// HandleFreeing is Handle for who has a bounded number of places for batches: it
// calls free once, as soon as nothing of the batch is left to do but to wait for
// executors. What waits so is bounded by the options, and one app's costs no other
// app anything.
func (d *Dispatcher) HandleFreeing(ctx context.Context, msgs []ring.Message, free func()) []Verdict {
	verdicts := make([]Verdict, len(msgs))
	bySlot := map[core.Instant][]int{}
	d.health.sync(ctx, d.o.Now())
	defer func() { d.health.sync(ctx, d.o.Now()); d.uses.tell(ctx, d.o.Now()) }()
	now := core.InstantOf(d.o.Now())
	for i, m := range msgs {
		slot := max(m.Slot, now) // what is past or of this second goes together
		bySlot[slot] = append(bySlot[slot], i)
	}
	var slots sync.WaitGroup
	var busy atomic.Int32 // slots that are not free
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

// slot handles the messages of one slot: one invocation with a nonce of its own.
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

// wants says, once a minute, that sends wait for what this process or its machine lacks.
func (d *Dispatcher) wants(address, why string, of ...any) {
	if minute := d.o.Now().Unix() / 60; d.wanted.Swap(minute) != minute {
		d.o.Log.Error("sends wait: descriptors, ports or memory are wanting here", append(of, "address", address, "err", why)...)
	}
}

// lives reports that an owner is under way here. Its until may be past all the
// same: the clock was set, or the machine slept, and a call is awaited still.
func (d *Dispatcher) lives(owner string) bool {
	_, is := d.underWay.Load(owner)
	return is
}

// hold waits until the slot by this process's clock, which may be set meanwhile.
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

// putOff puts messages that are far ahead back on the ring with a new delay.
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

// backoff is the wait before try n (from 1) of a fire that failed for a
// passing reason, spread so that what failed together does not return together.
func (d *Dispatcher) backoff(try int, most time.Duration) time.Duration {
	w := min(d.o.BackoffMin<<min(try-1, 16), most)
	return w + mathrand.N(w/4+1)
}

// distinct sorts and dedupes.
func distinct[T ~int32 | ~int64 | ~string](s []T) []T {
	slices.Sort(s)
	return slices.Compact(s)
}
