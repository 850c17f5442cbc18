// Package dispatch takes scheduled runs from the delay queue and sends them to executors. For each message, it waits until the
// due time, reads the job, chooses an address, claims the run, sends it and writes the journal. Then it acknowledges the
// message. The package never sends a run that it has not claimed. The package acknowledges a message only after a store has
// saved the result.
//
// docs/internals/claim-protocol.md describes every step and every possible response. tables.go has the tables of that page.
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
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// Options of a Dispatcher. A field with its zero value gets the default in its comment.
type Options struct {
	Now func() time.Time
	// Nonce returns a unique owner name for an invocation. Nonce must never return a name twice.
	Nonce func() string
	// OwnerDead reports whether an owner cannot send any more, although its claim has not expired. On one machine, this is
	// true for the owners of earlier processes. nil: no owner counts as dead.
	OwnerDead func(owner string) bool
	// Invocation is the maximum duration of a batch whose context has no deadline. Calls whose result the batch awaits extend
	// this duration.
	Invocation time.Duration // default: 30 s
	// Reserve is how long before its deadline an invocation stops starting new sends.
	Reserve time.Duration // default: 2 s
	// JournalEvery is the interval between two writes of the journal while sends wait for a response.
	JournalEvery time.Duration // default: 250 ms
	// BackoffMin is the delay before the first retry after a temporary failure. Each further delay doubles, up to BackoffMax.
	BackoffMin, BackoffMax time.Duration // defaults: 1 s and 60 s
	// Expiry is how long after its last heartbeat an executor counts as live.
	Expiry time.Duration // default: 90 s
	// CallTimeout is the timeout of a run at a `call:` address if its job sets no timeout.
	CallTimeout time.Duration // default: 60 s
	// Behind is how long after the end of a minute the watchdog reads the journals of that minute.
	Behind time.Duration // default: 10 min
	// TimeoutGrace is the delay between the timeout of a run and the check whether the run is still open.
	TimeoutGrace time.Duration // default: 5 s
	// MaxAhead is the maximum delay of a message on the delay queue.
	MaxAhead time.Duration // default: 895 s
	// SlowQueue reports whether the deployment has a slow queue. Dispatchers share which jobs and addresses are slow, and runs
	// of slow jobs and addresses use the slow queue. A single process does not need it.
	SlowQueue bool
	// A job or an address becomes slow in two cases. In the first, more than SlowCount responses within SlowWithin took longer
	// than half a second. In the second, SlowTimeouts consecutive sends timed out. One response per ProbeEvery decides whether
	// it stays slow.
	SlowCount    int           // default: 10
	SlowWithin   time.Duration // default: 60 s
	SlowTimeouts int           // default: 3
	ProbeEvery   time.Duration // default: 60 s
	// HealthEvery is the minimum interval between two reads of the slow jobs and addresses, and between two writes.
	HealthEvery time.Duration // default: 5 s
	// SendsMin and SendsMax are the minimum and maximum of the limit on concurrent sends to one address of an app. The limit
	// follows the measured response time.
	SendsMin, SendsMax int // defaults: 32 and 512
	// SendsAll is the maximum number of sends without a response. InHand is the maximum number of runs that are claimed, or
	// whose addresses are being asked. InLine is the maximum number of runs that wait, at most 10 s, until InHand has
	// room. An app can use at most half of each limit, so that the other half remains for other apps.
	SendsAll, InHand, InLine int // defaults: 2,048, 8,192 and 131,072
	Log                      *slog.Logger
	// Sent is called for each send that got a response. The function must not block. nil: no call.
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
	o.JournalEvery = cmp.Or(o.JournalEvery, 250*time.Millisecond)
	o.BackoffMin = cmp.Or(o.BackoffMin, time.Second)
	o.BackoffMax = cmp.Or(o.BackoffMax, time.Minute)
	o.Expiry = cmp.Or(o.Expiry, 90*time.Second)
	o.CallTimeout = cmp.Or(o.CallTimeout, time.Minute)
	o.Behind = cmp.Or(o.Behind, 10*time.Minute)
	o.TimeoutGrace = cmp.Or(o.TimeoutGrace, 5*time.Second)
	o.MaxAhead = cmp.Or(o.MaxAhead, 895*time.Second)
	o.SlowCount = cmp.Or(o.SlowCount, 10)
	o.SlowWithin = cmp.Or(o.SlowWithin, time.Minute)
	o.SlowTimeouts = cmp.Or(o.SlowTimeouts, 3)
	o.ProbeEvery = cmp.Or(o.ProbeEvery, time.Minute)
	o.HealthEvery = cmp.Or(o.HealthEvery, 5*time.Second)
	o.SendsMin = cmp.Or(o.SendsMin, 32)
	o.SendsMax = cmp.Or(o.SendsMax, 512)
	o.SendsAll = cmp.Or(o.SendsAll, 2048)
	o.InHand = cmp.Or(o.InHand, 8192)
	o.InLine = cmp.Or(o.InLine, 1<<17)
	o.Log = cmp.Or(o.Log, slog.Default())
}

