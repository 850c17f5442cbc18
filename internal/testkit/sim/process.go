package sim

import (
	"context"
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// process is one of the programs of a deployment: it is killed at any instant and started again
// a while later. It has its own clock.
type process struct {
	w    *World
	name string
	run  func(in *incarnation) // makes the use cases and drives them; called for each start

	offset  atomic.Int64 // of its clock from the machine's, in nanoseconds
	stepped atomic.Int64 // when its clock was last stepped, true nanoseconds

	mu     sync.Mutex
	cur    *incarnation
	starts int
	frozen time.Time // all its calls hang until then: a stopped machine
	down   time.Time // not started again before then
	calls  map[string]uint64
	storms map[string]time.Time // operations that are throttled until then
}

// incarnation is one life of a process. After its death none of its goroutines
// reaches the store again: they end at their next call.
type incarnation struct {
	p      *process
	n      int
	ctx    context.Context
	cancel context.CancelFunc
	dead   atomic.Bool
	died   time.Time    // set before dead
	works  atomic.Int64 // dispatch invocations under way
	store  *store.Store // as the process sees it
	calm   bool         // its calls have no faults: they are the checker's
	// deliver hands a message to a dispatcher past the queue: a duplicate.
	deliver func([]store.Delivery)
}

func (p *process) now() time.Time {
	return time.Now().Add(p.drift()).UTC()
}

// drift is the difference of its clock from the truth.
func (p *process) drift() time.Duration {
	return time.Duration(p.w.offset.Load() + p.offset.Load())
}

// start begins a new incarnation.
func (p *process) start() {
	p.mu.Lock()
	if p.w.closing() || p.cur != nil && !p.cur.dead.Load() {
		p.mu.Unlock()
		return
	}
	p.starts++
	in := &incarnation{p: p, n: p.starts}
	in.ctx, in.cancel = context.WithCancel(context.WithValue(context.Background(), roleKey{}, p.kind()))
	in.store = in.opens()
	p.cur = in
	p.mu.Unlock()
	in.spawn(func() { p.run(in) })
}

// living is the present incarnation, nil while there is none.
func (p *process) living() *incarnation {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cur == nil || p.cur.dead.Load() {
		return nil
	}
	return p.cur
}

// spawn runs a goroutine of this life.
func (in *incarnation) spawn(f func()) { in.p.w.wg.Go(f) }

// kill ends the incarnation, and lets the process start again after a while.
func (in *incarnation) kill(why string) {
	p := in.p
	d, _ := p.dice("restart")
	p.mu.Lock()
	if in.dead.Load() {
		p.mu.Unlock()
		return
	}
	in.died = time.Now()
	in.dead.Store(true)
	back := d.between(500*time.Millisecond, 6*time.Second)
	back = max(back, time.Until(p.down))
	p.mu.Unlock()
	p.w.count("kill "+why, 1)
	p.w.gone(p, time.Now().Add(back))
	p.w.truth.buryLive(in)
	in.cancel()
	p.w.after(back, p.start)
}

// dying returns how many invocations a kill of the process ends, at least 1. In the cloud each has an instance to itself, so
// the chance of a kill is divided by it.
func (in *incarnation) dying() float64 {
	if !in.p.w.deployed.functions {
		return 1
	}
	return float64(max(1, in.works.Load()))
}

// stops kills the process, and does not let it start again before a moment.
func (p *process) stops(until time.Time) {
	p.mu.Lock()
	p.down = until
	p.mu.Unlock()
	if in := p.living(); in != nil {
		in.kill(p.kind())
	}
}

// stop ends the incarnation for good, at the end of the world.
func (in *incarnation) stop() {
	in.dead.Store(true)
	in.cancel()
}

// end is where the goroutine of a dead process ends.
func (in *incarnation) end() { runtime.Goexit() }

// step sets the clock of the process.
func (p *process) step(offset time.Duration) {
	p.offset.Store(int64(offset))
	p.stepped.Store(time.Now().UnixNano())
	p.w.count("clock step", 1)
	p.w.troubleForAll(time.Now().Add(max(-offset, 0)))
}

// steppedWithin reports that the clock was set within d before now, or now.
func (p *process) steppedWithin(d time.Duration) bool {
	at := p.stepped.Load()
	return at != 0 && time.Now().UnixNano()-at <= int64(d)
}

// freeze stops the whole process, like a stopped machine: it continues its work later.
func (p *process) freeze(d time.Duration) {
	p.mu.Lock()
	p.frozen = time.Now().Add(d)
	p.mu.Unlock()
	p.w.count("pause of a process", 1)
	p.w.gone(p, time.Now().Add(d))
	p.w.truth.notePause(p)
}

func (p *process) frozenUntil() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frozen
}

// thaw waits until the process is not frozen.
func (p *process) thaw() {
	for {
		d := time.Until(p.frozenUntil())
		if d <= 0 || p.w.closing() {
			return
		}
		p.w.sleep(context.Background(), d)
	}
}

// dice are made of the seed, the process, the operation and how often that was
// called: the order in which goroutines run changes little of them.
type dice struct{ x uint64 }

