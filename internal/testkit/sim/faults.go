package sim

import (
	"context"
	"errors"
	"fmt"
	"github.com/tickring/tickring/store"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
)

// errUnknown is the answer after which nothing may be concluded.
var errUnknown = errors.New("connection reset")

// Fate is the outcome of one call to the store, or of one item of a batch call.
type Fate uint8

const (
	Fine      Fate = iota
	Before         // the caller gets an unknown error; the call was not executed
	After          // the caller gets an unknown error; the call was executed
	Lost           // the call was executed, and the caller never gets the answer
	Throttled      // the call was not executed, and the error reports this
	Conflict       // the call was executed twice, and the caller gets the second answer
	Late           // the caller gets an unknown error; the call is executed seconds later
	Kill           // the calling process dies before the call is executed
	KillAfter      // the calling process dies after the call is executed
	Hang           // the whole process stops for longer than its leases and deadlines
	Slow           // the caller gets the answer after 3.3 seconds
	Later          // the caller gets an unknown error; the call is executed 35 seconds later
)

// Call describes a call of a process, for a test that chooses the outcome. The call is not executed yet.
type Call struct {
	Process string // kind of the calling process: ticker, dispatcher, callback, watchdog or user
	Op      string
	N       uint64        // number of this call among the calls of the process, counted from 1
	At      time.Duration // time since the start of the simulation
	in      *incarnation
}

// port is the ports of all use cases as one process sees them: everything that
// can go wrong between it and the store goes wrong here.
type port struct {
	*truth
	in *incarnation
}

// answeredKey is the context key for whether the invocation of a function is over.
type answeredKey struct{}

// begin decides the outcome of a call. It does not return to a dead process.
func (p *port) begin(ctx context.Context, op string, write bool) (Fate, dice, time.Duration) {
	pr := p.in.p
	pr.thaw()
	if p.in.dead.Load() {
		p.in.end()
	}
	d, n := pr.dice(op)
	w := pr.w
	if over, _ := ctx.Value(answeredKey{}).(*atomic.Bool); over != nil && over.Load() {
		// A function is frozen between its invocations, with its goroutines.
		w.count("call behind an answer", 1)
		w.sleep(bg, d.between(time.Second, time.Minute))
		if p.in.dead.Load() {
			p.in.end()
		}
	}
	fate, delay := Fine, time.Duration(0)
	if w.cfg.Script != nil {
		fate = w.cfg.Script(Call{Process: pr.kind(), Op: op, N: n, At: time.Since(w.began), in: p.in})
	}
	if fate == Fine && w.faulty.Load() {
		fate, delay = w.fateOf(pr, op, write, &d)
	}
	if fate != Fine || delay > 50*time.Millisecond {
		w.trouble(ctx, p.in, op, delay)
	}
	switch fate {
	case Kill:
		p.in.kill(pr.kind())
		p.in.end()
	case Slow:
		delay = 3300 * time.Millisecond
	case Hang:
		pr.freeze(d.between(20*time.Second, 50*time.Second))
		if d.chance(0.5) {
			pr.thaw() // before the effect; else after it
			if p.in.dead.Load() {
				p.in.end()
			}
		}
		fate = Fine
	}
	return fate, d, delay
}

// fateOf draws the fate of a call as a whole.
func (w *World) fateOf(pr *process, op string, write bool, d *dice) (Fate, time.Duration) {
	rate := w.cfg.Rate
	pr.mu.Lock()
	storm := time.Now().Before(pr.storms[op]) || time.Now().Before(pr.storms["*"]) && op != "Send" && op != "Receive"
	pr.mu.Unlock()
	if storm {
		w.count("storm", 1)
		return Throttled, 0
	}
	if w.cfg.Skew && d.chance(0.0004*rate) {
		pr.step(time.Duration(d.n(5)-2) * time.Second)
	}
	var delay time.Duration
	switch {
	case w.cfg.Request != nil: // each request has its own
	case d.chance(0.004 * rate):
		delay = d.between(time.Second, 4*time.Second)
		w.count("delay", 1)
	case d.chance(0.02 * rate):
		delay = d.between(50*time.Millisecond, 800*time.Millisecond)
		w.count("delay", 1)
	case d.chance(0.3):
		delay = d.between(time.Millisecond, 30*time.Millisecond)
	}
	kill := 0.0006 * rate
	if pr.kind() == "ticker" {
		kill = 0.0002 * rate
	}
	switch {
	case d.chance(kill):
		return Kill, delay
	case d.chance(kill):
		return KillAfter, delay
	case w.cfg.Pauses && d.chance(0.0001*rate):
		return Hang, delay
	}
	if !write {
		switch {
		case d.chance(0.006 * rate):
			w.count("error before", 1)
			return Before, delay
		case d.chance(0.006 * rate):
			w.count("throttle", 1)
			return Throttled, delay
		}
		return Fine, delay
	}
	return Fine, delay
}

