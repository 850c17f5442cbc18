package dispatch

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// intent is what the judgement of a fire asks for.
type intent uint8

const (
	send        intent = iota + 1
	fallsRecord        // recorded as skipped with the reason
	fallsSilent        // a newer plan or a change record covers it: listed as left
	fallsLate          // recorded, unless it is claimed: a claimed run is not judged late again
)

// status is how far an item of a batch has come.
type status uint8

const (
	pending status = iota
	mine           // claimed by this invocation, to be sent
	sending
	done        // closed, or settled in somebody's stored journal
	accepted    // needs my journal
	unconfirmed // needs my journal
	left        // needs my journal
	ending      // its end is to be stored
	passing     // to be given back and put on the ring again
	notDone     // somebody else's: its message is not acked
	buried      // to go to the dead letters
	slowed      // to go on the slow lane
	inLine      // to be taken in hand once its app has room
)

// item is one fire of a batch, in all its copies.
type item struct {
	fire    core.Fire
	msgs    []int // the messages that brought it
	try     int
	slow    bool      // it came on the slow lane, and stays there
	job     *core.Job // nil: gone
	app     *core.App
	intent  intent
	reason  core.Reason
	status  status
	run     *core.Run // once claimed or looked at; before, an empty one that all share
	claimed bool      // owned by this invocation at some time
	said    bool      // the watchdog will come to a journal that names it: stored in time, or told of
	held    bool      // it counts among the fires in hand
	order   []string  // addresses to try, the claimed one first
	choice  choice    // of what was asked, where the route asks
	next    int       // index into order of the next to try
	retryAt time.Time // of notDone: when it may be tried again
	err     error
	end     *Answer // of a send that ended the run
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
	apps     map[string]*core.App // one for all its fires
	live     map[string][]string  // addresses by app
	calls    map[string]bool      // apps with a call: among their addresses
	outage   bool                 // executors may be missing only because we were away
	silent   map[at]bool          // queues that were polled, and are no more

	mu      sync.Mutex   // guards item status and items while sends are open, and the fields below
	settled []core.Entry // of items that are gone: answered long ago, while others are awaited
	of      map[int]bool // the messages that brought those
	v       int
	stored  bool // the last journal written is stored
	blocked bool // the journal is refused: no further send is begun
	dirty   bool // something was answered since the last journal
}

// noRun is never written to.
var noRun core.Run

// at is an address of an app.
type at struct{ app, address string }

func newBatch(d *Dispatcher, msgs []ring.Message, idx []int) *batch {
	b := &batch{d: d, idx: idx, nonce: d.o.Nonce(), began: time.Now()}
	h := fnv.New32a()
	h.Write([]byte(b.nonce))
	b.key = core.JournalKey{Minute: d.o.Now().Unix() / 60, Suffix: int(h.Sum32() % core.JournalSuffixes), Nonce: b.nonce}
	byRun := make(map[core.RunID]*item, len(idx)*ring.MaxFires)
	for _, i := range idx {
		for _, f := range msgs[i].Fires {
			it := byRun[f.Run]
			if it == nil {
				it = &item{fire: f, try: msgs[i].Try, run: &noRun}
				byRun[f.Run] = it
				b.items = append(b.items, it)
			} else if f.Rev > it.fire.Rev {
				// The copy with the job's present rev decides; no copy can be newer than that.
				it.fire = f
			}
			it.slow = it.slow || msgs[i].Slow
			if n := len(it.msgs); n == 0 || it.msgs[n-1] != i {
				it.msgs = append(it.msgs, i)
			}
		}
	}
	return b
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
	if !own {
		if longest := b.longestCall(); longest > 0 {
			cancel()
			deadline = time.Now().Add(max(b.d.o.Invocation, longest+b.d.o.Reserve+time.Second))
			b.ends(deadline)
		}
	}
	work, cancel2 := context.WithDeadline(ctx, deadline)
	defer cancel2()
	b.judge()
	var asks map[string][]*item
	asks, b.items = b.asking(b.items)
	b.claim(work, b.items)
	b.look(work, b.items)
	b.sendAll(work, asks, free)
	b.closeEnded(work)
	b.finalJournal(work)
	b.checks(work, b.items)
	b.putBackRest(work)
}

