package dispatch

import (
	"context"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// item is one fire of a batch, in all its copies.
type item struct {
	fire     core.Fire
	others   []core.Fire // copies of another slot: of a trigger that was moved
	recorded bool        // it has a record of its own, made before it was sent on its way
	msgs     []int       // the messages that brought it
	try      int
	unread   int       // how often in a row its job or app could not be understood
	slow     bool      // it came on the slow lane, and stays there
	of       *core.Run // of a shard: its broadcast
	job      *core.Job
	app      *core.App
	tell     *core.Notify // who is told what; nil: nobody
	falls    falls
	reason   core.Reason // why it falls
	phase    phase
	run      *core.Run    // once claimed or looked at; before, an empty one that all share
	named    bool         // the watchdog will come to a journal that names it: stored in time, or announced
	wrote    core.Outcome // core.Done: this invocation claimed its run; core.Recorded: it made the record without a claim
	listed   bool         // a stored journal names it as wrote says
	held     bool         // it counts among the fires in hand
	asked    string       // the limits that it was asked for last, if any
	awaited  bool         // by a call:, for as long as that lasts
	ending   bool         // it is being closed
	answer   string       // to its last send, where that proved nothing
	order    []string     // addresses to try, the claimed one first
	choice   choice       // of what was asked, where the route asks
	success  core.Instant // of the job's last success, where its template names it
	lost     *core.RunPut // the record of its fall whose answer was lost
}

// batch is one invocation: one nonce, one deadline, one journal.
type batch struct {
	d        *Dispatcher
	idx      []int
	nonce    string
	began    time.Time // by the clock that nobody sets, as the deadline
	deadline time.Time // all work ends by it
	until    time.Time // this process cannot send after it; by the wall clock, for others compare it
	key      core.JournalKey
	items    []*item
	live     map[string][]string // addresses by app
	silent   map[at]bool         // queues that were polled, and are no more
	dialects map[at]string       // of executors, where it is known
	outage   bool                // executors may be missing only because we were away
	woken    int64               // the number of who came last before live was read
	longest  time.Duration       // that a call: may be awaited; 0: there is none

	mu      sync.Mutex   // guards phases and items while sends are open, and the fields below
	over    []core.Entry // of items that are gone: answered long ago, while others are awaited
	of      map[int]bool // the messages that brought those
	v       int
	stored  bool            // the last journal written is stored
	dirty   bool            // something was answered since the last journal
	late    []finish.Result // ends of calls that were not stored in time
	blocked atomic.Bool     // the journal is not stored: no further send is begun
}

// noRun is never written to.
var noRun core.Run

// at is an address of an app.
type at struct{ app, address string }

func newBatch(d *Dispatcher, msgs []ring.Message, idx []int) *batch {
	b := &batch{d: d, idx: idx, nonce: d.o.Nonce(), began: time.Now(), of: map[int]bool{}}
	h := fnv.New32a()
	h.Write([]byte(b.nonce))
	b.key = core.JournalKey{Minute: d.o.Now().Unix() / 60, Suffix: int(h.Sum32() % core.JournalSuffixes), Nonce: b.nonce}
	byRun := make(map[core.RunID]*item, len(idx)*ring.MaxFires)
	for _, i := range idx {
		for _, f := range msgs[i].Fires {
			it := byRun[f.Run]
			if it == nil {
				_, planned := f.Run.Planned()
				it = &item{fire: f, recorded: !planned && f.Of == 0, run: &noRun, phase: undecided{}}
				byRun[f.Run] = it
				b.items = append(b.items, it)
			} else if f.Rev > it.fire.Rev {
				// The copy with the job's present rev decides; no copy can be newer than that.
				it.fire = f
			} else if f.Slot != it.fire.Slot {
				it.others = append(it.others, f)
			}
			it.slow, it.try, it.unread = it.slow || msgs[i].Slow, max(it.try, msgs[i].Try), max(it.unread, msgs[i].Unread)
			if n := len(it.msgs); n == 0 || it.msgs[n-1] != i {
				it.msgs = append(it.msgs, i)
			}
		}
	}
	return b
}

// run takes the batch through all steps, and calls free when it only waits for
// executors any more. The deadline is that of ctx, or the option's where ctx has none.
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
	var asks map[string][]*item
	asks, b.items = b.asking(b.items)
	limited := b.limited()
	b.claim(work, b.items)
	b.sendAll(work, asks, limited, free)
	b.closeEnded(work)
	b.finalJournal(work)
	b.checks(work, b.items)
	b.putBackRest(work)
	b.list(work)
	until := b.deadline.Add(-b.d.o.Reserve / 2)
	if !own { // this process lives on
		until = time.Now().Add(bound.CloseFor)
	}
	late, cancel3 := context.WithDeadline(ctx, until)
	defer cancel3()
	b.closeLate(late)
}

func (b *batch) now() time.Time { return b.d.o.Now() }

// ends sets the deadline, which a clock that is set while it works does not move.
// What others are told of it they compare with clocks of their own.
func (b *batch) ends(deadline time.Time) {
	left := time.Until(deadline)
	b.deadline = time.Now().Add(left)
	b.until = b.now().Add(left + untilAfter).Round(0)
}

// untilAfter is how long after its deadline an invocation's claims are its own.
const untilAfter = time.Second

// inTime reports that the deadline is further away than margin: what was begun may
// be stored and given back, whatever the wall clock says.
func (b *batch) inTime(margin time.Duration) bool { return time.Until(b.deadline) > margin }

// owns reports that, besides, until is to come by the wall clock, with the same
// margin: what is past until others may take, so nothing is claimed or sent any more.
func (b *batch) owns(margin time.Duration) bool {
	return b.inTime(margin) && b.now().Before(b.until.Add(-untilAfter-margin))
}

// claimed is what a run of this invocation says. Where calls are awaited for as long as
// they last, what is no call is claimed no longer than an invocation lasts without them:
// a crash would hold it up as long.
func (b *batch) claimed(it *item) core.Claim {
	c := core.Claim{Owner: b.nonce, Until: b.until, Journal: b.key}
	if b.longest > 0 && !it.awaited {
		if own := b.now().Add(b.d.o.Invocation + untilAfter).Round(0); own.Before(c.Until) {
			c.Until = own
		}
	}
	return c
}

// set moves a fire on while sends are open.
func (b *batch) set(it *item, p phase) {
	b.mu.Lock()
	it.phase = p
	if _, is := p.(settled); is {
		b.dirty = true
	}
	b.mu.Unlock()
}

// in is what is in a phase now.
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

// verdicts says of each message whether it may be acked: each of its fires may.
func (b *batch) verdicts(out []Verdict) {
	for _, i := range b.idx {
		out[i] = Verdict{Ack: true}
		if b.of[i] {
			out[i] = ackRule(settled(core.Accepted), b.stored)
		}
	}
	for _, it := range b.items {
		v := ackRule(it.phase, b.stored)
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