// itemFate draws the fate of one item of a write of n.
func (w *World) itemFate(d *dice, n int) Fate {
	rate := w.cfg.Rate * 4 / (3 + float64(n))
	if !d.chance(0.06 * rate) {
		return Fine
	}
	f := []Fate{Before, After, Lost, Throttled, Conflict, Throttled, Conflict, Before, After}[d.n(9)]
	if w.cfg.Late && d.chance(0.15) {
		f = Late
	}
	w.count(f.String(), 1)
	return f
}

func (f Fate) String() string {
	return [...]string{"fine", "error before", "error after", "lost answer", "throttle", "own conflict", "late write", "kill", "kill", "hang",
		"slow", "later"}[f]
}

// wait lets time pass on the way to or from the store. It returns the error of a context that
// ended in that time.
func (p *port) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	p.in.p.w.sleep(ctx, d)
	p.in.p.thaw()
	if p.in.dead.Load() {
		p.in.end()
	}
	return ctx.Err()
}

// read makes one call that changes nothing.
func read[T any](p *port, ctx context.Context, op string, do func(ctx context.Context) (T, error)) (v T, err error) {
	var zero T
	ctx = p.asks(ctx, op, true)
	took := invocationOf(ctx).begins()
	defer func() { took(err) }()
	fate, d, delay := p.begin(ctx, op, false)
	switch fate {
	case Before, Lost, After:
		_ = p.wait(ctx, delay)
		return zero, errUnknown
	case Throttled:
		return zero, core.ErrThrottled
	}
	first := delay
	if fate == Slow || d.chance(0.5) {
		first = 0
	}
	if err := p.wait(ctx, first); err != nil {
		return zero, err
	}
	v, err = do(ctx)
	if fate == KillAfter {
		p.in.kill(p.in.p.kind())
		p.in.end()
	}
	if werr := p.wait(ctx, delay-first); werr != nil && err == nil {
		return zero, werr
	}
	p.in.p.thaw()
	if p.in.dead.Load() {
		p.in.end()
	}
	return v, err
}

// writes makes one call of many writes, each with its own result.
func writes[T any](p *port, ctx context.Context, op string, items []T, do func(ctx context.Context, items []T) []error) []error {
	answers := make([]error, len(items))
	if len(items) == 0 {
		return answers
	}
	w := p.in.p.w
	ctx = p.asks(ctx, op, false)
	took := invocationOf(ctx).begins()
	defer func() { took(errors.Join(answers...)) }()
	over := ctx.Err()
	fate, d, delay := p.begin(ctx, op, true)
	if over != nil { // a client begins no request then
		for i := range answers {
			answers[i] = over
		}
		return answers
	}
	// A write reaches the store with the values of ctx alone: its end stops the waiting, not
	// the request.
	wire := context.WithoutCancel(ctx)
	first := delay
	if fate == Slow || d.chance(0.5) {
		first = 0
	}
	fates := make([]Fate, len(items))
	for i := range fates {
		fates[i] = fate
		if (fate == Fine || fate == Slow) && w.faulty.Load() {
			if fates[i] = w.itemFate(&d, len(items)); fates[i] != Fine {
				w.trouble(ctx, p.in, op, map[Fate]time.Duration{Late: 20 * time.Second, Later: 35 * time.Second, Lost: 6 * time.Second}[fates[i]])
			}
		}
	}
	_ = p.wait(ctx, first)
	if ctx.Err() != nil {
		// The deadline came while the request was on its way.
		for i := range answers {
			answers[i] = ctx.Err()
			fates[i] = Before
			if d.chance(0.5) {
				fates[i] = After
			}
		}
	}
	var now, late []T
	var of []int
	for i, f := range fates {
		switch f {
		case Before, Throttled:
		case Late, Later:
			late = append(late, items[i])
		default:
			now, of = append(now, items[i]), append(of, i)
		}
	}
	if len(late) > 0 {
		if inv := invocationOf(ctx); inv != nil {
			inv.troubled()
		}
		wait := d.between(200*time.Millisecond, 20*time.Second)
		if fate == Later {
			wait = 35 * time.Second
		}
		w.after(wait, func() { do(wire, late) })
	}
	if len(now) > 0 {
		for k, err := range do(wire, now) {
			i := of[k]
			if fates[i] == Conflict && err == nil {
				err = do(wire, []T{items[i]})[0]
			}
			if answers[i] == nil {
				answers[i] = err
			}
		}
	}
	if fate == KillAfter {
		p.in.kill(p.in.p.kind())
		p.in.end()
	}
	lost := false
	for i, f := range fates {
		switch f {
		case Throttled:
			answers[i] = core.ErrThrottled
		case Before, After, Late, Later:
			if answers[i] == nil || f == After {
				answers[i] = errUnknown
			}
		case Lost:
			answers[i], lost = errUnknown, true
		}
	}
	rest := delay - first
	if lost {
		rest += d.between(2*time.Second, 6*time.Second)
	}
	if err := p.wait(ctx, rest); err != nil {
		for i := range answers {
			answers[i] = fmt.Errorf("no answer in time: %w", err)
		}
	}
	p.in.p.thaw()
	if p.in.dead.Load() {
		p.in.end()
	}
	return answers
}