// read fills in jobs, apps and executors, all read after the hold. A key that
// cannot be read makes its fires passing.
func (b *batch) read(ctx context.Context) {
	ids := make([]core.JobID, 0, len(b.items))
	var own []core.RunID
	for _, it := range b.items {
		ids = append(ids, it.fire.Run.Job())
		if _, planned := it.fire.Run.Planned(); !planned {
			own = append(own, it.fire.Run)
		}
	}
	ids = distinct(ids)
	jobs, unreadJobs, err := readAll(ctx, ids, b.d.store.Jobs)
	if err != nil {
		b.allPassing(err)
		return
	}
	var gone []core.JobID
	var names []string
	for _, id := range ids {
		if j, ok := jobs[id]; ok {
			names = append(names, j.Def.App)
		} else if !slices.Contains(unreadJobs, id) {
			gone = append(gone, id)
		}
	}
	names = distinct(names)
	apps, unreadApps, err := readAll(ctx, names, b.d.store.Apps)
	if err != nil {
		b.allPassing(err)
		return
	}
	global, err := b.d.store.Global(ctx)
	if core.CodeOf(err) == core.CodeRefused { // fenced: the messages are another's
		for _, it := range b.items {
			if it.status == pending {
				it.status, it.err = notDone, err
			}
		}
		return
	}
	if err != nil {
		b.allPassing(err)
		return
	}
	executors, err := b.d.store.Executors(ctx, names)
	if err != nil {
		b.allPassing(err)
		return
	}
	var stones map[core.JobID]core.Tombstone
	if len(gone) > 0 {
		if stones, err = b.d.store.Tombstones(ctx, gone); err != nil {
			b.allPassing(err)
			return
		}
	}
	var runs map[core.RunID]core.Run
	var unreadRuns []core.RunID
	if len(own) > 0 {
		if runs, unreadRuns, err = readAll(ctx, own, b.d.store.Runs); err != nil {
			b.allPassing(err)
			return
		}
	}
	now := b.now()
	b.outage = !global.UpSince.IsZero() && now.Before(global.UpSince.Add(b.d.o.Expiry))
	b.apps = make(map[string]*core.App, len(names))
	b.live = make(map[string][]string, len(names))
	b.calls, b.silent = map[string]bool{}, map[at]bool{}
	for _, name := range names {
		app := apps[name]
		app.Name = name
		b.apps[name] = &app
		for _, e := range app.Candidates(executors[name], global, now, b.d.o.Expiry) {
			b.live[name] = append(b.live[name], e.Address)
			if strings.HasPrefix(e.Address, "queue:") && e.Silent(global, now, b.d.o.Expiry) {
				b.silent[at{name, e.Address}] = true
			}
		}
		b.calls[name] = hasCall(b.live[name])
	}
	for _, it := range b.items {
		id := it.fire.Run.Job()
		if slices.Contains(unreadJobs, id) {
			it.pass(core.ErrThrottled)
			continue
		}
		job, ok := jobs[id]
		if !ok {
			b.judgeGone(it, stones)
			continue
		}
		if slices.Contains(unreadApps, job.Def.App) {
			it.pass(core.ErrThrottled)
			continue
		}
		it.job = job
		it.app = b.apps[job.Def.App]
		if _, planned := it.fire.Run.Planned(); !planned {
			run, ok := runs[it.fire.Run]
			switch {
			case ok:
				if it.run = &run; b.moved(it) {
					it.status = done
				}
			case slices.Contains(unreadRuns, it.fire.Run):
				it.pass(core.ErrThrottled)
			default:
				it.bury("there is no record of run " + it.fire.Run.String())
			}
		}
		b.pauses(it, global.Pause, global.Past, now)
		b.pauses(it, it.app.Pause, it.app.Past, now)
	}
}

