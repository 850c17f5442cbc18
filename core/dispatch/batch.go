package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// An item is one run of a batch, merged from all messages that carry it.
type item struct {
	fire     core.Fire
	others   []core.Fire // copies with another due time, after a trigger was moved
	recorded bool        // its record was written before its message was enqueued
	msgs     []int       // indexes of the messages that carry it
	try      int
	unread   int       // number of failed reads of its job or app in a row
	slow     bool      // it came from the slow queue and stays there
	hint     bool      // only hints carry it here; its own message is elsewhere
	of       *core.Run // broadcast of a shard
	job      *core.Job
	app      *core.App
	tell     *core.Notify // notification settings; nil: none
	falls    falls
	reason   core.Reason // why it is skipped
	phase    phase
	run      *core.Run    // the run as claimed or read; before that, &noRun
	named    bool         // the watchdog will read a journal that names it: one stored in time, or announced
	wrote    core.Outcome // core.Done: this invocation claimed its run; core.Recorded: it made the record without a claim
	unsure   bool         // a write of its run had an unknown answer, and may still arrive
	listed   bool         // a stored journal names it with the outcome in wrote
	unlisted bool         // lists may lack it, and no other message carries it
	onward   bool         // a new message carries it
	held     bool         // it counts against Options.InHand
	awaited  bool         // its send is a call: whose answer is awaited
	ending   bool         // its result is being stored
	answer   string       // the last answer, if that neither accepted nor ended the run
	order    []string     // addresses to try, the claimed one first
	choice   choice       // result of asking addresses, if the route asks
	success  core.Instant // scheduled time of the job's last success, if its template uses it
	lost     *core.RunPut // its write as skipped, if the answer to that was lost
}

// A batch is one invocation: one nonce, one deadline, one journal.
type batch struct {
	d        *Dispatcher
	idx      []int
	nonce    string
	began    time.Time // by the monotonic clock, as deadline is
	deadline time.Time // all work ends by it
	until    time.Time // this process sends nothing after it; wall clock, since other processes compare it
	key      core.JournalKey
	items    []*item
	live     map[string][]string // addresses by app
	silent   map[at]bool         // queues that executors polled before and no longer poll
	dialects map[at]string       // dialects that executors registered
	outage   bool                // executors may be missing only because this server was down
	longest  time.Duration       // longest timeout of an awaited call:; 0: no call

	mu      sync.Mutex   // guards phases and items while sends are open, and the fields below
	over    []core.Entry // entries of items that thin removed
	of      map[int]bool // messages that carried the removed items
	v       int
	stored  bool            // the last journal written is stored
	dirty   bool            // there are answers that no journal has
	late    []finish.Result // results of calls that could not be stored in time
	blocked atomic.Bool     // the journal is not stored, so no further send starts
}

// noRun is the run of every item that has none. It is never modified.
var noRun core.Run

// at is an address and its app.
type at struct{ app, address string }

func newBatch(d *Dispatcher, msgs []ring.Message, idx []int) *batch {
	b := &batch{d: d, idx: idx, nonce: d.o.Nonce(), began: time.Now(), of: map[int]bool{}}
	b.key = core.NewJournalKey(b.nonce, d.o.Now())
	byRun := make(map[core.RunID]*item, len(idx)*ring.MaxFires)
	for _, i := range idx {
		for _, f := range msgs[i].Fires {
			it := byRun[f.Run]
			if it == nil {
				_, planned := f.Run.Planned()
				it = &item{fire: f, recorded: !planned && f.Of == 0, run: &noRun, phase: undecided{}, hint: true}
				byRun[f.Run] = it
				b.items = append(b.items, it)
			} else if f.Rev > it.fire.Rev {
				// The copy with the newest rev decides: no copy is newer than the job.
				it.fire = f
			} else if f.Slot != it.fire.Slot {
				it.others = append(it.others, f)
			}
			it.slow, it.try, it.unread = it.slow || msgs[i].Slow, max(it.try, msgs[i].Try), max(it.unread, msgs[i].Unread)
			it.hint = it.hint && msgs[i].Hint
			if n := len(it.msgs); n == 0 || it.msgs[n-1] != i {
				it.msgs = append(it.msgs, i)
			}
		}
	}
	return b
}