func write[T any](p *port, ctx context.Context, op string, item T, do func(ctx context.Context, item T) error) error {
	return writes(p, ctx, op, []T{item}, func(ctx context.Context, items []T) []error {
		errs := make([]error, len(items))
		for i := range items {
			errs[i] = do(ctx, items[i])
		}
		return errs
	})[0]
}

// keyed makes one read of many keys that may leave some unread.
func keyed[K comparable, V any](p *port, ctx context.Context, op string, keys []K, do func(ctx context.Context, keys []K) (map[K]V, []K,
	error)) (map[K]V, []K, error) {
	ask, left := keys, []K(nil)
	w := p.in.p.w
	if w.faulty.Load() {
		if d, _ := p.in.p.dice(op + " short"); d.chance(0.02 * w.cfg.Rate) {
			ask = nil
			for _, k := range keys {
				if d.chance(0.5) {
					left = append(left, k)
				} else {
					ask = append(ask, k)
				}
			}
			w.count("short read", 1)
			w.trouble(context.WithoutCancel(ctx), p.in, op, 0)
		}
	}
	type answer struct {
		found map[K]V
		left  []K
	}
	a, err := read(p, ctx, op, func(ctx context.Context) (answer, error) {
		found, unread, err := do(ctx, ask)
		return answer{found, unread}, err
	})
	if err != nil {
		return nil, nil, err
	}
	if left = append(a.left, left...); len(left) > 0 { // the store had no room to read them
		invocationOf(ctx).roughly()
	}
	return a.found, left, nil
}

// The rest is every port, through one of the four functions above.

// Due returns jobs that are due, from an index that lags behind the writes. The list can be incomplete.
func (p *port) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	items, err := read(p, ctx, "Due", func(ctx context.Context) ([]core.DueItem, error) {
		return p.truth.Due(ctx, partition, upTo, after, limit)
	})
	w := p.in.p.w
	// A partition is read to its end before it is given up: StableFor after the last item came.
	if err != nil || !w.faulty.Load() || upTo == core.Horizon {
		return items, err
	}
	d, _ := p.in.p.dice("Due stale")
	fresh := slices.Clone(items)
	if d.chance(0.1 * w.cfg.Rate) {
		w.count("stale index", 1)
		items = slices.DeleteFunc(items, func(it core.DueItem) bool {
			hidden := d.chance(0.3)
			if hidden { // if no other item is due, the invocation ends
				w.troublePlanning(time.Now().Add(w.deployed.aftermath().planning+2*w.deployed.wake), it.Job)
			}
			return hidden
		})
		for _, old := range w.truth.oldDue(partition) {
			if after.Less(old) && old.PlanAt <= upTo && !slices.Contains(items, old) && len(items) < limit {
				items = append(items, old)
			}
		}
		slices.SortFunc(items, func(a, b core.DueItem) int {
			if a.Less(b) {
				return -1
			}
			return 1
		})
	}
	if len(items) > 1 && d.chance(0.1*w.cfg.Rate) {
		w.count("short read", 1)
		items = items[:1+d.n(len(items)-1)]
	}
	if after == (core.DueItem{}) {
		w.truth.noteDue(partition, fresh)
	}
	return items, nil
}