// readAll reads keys and reads again what was left unread, a few times.
func readAll[K comparable, V any](ctx context.Context, keys []K, read func(context.Context, []K) (map[K]V, []K, error)) (map[K]V, []K, error) {
	if len(keys) == 0 {
		return map[K]V{}, nil, nil
	}
	found, unread, err := read(ctx, keys)
	for try := 0; len(unread) > 0 && err == nil && try < 3; try++ {
		var more map[K]V
		more, unread, err = read(ctx, unread)
		for k, v := range more {
			found[k] = v
		}
	}
	return found, unread, err
}

func (it *item) pass(err error) { it.status, it.err = passing, err }

func (it *item) bury(why string) { it.status, it.err = buried, errors.New(why) }

func (b *batch) allPassing(err error) {
	for _, it := range b.items {
		if it.status == pending {
			it.pass(err)
		}
	}
}

// verdicts says of each message whether it may be acked: each of its fires is
// closed, or settled in a stored journal, or in a new message that is sent.
func (b *batch) verdicts(out []Verdict) {
	ok := map[int]*Verdict{}
	for _, i := range b.idx {
		out[i] = Verdict{Ack: true}
		ok[i] = &out[i]
	}
	if !b.stored {
		for m := range b.of {
			*ok[m] = Verdict{Err: errNotStored}
		}
	}
	for _, it := range b.items {
		var fault error
		switch it.status {
		case done:
		case accepted, unconfirmed, left:
			if !b.stored {
				fault = errNotStored
			}
		default:
			fault = it.err
			if fault == nil {
				fault = errors.New("not done")
			}
		}
		if fault == nil {
			continue
		}
		for _, m := range it.msgs {
			v := ok[m]
			if v.Ack {
				*v = Verdict{RetryAt: it.retryAt, Err: fault}
			} else if it.retryAt.After(v.RetryAt) {
				v.RetryAt = it.retryAt
			}
		}
	}
}

var errNotStored = errors.New("journal not stored")

// finalJournal stores what was accepted, unconfirmed or left; when that cannot
// be done at all, a check carries it.
func (b *batch) finalJournal(ctx context.Context) {
	b.mu.Lock()
	need := b.journalled()
	stored := b.stored && !b.dirty && b.names()
	b.mu.Unlock()
	if !need {
		b.stored = true
		return
	}
	if stored {
		return
	}
	for try := 0; ctx.Err() == nil && b.inTime(b.d.o.Reserve/2); try++ {
		if b.writeJournal(ctx) {
			return
		}
		if !sleep(ctx, min(50*time.Millisecond<<min(try, 5), time.Second)) {
			break
		}
	}
	// The check is sent after the work's deadline if need be: it is neither a
	// claim nor a send to an executor, and without it the message only comes again.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.d.o.Reserve/2)
	defer cancel()
	b.mu.Lock()
	b.v++
	j, _ := b.journal()
	b.mu.Unlock()
	b.stored = b.tell(last, j) == nil
}

// tell sends a check that carries a journal: its consumer stores it, and asks
// for it to be read where the walk over the minutes has not been.
func (b *batch) tell(ctx context.Context, j core.Journal) error {
	c := &ring.Check{Journal: &j}
	for _, e := range j.Entries {
		c.Runs = append(c.Runs, e.Run)
	}
	at := b.now()
	return b.d.ring.Enqueue(ctx, []ring.Out{{NotBefore: at, Message: ring.Message{Kind: ring.KindCheck, Slot: core.InstantOf(at), Check: c}}})[0]
}

// late reports that the watchdog may have walked over the minute of the claims,
// or be about to: a journal that is stored now for the first time is not read.
func (b *batch) late() bool { return b.since() > b.d.o.Behind/2 }

// since is how long after the claims it is at least for the watchdog, which goes by
// the wall: that shows where the machine slept, but not where it was set back.
func (b *batch) since() time.Duration {
	return max(time.Since(b.began), b.now().Round(0).Sub(time.Unix(b.key.Minute*60+60, 0)))
}

// journalled reports whether anything needs the journal.
func (b *batch) journalled() bool {
	if len(b.settled) > 0 {
		return true
	}
	for _, it := range b.items {
		if it.status == accepted || it.status == unconfirmed || it.status == left {
			return true
		}
	}
	return false
}