func (p *process) dice(op string) (d dice, n uint64) {
	p.mu.Lock()
	p.calls[op]++
	n = p.calls[op]
	p.mu.Unlock()
	return dice{mix(p.w.cfg.Seed ^ mix(hashOf(p.name)^bits.RotateLeft64(hashOf(op), 17)^n*0x9e3779b97f4a7c15))}, n
}

// Uint64 implements rand.Source of math/rand/v2.
func (d *dice) Uint64() uint64 {
	d.x += 0x9e3779b97f4a7c15
	return mix(d.x)
}

func (d *dice) chance(p float64) bool { return float64(d.Uint64()>>11)/(1<<53) < p }

func (d *dice) n(n int) int { return int(d.Uint64() % uint64(n)) }

func (d *dice) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Uint64()%uint64(high-low+1))
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// invocation is one batch of messages in the hands of one dispatcher, with the checker's
// knowledge of it, gathered by the calls that it makes.
type invocation struct {
	in    *incarnation
	got   []store.Delivery
	began time.Time
	until time.Time                // until of its claims, by a right clock
	fires map[core.RunID]core.Fire // the newest copy of each
	all   []core.RunID             // with copies, as counted among the live

	mu       sync.Mutex
	jobsRead map[core.JobID]time.Time // when the first answered read of a job began
	appsRead time.Time
	allRead  time.Time // of the global item
	journals map[core.JournalKey]looked
	waits    map[core.RunID]bool // put on the ring at their next check: a new executor wakes them at once
	// trouble means that answers may miss the journal: rejections, delays. The promise of 250
	// ms is for a journal that is accepted.
	trouble bool
	paused  bool
	journal time.Duration // of its slowest write
	writing time.Time     // since when a write of the journal has no answer
	// The same of all its calls, for ends that are closed and not journalled.
	rough   bool
	slowest time.Duration
	open    []time.Time // since when each call that has no answer yet is under way
}

// begins records a call; its result records the duration, and whether the answer was good.
func (inv *invocation) begins() (took func(err error)) {
	if inv == nil {
		return func(error) {}
	}
	began := time.Now()
	inv.mu.Lock()
	inv.open = append(inv.open, began)
	inv.mu.Unlock()
	return func(err error) {
		inv.mu.Lock()
		i := slices.Index(inv.open, began)
		inv.open = slices.Delete(inv.open, i, i+1)
		inv.slowest = max(inv.slowest, time.Since(began))
		inv.rough = inv.rough || err != nil
		inv.mu.Unlock()
	}
}

// roughly records that a call failed.
func (inv *invocation) roughly() {
	if inv != nil {
		inv.mu.Lock()
		inv.rough = true
		inv.mu.Unlock()
	}
}

// sawRecords records which apps, journals and global item the invocation read, and when the read began. For journals it
// records the entries, and the time of the request by the clock of the invocation: a late answer counts as an early read.
func (inv *invocation) sawRecords(keys []store.Key, found map[store.Key]store.Record, began, clock time.Time) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for _, k := range keys {
		switch r := found[k]; {
		case r.Err != nil:
		case k.Kind == "app" && inv.appsRead.IsZero():
			inv.appsRead = began
		case k.Kind == "global" && inv.allRead.IsZero():
			inv.allRead = began
		case kindOf(k.Kind) == "journal":
			l := looked{clock: clock, settled: map[core.RunID]bool{}}
			j, _ := store.DecodeJournal(&r)
			for _, e := range j.Entries {
				if e.Outcome == core.Accepted || e.Outcome == core.Unconfirmed {
					l.settled[e.Run] = true
				}
			}
			key, _ := store.ParseJournalName(k.Name)
			inv.journals[key] = l
		}
	}
}

// sawJobs records when the first read of each job began.
func (inv *invocation) sawJobs(ids []core.JobID, found map[core.JobID]store.Got[*core.Job], began time.Time) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for _, id := range ids {
		if _, ok := inv.jobsRead[id]; !ok && !errors.Is(found[id].Err, core.ErrThrottled) {
			inv.jobsRead[id] = began
		}
	}
}

// journalling records a write of a journal, or of the check that carries it, with the invocation whose answers it holds.
func journalling(ctx context.Context, err *error) (done func()) {
	inv := invocationOf(ctx)
	if inv == nil {
		return func() {}
	}
	began := time.Now()
	inv.mu.Lock()
	inv.writing = began
	inv.mu.Unlock()
	return func() {
		inv.mu.Lock()
		defer inv.mu.Unlock()
		inv.writing = time.Time{}
		inv.journal = max(inv.journal, time.Since(began))
		inv.trouble = inv.trouble || *err != nil
	}
}

func (inv *invocation) troubled() {
	inv.mu.Lock()
	inv.trouble = true
	inv.mu.Unlock()
}

// looked holds the entries that the invocation saw in a foreign journal, and when by its clock.
type looked struct {
	clock   time.Time
	settled map[core.RunID]bool
}

type invocationKey struct{}

func contextOf(inv *invocation) context.Context {
	return context.WithValue(context.Background(), invocationKey{}, inv)
}

func invocationOf(ctx context.Context) *invocation {
	v, _ := ctx.Value(invocationKey{}).(*invocation)
	return v
}