func (p *port) Scheds(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	found, left, err := keyed(p, ctx, "Scheds", jobs, p.truth.Scheds)
	return found, left, cannotRead(p, jobs, found, err)
}

func (p *port) Jobs(ctx context.Context, jobs []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	began := time.Now()
	found, left, err := keyed(p, ctx, "Jobs", jobs, p.truth.Jobs)
	if inv := invocationOf(ctx); inv != nil && err == nil {
		inv.mu.Lock()
		for _, id := range jobs {
			if _, ok := inv.jobsRead[id]; !ok && !slices.Contains(left, id) {
				inv.jobsRead[id] = began
			}
		}
		inv.mu.Unlock()
	}
	return found, left, cannotRead(p, jobs, found, err)
}

func (p *port) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	began := time.Now()
	found, left, err := keyed(p, ctx, "Apps", names, p.truth.Apps)
	if inv := invocationOf(ctx); inv != nil && err == nil {
		inv.mu.Lock()
		if inv.appsRead.IsZero() {
			inv.appsRead = began
		}
		inv.mu.Unlock()
	}
	return found, left, err
}

func (p *port) Global(ctx context.Context) (core.Global, error) {
	began := time.Now()
	g, err := read(p, ctx, "Global", p.truth.Global)
	if inv := invocationOf(ctx); inv != nil && err == nil {
		inv.mu.Lock()
		if inv.allRead.IsZero() {
			inv.allRead = began
		}
		inv.mu.Unlock()
	}
	return g, err
}

func (p *port) Runs(ctx context.Context, runs []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	return keyed(p, ctx, "Runs", runs, p.truth.Runs)
}

func (p *port) Tombstones(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error) {
	return read(p, ctx, "Tombstones", func(ctx context.Context) (map[core.JobID]core.Tombstone, error) {
		return p.truth.Tombstones(ctx, jobs)
	})
}

func (p *port) ListTombstones(ctx context.Context, after core.JobID, limit int) ([]core.Tombstone, error) {
	return read(p, ctx, "ListTombstones", func(ctx context.Context) ([]core.Tombstone, error) {
		return p.truth.ListTombstones(ctx, after, limit)
	})
}

func (p *port) Executors(ctx context.Context, apps []string) (map[string][]core.Executor, error) {
	return read(p, ctx, "Executors", func(ctx context.Context) (map[string][]core.Executor, error) {
		return p.truth.Executors(ctx, apps)
	})
}

// Journals records which journal entries the invocation read, and the time of the request by the clock of the
// invocation. The time is taken before the read, so a late answer counts as an early read.
func (p *port) Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error) {
	var clock time.Time
	found, err := read(p, ctx, "Journals", func(ctx context.Context) (map[core.JournalKey]core.Journal, error) {
		clock = p.in.p.now()
		return p.truth.Journals(ctx, keys)
	})
	if inv := invocationOf(ctx); inv != nil && err == nil {
		inv.sawJournals(keys, found, clock)
	}
	return found, err
}

func (p *port) JournalsAt(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.Journal, error) {
	return read(p, ctx, "JournalsAt", func(ctx context.Context) ([]core.Journal, error) {
		return p.truth.JournalsAt(ctx, minute, after, limit)
	})
}

func (p *port) Cursor(ctx context.Context) (int64, error) {
	return read(p, ctx, "Cursor", p.truth.Cursor)
}

func (p *port) Revisits(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.JournalKey, error) {
	return read(p, ctx, "Revisits", func(ctx context.Context) ([]core.JournalKey, error) {
		return p.truth.Revisits(ctx, minute, after, limit)
	})
}

func (p *port) OldestMessage(ctx context.Context) (ring.Oldest, error) {
	return read(p, ctx, "OldestMessage", p.truth.OldestMessage)
}

func (p *port) Leases(ctx context.Context) ([]core.Lease, error) {
	return read(p, ctx, "Leases", p.truth.Leases)
}