// run takes the batch through all steps. It calls free when the batch only waits for executors. The deadline is that in
// ctx; without one, it is Options.Invocation from now.
func (b *batch) run(ctx context.Context, free func()) {
	deadline, own := ctx.Deadline()
	if !own {
		deadline = time.Now().Add(b.d.o.Invocation)
	}
	b.ends(deadline)
	read, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()

	b.read(read)
	if !own && b.longest > 0 {
		cancel()
		deadline = time.Now().Add(max(b.d.o.Invocation, b.longest+b.d.o.Reserve+time.Second))
		b.ends(deadline)
	}
	work, cancel2 := context.WithDeadline(ctx, deadline)
	defer cancel2()
	writes, cancel3 := b.writes(work)
	defer cancel3()
	var asks map[string][]*item
	asks, b.items = b.asking(b.items)
	limited := b.limited()
	b.claim(work, b.items)
	b.sendAll(work, writes, asks, limited, free)
	b.finalJournal(work)
	b.checks(writes, b.items)
	b.putBackRest(writes)
	b.list(writes)
	until := b.deadline.Add(-b.d.o.Reserve / 2)
	if !own { // this process goes on after the batch
		until = time.Now().Add(budget.CloseFor)
	}
	late, cancel4 := context.WithDeadline(ctx, until)
	defer cancel4()
	b.closeLate(late)
}

// writes returns the context for the writes after a send. A stop of the process cancels work, but the writes of its last
// answers go on for half of Reserve. They end at the deadline like work, which ends its sends early enough for them.
func (b *batch) writes(work context.Context) (context.Context, context.CancelFunc) {
	writes, cancel := context.WithDeadline(context.WithoutCancel(work), b.deadline)
	stop := context.AfterFunc(work, func() { time.AfterFunc(b.d.o.Reserve/2, cancel) })
	return writes, func() { stop(); cancel() }
}

func (b *batch) now() time.Time { return b.d.o.Now() }

// ends sets the deadline. A change of the wall clock does not move it; other processes compare until with their own wall clocks.
func (b *batch) ends(deadline time.Time) {
	left := time.Until(deadline)
	b.deadline = time.Now().Add(left)
	b.until = b.now().Add(left + untilAfter).Round(0)
}

// untilAfter is how long claims outlive the deadline of their invocation.
const untilAfter = time.Second

// inTime reports whether the deadline is further away than margin. If so, there is time to store and release, whatever
// the wall clock shows.
func (b *batch) inTime(margin time.Duration) bool { return time.Until(b.deadline) > margin }

// owns reports whether both the deadline and, by the wall clock, until are further away than margin. After until, other
// invocations may take the claims, so nothing more is claimed or sent.
func (b *batch) owns(margin time.Duration) bool {
	return b.inTime(margin) && b.now().Before(b.until.Add(-untilAfter-margin))
}

// claimed returns the claim of a run of this invocation. If a long call extends the invocation, other runs still get a
// claim of normal duration: a crash would block them until it expires.
func (b *batch) claimed(it *item) core.Claim {
	c := core.Claim{Owner: b.nonce, Until: b.until, Journal: b.key}
	if b.longest > 0 && !it.awaited {
		if own := b.now().Add(b.d.o.Invocation + untilAfter).Round(0); own.Before(c.Until) {
			c.Until = own
		}
	}
	return c
}

// set changes the phase of an item while sends are open.
func (b *batch) set(it *item, p phase) {
	b.mu.Lock()
	it.phase = p
	if _, is := p.(settled); is {
		b.dirty = true
	}
	b.mu.Unlock()
}

// in returns the items whose phase has type P.
func in[P phase](b *batch) (of []*item) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, it := range b.items {
		if _, is := it.phase.(P); is {
			of = append(of, it)
		}
	}
	return of
}

// verdicts sets the verdict of each message. A message is acknowledged only if all its runs may be.
func (b *batch) verdicts(out []Verdict) {
	for _, i := range b.idx {
		out[i] = Verdict{Ack: true}
		if b.of[i] {
			out[i] = ackRule(settled(core.Accepted), b.stored)
		}
	}
	for _, it := range b.items {
		v := ackRule(it.phase, b.stored)
		if v.Ack && it.unlisted {
			v = Verdict{Err: errNotStored}
		}
		if v.Ack {
			continue
		}
		for _, m := range it.msgs {
			if o := &out[m]; o.Ack {
				*o = v
			} else if v.RetryAt.After(o.RetryAt) {
				o.RetryAt = v.RetryAt
			}
		}
	}
}