// journal is every run that this invocation claimed or left, as it stands.
// Callers hold mu.
func (b *batch) journal() (j core.Journal, unsaid []*item) {
	j = core.Journal{Key: b.key, V: b.v, Entries: make([]core.Entry, 0, len(b.settled)+len(b.items))}
	j.Entries = append(j.Entries, b.settled...)
	for _, it := range b.items {
		if e, ok := it.entry(); ok {
			j.Entries = append(j.Entries, e)
			if !it.said {
				unsaid = append(unsaid, it)
			}
		}
	}
	return j, unsaid
}

// names reports whether all that the journal ought to name is named in time.
// Callers hold mu.
func (b *batch) names() bool {
	return !slices.ContainsFunc(b.items, func(it *item) bool {
		_, ok := it.entry()
		return ok && !it.said
	})
}

// entry is what the journal says of a fire; none of what this invocation has
// nothing to do with any more.
func (it *item) entry() (e core.Entry, ok bool) {
	e = core.Entry{Run: it.fire.Run, Address: it.run.Address}
	switch it.status {
	case accepted:
		e.Outcome = core.Accepted
	case unconfirmed:
		e.Outcome = core.Unconfirmed
	case left:
		e.Outcome, e.Address = core.Left, ""
	case mine, sending, ending, passing:
		e.Outcome = core.Begun
		return e, it.claimed
	default:
		return e, false
	}
	return e, true
}

// thin forgets of the fires that are settled what the end of the batch does not
// need, for it may be an hour away: one call is awaited, and the batch was a
// thousand fires.
func (b *batch) thin(ctx context.Context) {
	b.mu.Lock()
	var answered []*item
	kept := make([]*item, 0, len(b.items))
	for _, it := range b.items {
		if _, named := it.entry(); named && !it.said {
			kept = append(kept, it)
			continue
		}
		switch it.status {
		case accepted, unconfirmed, left:
			e, _ := it.entry()
			b.settled = append(b.settled, e)
			if b.of == nil {
				b.of = map[int]bool{}
			}
			for _, m := range it.msgs {
				b.of[m] = true
			}
			answered = append(answered, it)
		case done:
		default:
			kept = append(kept, it)
		}
	}
	b.items = kept
	b.mu.Unlock()
	b.checks(ctx, answered)
}