func (p *port) JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	return read(p, ctx, "JobIDs", func(ctx context.Context) (map[string]core.JobID, error) { return p.truth.JobIDs(ctx, app, names) })
}

func (p *port) Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error) {
	return read(p, ctx, "Entries", func(ctx context.Context) ([]core.DueItem, error) { return p.truth.Entries(ctx, job) })
}

func (p *port) Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error) {
	return read(p, ctx, "Waiting", func(ctx context.Context) ([]core.Run, error) { return p.truth.Waiting(ctx, job, below, limit) })
}

func (p *port) OpenRuns(ctx context.Context, first, last core.RunID, limit int) (runs []core.Run, next core.RunID, err error) {
	runs, err = read(p, ctx, "OpenRuns", func(ctx context.Context) (runs []core.Run, err error) {
		runs, next, err = p.truth.OpenRuns(ctx, first, last, limit)
		return runs, err
	})
	return runs, next, err
}

func (p *port) Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error) {
	err = write(p, ctx, "Numbers", n, func(ctx context.Context, n int) error {
		var err error
		first, err = p.truth.Numbers(ctx, job, n)
		return err
	})
	return first, err
}

func (p *port) NewJobIDs(ctx context.Context, n int) (first core.JobID, err error) {
	err = write(p, ctx, "NewJobIDs", n, func(ctx context.Context, n int) error {
		var err error
		first, err = p.truth.NewJobIDs(ctx, n)
		return err
	})
	return first, err
}

func (p *port) PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (bound core.RunID, err error) {
	err = write(p, ctx, "PutKey", run, func(ctx context.Context, run core.RunID) error {
		var err error
		bound, err = p.truth.PutKey(ctx, job, key, run)
		return err
	})
	return bound, err
}

func (p *port) PutSkips(ctx context.Context, skips []core.Skip) []error {
	return writes(p, ctx, "PutSkips", skips, p.truth.PutSkips)
}

func (p *port) Advance(ctx context.Context, moves []core.Advance) []error {
	return writes(p, ctx, "Advance", moves, p.truth.Advance)
}

func (p *port) RemoveEntries(ctx context.Context, entries []core.DueItem) []error {
	return writes(p, ctx, "RemoveEntries", entries, p.truth.RemoveEntries)
}

func (p *port) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	return writes(p, ctx, "PutEntries", entries, p.truth.PutEntries)
}

func (p *port) PutGlobal(ctx context.Context, seen int64, g core.Global) error {
	return write(p, ctx, "PutGlobal", g, func(ctx context.Context, g core.Global) error { return p.truth.PutGlobal(ctx, seen, g) })
}

func (p *port) Permits(ctx context.Context, names []string) (map[string]core.Permits, error) {
	return read(p, ctx, "Permits", func(ctx context.Context) (map[string]core.Permits, error) { return p.truth.Permits(ctx, names) })
}

func (p *port) PutPermits(ctx context.Context, list []core.Permits) []error {
	return writes(p, ctx, "PutPermits", list, p.truth.PutPermits)
}

func (p *port) Healths(ctx context.Context) ([]core.Health, error) {
	return read(p, ctx, "Healths", p.truth.Healths)
}

func (p *port) PutHealths(ctx context.Context, list []core.Health) []error {
	return writes(p, ctx, "PutHealths", list, p.truth.PutHealths)
}

func (p *port) PutChanges(ctx context.Context, changes []core.Change) error {
	return write(p, ctx, "PutChanges", changes, p.truth.PutChanges)
}

func (p *port) PutLease(ctx context.Context, seen, l core.Lease) error {
	return write(p, ctx, "PutLease", l, func(ctx context.Context, l core.Lease) error { return p.truth.PutLease(ctx, seen, l) })
}

func (p *port) DropLease(ctx context.Context, seen core.Lease) error {
	return write(p, ctx, "DropLease", seen, p.truth.DropLease)
}