// A Dispatcher sends the runs in the messages of the delay queue to executors.
type Dispatcher struct {
	store   *store.Store
	sender  Sender
	finish  *finish.Finish
	o       Options
	gates   *gates
	plans   schedules
	health  *healths
	probes  *probes
	uses    *uses
	scripts sources
	looked  looked

	underWay sync.Map     // owners that are running invocations of this Dispatcher
	wanted   atomic.Int64 // the minute of the last log line about missing local resources
	// answers counts, by kind, the sends that were not accepted since the last log line.
	answers [AnswerEnded + 1]struct{ minute, times atomic.Int64 }
}

// New returns a Dispatcher.
func New(s *store.Store, to Sender, f *finish.Finish, o Options) *Dispatcher {
	o.defaults()
	d := &Dispatcher{store: s, sender: to, finish: f, o: o, plans: schedules{seen: map[scheduleKey]*schedule.Schedule{}},
		scripts: sources{of: map[string]*source{}}}
	d.health, d.gates, d.uses, d.probes = &healths{s: s, o: &d.o, of: map[string]*pulse{}}, newGates(&d.o), newUses(s, &d.o), newProbes()
	return d
}

// A Verdict is the result of handling one message. Ack reports whether the message may be acknowledged.
type Verdict struct {
	Ack bool
	// RetryAt is when a message that is not acknowledged should be delivered again. Zero means the time that the queue sets.
	RetryAt time.Time
	Err     error // why the message is not acknowledged
}

// holdAhead is the maximum time that a run waits in a batch for its due time. If the due time is later, the run is enqueued
// again. It covers the longest lead time of a message and the second by which a queue may deliver early.
const holdAhead = 11 * time.Second

// Handle dispatches a batch of messages with runs and returns one verdict for each message. Handle handles each due time of
// the batch separately, and waits until the due time. If a message is due later than 11 s, its runs are enqueued again.
// Handle returns when every send has a response or the deadline is reached.
func (d *Dispatcher) Handle(ctx context.Context, msgs []ring.Message) []Verdict {
	return d.HandleFreeing(ctx, msgs, func() {})
}

// HandleFreeing does what Handle does, for callers that limit the number of concurrent batches. It calls free once, when the
// batch only waits for executors and need not count against the limit. [Options] bounds these waits, so that one app cannot
// delay the runs of another app.
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
	far, err := d.hold(ctx, slot)
	if far {
		d.putOff(ctx, slot, msgs, idx, verdicts)
		return
	}
	if err != nil {
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

// wants, at most once a minute, logs that sends wait for missing local resources.
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

// hold waits until the due time by this process's clock, which may be set during the wait. It reports whether the due time is
// further away than holdAhead.
func (d *Dispatcher) hold(ctx context.Context, slot core.Instant) (far bool, err error) {
	for {
		wait := slot.Time().Sub(d.o.Now())
		if far = wait > holdAhead; far || wait <= 0 || !store.Sleep(ctx, min(wait, time.Second)) {
			return far, ctx.Err()
		}
	}
}

// putOff re-enqueues messages that are due much later, with a new delay.
func (d *Dispatcher) putOff(ctx context.Context, slot core.Instant, msgs []ring.Message, idx []int, verdicts []Verdict) {
	at := slot.Time()
	if limit := d.o.Now().Add(d.o.MaxAhead); at.After(limit) {
		at = limit
	}
	out := make([]ring.Out, len(idx))
	for k, i := range idx {
		out[k] = ring.Out{NotBefore: at, Message: msgs[i]}
	}
	for k, err := range d.store.Queue.Enqueue(ctx, out) {
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