// writeJournal stores the journal once (table F). Only one caller at a time.
// One that names a run late is told of before: who finds it stored concludes from it,
// and the watchdog may have been done with what was stored before it.
func (b *batch) writeJournal(ctx context.Context) bool {
	b.mu.Lock()
	b.v++
	b.dirty = false
	j, unsaid := b.journal()
	b.mu.Unlock()
	var err error
	told := false
	if len(unsaid) > 0 && b.late() {
		err = b.tell(ctx, j)
		told = err == nil
	}
	if err == nil {
		err = b.d.store.PutJournal(ctx, j)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Refused means that a write with this V or a higher one is stored. This
	// batch writes one at a time with growing V, so it was this very write, or
	// that of the check that tells of it.
	b.stored = err == nil || refused(err)
	if told || b.stored && !b.late() {
		for _, it := range unsaid {
			it.said = true
		}
	} else if len(unsaid) > 0 {
		b.stored = false // it took so long: again, and told of
	}
	b.blocked = !b.stored
	if b.blocked {
		b.dirty = true
	}
	return b.stored
}

// checks asks the watchdog to look at runs with a timeout soon after it.
func (b *batch) checks(ctx context.Context, items []*item) {
	byTime := map[core.Instant][]core.RunID{}
	for _, it := range items {
		if it.status != accepted && it.status != unconfirmed || it.job == nil || it.job.Def.Timeout <= 0 {
			continue
		}
		at := core.Ceil(b.now().Add(it.job.Def.Timeout + b.d.o.CheckGrace))
		if at.Time().Sub(b.now()) > b.d.o.MaxAhead {
			continue // the journal is read in time for these
		}
		byTime[at] = append(byTime[at], it.fire.Run)
	}
	if len(byTime) == 0 {
		return
	}
	var out []ring.Out
	for at, runs := range byTime {
		out = append(out, ring.Out{NotBefore: at.Time(), Message: ring.Message{Kind: ring.KindCheck, Slot: at, Check: &ring.Check{Runs: runs}}})
	}
	for _, err := range b.d.ring.Enqueue(ctx, out) {
		if err != nil {
			// The journal names them: the watchdog comes later, not never.
			b.d.o.Log.Warn("check not sent", "err", err)
			return
		}
	}
}

// putBackRest puts back what is unfinished in the end (step 9), and buries what
// can never be dispatched.
func (b *batch) putBackRest(ctx context.Context) {
	var again, slow []*item
	for _, it := range b.items {
		switch it.status {
		case passing, mine: // mine: its send was never begun
			again = append(again, it)
		case slowed:
			slow = append(slow, it)
		case buried:
			b.bury(ctx, it)
		}
	}
	b.putBack(ctx, again)
	b.putSlow(ctx, slow)
}

func (b *batch) bury(ctx context.Context, it *item) {
	m := ring.Message{Kind: ring.KindFires, Slot: it.fire.Slot, Fires: []core.Fire{it.fire}}
	if err := b.d.ring.Bury(ctx, m, it.err.Error()); err != nil {
		it.err = err
		return
	}
	b.d.o.Log.Error("undeliverable fire", "run", it.fire.Run, "job", it.fire.Run.Job(), "instant", it.fire.At, "why", it.err)
	it.status = done
}

// putBack gives the claims of fires back, then puts those fires on the ring as
// new messages. One whose message is not sent stays as it was.
func (b *batch) putBack(ctx context.Context, again []*item) {
	var gives []GiveBack
	for _, it := range again {
		if it.claimed {
			gives = append(gives, GiveBack{Run: it.fire.Run, Owner: b.nonce, KeepAddress: it.run.MaybeSent})
		}
	}
	if len(gives) > 0 {
		b.d.store.GiveBack(ctx, gives) // any answer: go on
	}
	b.enqueue(ctx, again, func(it *item) (ring.Message, time.Time) {
		m := ring.Message{Slot: it.fire.Slot, Try: it.try + 1, Slow: it.slow}
		return m, b.now().Add(b.d.backoff(m.Try))
	})
}

// putSlow puts fires to slow addresses on the slow lane as they are: nothing of
// theirs has failed.
func (b *batch) putSlow(ctx context.Context, slow []*item) {
	b.enqueue(ctx, slow, func(it *item) (ring.Message, time.Time) {
		return ring.Message{Slot: it.fire.Slot, Try: it.try, Slow: true}, b.now()
	})
}

// enqueue puts fires into new messages, together where to says the same of them.
// A fire whose message is sent is done.
func (b *batch) enqueue(ctx context.Context, items []*item, to func(*item) (ring.Message, time.Time)) {
	type group struct {
		slot core.Instant
		try  int
		slow bool
	}
	groups := map[group][]*item{}
	when := map[group]time.Time{}
	for _, it := range items {
		m, at := to(it)
		g := group{m.Slot, m.Try, m.Slow}
		if groups[g] == nil {
			when[g] = at
		}
		groups[g] = append(groups[g], it)
	}
	var out []ring.Out
	var of [][]*item
	for g, items := range groups {
		at := when[g]
		for chunk := range slices.Chunk(items, ring.MaxFires) {
			m := ring.Message{Kind: ring.KindFires, Slot: g.slot, Try: g.try, Slow: g.slow}
			for _, it := range chunk {
				m.Fires = append(m.Fires, it.fire)
			}
			out, of = append(out, ring.Out{NotBefore: at, Message: m}), append(of, chunk)
		}
	}
	if len(out) == 0 {
		return
	}
	for k, err := range b.d.ring.Enqueue(ctx, out) {
		for _, it := range of[k] {
			if err != nil {
				it.err = err
				continue
			}
			b.set(it, done)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