// Enqueue makes some messages of scheduled runs visible slightly too early, because an SQS queue counts delays in
// whole seconds. A wrong clock of the caller changes the delay. The queue measures the delay with its own clock.
func (p *port) Enqueue(ctx context.Context, out []ring.Out) []error {
	w := p.in.p.w
	out = slices.Clone(out)
	for i := range out {
		out[i].NotBefore = out[i].NotBefore.Add(-p.in.p.drift())
	}
	if w.faulty.Load() {
		d, _ := p.in.p.dice("early")
		for i := range out {
			if out[i].Message.Kind == ring.KindFires && d.chance(0.2) {
				out[i].NotBefore = out[i].NotBefore.Add(-d.between(0, 2*time.Second))
			}
		}
	}
	if len(out) == 1 && out[0].Message.Check != nil && out[0].Message.Check.Journal != nil {
		errs := []error{errUnknown}
		defer journalling(ctx, &errs[0])()
		copy(errs, writes(p, ctx, "Enqueue", out, p.truth.Enqueue))
		return errs
	}
	return writes(p, ctx, "Enqueue", out, p.truth.Enqueue)
}

func (p *port) Bury(ctx context.Context, m ring.Message, reason string) error {
	return write(p, ctx, "Bury", m, func(ctx context.Context, m ring.Message) error { return p.truth.Bury(ctx, m, reason) })
}

func (p *port) Create(ctx context.Context, runs []core.Run) []error {
	return writes(p, ctx, "Create", runs, p.truth.Create)
}

// PutJournal records the duration and the failures of journal writes, also if the process dies while it waits for the
// answer.
func (p *port) PutJournal(ctx context.Context, j core.Journal) error {
	err := errUnknown // for a process that dies during the call
	defer journalling(ctx, &err)()
	err = write(p, ctx, "PutJournal", j, p.truth.PutJournal)
	return err
}

// journalling records a write of a journal, or of the check that carries it, with the
// invocation whose answers it holds.
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

func (p *port) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	if len(puts) == 0 {
		return nil
	}
	sent := slices.Clone(puts) // late results have no receiver
	errs := writes(p, ctx, verb(&puts[0]), sent, p.truth.PutRuns)
	for i, err := range errs {
		if err == nil {
			puts[i].Seen = sent[i].Seen
		}
	}
	return errs
}

func (p *port) MoveCursor(ctx context.Context, seen, minute int64) error {
	return write(p, ctx, "MoveCursor", minute, func(ctx context.Context, minute int64) error { return p.truth.MoveCursor(ctx, seen, minute) })
}

func (p *port) PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error {
	return write(p, ctx, "PutRevisits", keys, func(ctx context.Context, keys []core.JournalKey) error {
		return p.truth.PutRevisits(ctx, minute,
			keys)
	})
}

func (p *port) DropRevisits(ctx context.Context, minute int64) error {
	return write(p, ctx, "DropRevisits", minute, p.truth.DropRevisits)
}

func (p *port) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	return writes(p, ctx, "CreateJobs", jobs, func(ctx context.Context, some []core.Job) []error {
		of := make([]core.Change, len(some))
		for i := range some {
			for k := range jobs {
				if jobs[k].Def.ID == some[i].Def.ID {
					of[i] = changes[k]
				}
			}
		}
		return p.truth.CreateJobs(ctx, some, of)
	})
}

func (p *port) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	return writes(p, ctx, "UpdateJobs", updates, p.truth.UpdateJobs)
}

func (p *port) DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error {
	return write(p, ctx, "DeleteJob", t, func(ctx context.Context, t core.Tombstone) error { return p.truth.DeleteJob(ctx, seen, t, c) })
}

func (p *port) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	return write(p, ctx, "PutApp", a, func(ctx context.Context, a core.App) error { return p.truth.PutApp(ctx, seen, a, c) })
}

func (p *port) PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error {
	return write(p, ctx, "PutTriggered", run, func(ctx context.Context, run core.Run) error { return p.truth.PutTriggered(ctx, run, entry) })
}

func (p *port) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	return write(p, ctx, "ChangeTriggered", c, p.truth.ChangeTriggered)
}

func (p *port) PutExecutor(ctx context.Context, e core.Executor) error {
	return write(p, ctx, "PutExecutor", e, p.truth.PutExecutor)
}

func (p *port) RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error {
	return write(p, ctx, "RemoveExecutor", address, func(ctx context.Context, address string) error {
		return p.truth.RemoveExecutor(ctx, app, address, seen)
	})
}

// Receive delivers messages with the weak guarantees of a queue. Some messages are delayed, some by 15 minutes, and
// some are also delivered to another process.
func (p *port) Receive(ctx context.Context, kind ring.Kind, limit int) ([]store.Delivery, error) {
	fate, d, _ := p.begin(ctx, "Receive", false)
	if fate == Before || fate == Throttled {
		p.in.p.w.sleep(ctx, time.Second)
		return nil, errUnknown
	}
	got, err := p.truth.Receive(p.asks(ctx, "Receive", true), kind, limit)
	came := time.Now()
	if err != nil && p.truth.cloud != nil {
		p.truth.cloud.unheard(kind)
	}
	p.truth.received(p.in, got)
	p.in.p.thaw()
	if p.in.dead.Load() || fate == KillAfter || time.Since(came) > 0 {
		for i := range got {
			p.in.p.w.troubleOf(came, time.Now().Add(p.in.p.w.deployed.visibility), runsOn(&got[i])...)
		}
	}
	if p.in.dead.Load() {
		p.in.end() // they come again when their visibility is over
	}
	if fate == KillAfter {
		p.in.kill(p.in.p.kind())
		p.in.end()
	}
	w := p.in.p.w
	if w.losing.Load() {
		got = p.truth.loses(got)
	}
	if err != nil || !w.faulty.Load() {
		return got, err
	}
	kept, fires := got[:0:0], kind == ring.KindFires || kind == ring.KindSlow
	for _, m := range got {
		switch {
		case d.chance(0.02 * w.cfg.Rate):
			w.count("reordered", 1)
			w.troubleOf(time.Now(), time.Now().Add(5*time.Second), runsOn(&m)...)
			p.truth.Release(context.Background(), []store.Delivery{m}, time.Now().Add(d.between(100*time.Millisecond, 4*time.Second)))
		case fires && d.chance(0.001*w.cfg.Rate):
			w.count("15 minutes late", 1)
			w.troubleOf(time.Now(), time.Now().Add(15*time.Minute+w.deployed.visibility), runsOn(&m)...)
			w.troubleLeft(time.Now().Add(15*time.Minute + w.deployed.visibility))
			p.truth.Release(context.Background(), []store.Delivery{m}, time.Now().Add(15*time.Minute))
		case d.chance(0.002 * w.cfg.Rate):
			w.count("lost delivery", 1) // comes again after its visibility
			w.troubleOf(time.Now(), time.Now().Add(w.deployed.visibility), runsOn(&m)...)
		default:
			kept = append(kept, m)
			if fires && !w.cfg.Machine && d.chance(0.03*w.cfg.Rate) {
				w.count("duplicate delivery", 1)
				w.duplicate(m, d.between(0, 5*time.Second), d.n(100))
			}
		}
	}
	return kept, nil
}

func (p *port) LastAlive(ctx context.Context) (time.Time, error) {
	return read(p, ctx, "LastAlive", p.truth.LastAlive)
}

func (p *port) Alive(ctx context.Context, now time.Time) error {
	return write(p, ctx, "Alive", now, p.truth.Alive)
}

func (p *port) PutLog(ctx context.Context, run *core.Run, k core.KeptLog) error {
	return write(p, ctx, "PutLog", k, func(ctx context.Context, k core.KeptLog) error { return p.truth.PutLog(ctx, run, k) })
}

func (p *port) KeptLog(ctx context.Context, run core.RunID) (k core.KeptLog, is bool, err error) {
	k, err = read(p, ctx, "KeptLog", func(ctx context.Context) (core.KeptLog, error) {
		var k core.KeptLog
		var err error
		k, is, err = p.truth.KeptLog(ctx, run)
		return k, err
	})
	return k, is, err
}

// runsOn are the runs of a message.
func runsOn(d *store.Delivery) []core.RunID {
	ids := make([]core.RunID, len(d.Message.Fires))
	for i, f := range d.Message.Fires {
		ids[i] = f.Run
	}
	if c := d.Message.Check; c != nil {
		ids = append(ids, c.Runs...)
	}
	if a := d.Message.PostRun; a != nil {
		ids = append(ids, a.Run)
	}
	return ids
}

func (p *port) Ack(ctx context.Context, done []store.Delivery) []error {
	return writes(p, ctx, "Ack", done, p.truth.Ack)
}

func (p *port) Release(ctx context.Context, back []store.Delivery, at time.Time) []error {
	for i := range back {
		p.in.p.w.putBack(&back[i], at)
	}
	return writes(p, ctx, "Release", back, func(ctx context.Context, back []store.Delivery) []error {
		return p.truth.Release(ctx, back, at)
	})
}
