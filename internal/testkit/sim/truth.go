package sim

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// truth has the state that was really stored and sent. It keeps a mirror of frequent reads.
type truth struct {
	store *store.Store // without faults; its writes are not recorded
	w     *World
	cloud *cloud // under the store; nil without one

	mu       sync.Mutex
	known    map[core.RunID]bool // was made
	open     map[core.RunID]struct{}
	words    map[core.RunID][]int64    // retry results of handlers that failed
	owing    map[core.RunID]core.RunID // an owed run to the closed run that owes it
	owes     map[core.RunID]struct{}   // closed runs that owe something
	over     []core.RunID              // runs that ended
	covers   map[core.JobID][]cover
	fires    map[core.RunID]int  // unacked messages that name it
	hints    map[core.RunID]int  // how many of these are dropped while it waits
	slots    map[fireAt]int      // the same, of one slot
	moved    map[core.RunID]bool // triggers that were changed
	checks   map[core.RunID]int
	carried  map[core.RunID]int // checks that carry a journal with it
	postRuns map[core.RunID]int // messages on the post-run queue
	entries  map[core.RunID]int
	settled  map[core.RunID]bool       // accepted, unconfirmed or left in some stored journal
	named    map[core.RunID]bool       // was ever on the ring or in the due index
	live     map[core.RunID]int        // number of live invocations that hold a message of it
	wholes   map[core.RunID]core.RunID // shards of broadcasts
	lost     map[core.RunID]mends      // runs whose message was lost, and until when they may be unnamed
	hung     []core.RunID              // runs that an executor never ends by itself
	held     map[*incarnation]map[*invocation]struct{}
	acked    map[int64]bool
	onRing   map[int64]ring.Message       // messages of SQLite, by ID
	lastID   int64                        // of a message: SQLite numbers them from 1
	journals map[core.JournalKey]struct{} // keys of stored journals, for sweeps
	due      map[int][]core.DueItem
	nonces   map[string]*invocation
	stories  map[core.RunID]*story
	jobs     map[core.JobID][]revision
	pauses   []pauseOf
	limits   map[string]*limited       // by the name of their permits
	rows     map[core.JobID][]core.Run // ends of chains of jobs with pauseAfter in the order of storing, not skipped or killed
	kin      kin
	rounds   rounds
	idle     map[idleAt]int // idle answers of an address that no fire has used
	nobody   []trouble      // when no executor was available for the app whose executors come and go
	faults   []string
	nfaults  int
	events   map[core.RunID][]event
	compiled map[revKey]*schedule.Schedule
}

type revKey struct {
	job core.JobID
	rev int64
}

// revision is one definition of a job, as it was stored.
type revision struct {
	rev     int64
	revAt   time.Time
	sched   core.Sched
	def     core.Def
	deleted bool
	acked   time.Time // when its author got the answer; zero: never
	stored  time.Time
	ended   bool // it is the end of a pause, which the tick brought
}

// pauseOf is one pause of an app (or of everything, if empty), in each form that was stored; of one From the last form counts.
type pauseOf struct {
	app    string
	pause  core.Pause
	rev    int64
	stored time.Time // its first form
	acked  time.Time
}

func newTruth(w *World) *truth {
	store, cloud := newStore(w)
	return &truth{
		store: store, cloud: cloud, w: w, known: map[core.RunID]bool{},
		open: map[core.RunID]struct{}{}, owing: map[core.RunID]core.RunID{}, words: map[core.RunID][]int64{}, owes: map[core.RunID]struct{}{},
		covers: map[core.JobID][]cover{}, fires: map[core.RunID]int{}, slots: map[fireAt]int{}, moved: map[core.RunID]bool{},
		lost: map[core.RunID]mends{}, hints: map[core.RunID]int{},
		checks: map[core.RunID]int{}, carried: map[core.RunID]int{}, postRuns: map[core.RunID]int{}, entries: map[core.RunID]int{},
		settled: map[core.RunID]bool{}, named: map[core.RunID]bool{}, live: map[core.RunID]int{},
		held: map[*incarnation]map[*invocation]struct{}{}, acked: map[int64]bool{}, due: map[int][]core.DueItem{},
		onRing: map[int64]ring.Message{}, journals: map[core.JournalKey]struct{}{},
		nonces: map[string]*invocation{}, stories: map[core.RunID]*story{}, jobs: map[core.JobID][]revision{},
		compiled: map[revKey]*schedule.Schedule{}, events: map[core.RunID][]event{},
		wholes: map[core.RunID]core.RunID{}, limits: map[string]*limited{}, idle: map[idleAt]int{}, rows: map[core.JobID][]core.Run{},
		kin: newKin(), rounds: newRounds(),
	}
}

// fail records that a promise was broken, with the story of its run or, without a run, of its job. Callers hold mu.
func (t *truth) fail(of core.RunID, format string, args ...any) {
	t.nfaults++
	if len(t.faults) >= 20 {
		return
	}
	text := fmt.Sprintf("at +%.3fs: ", time.Since(t.w.began).Seconds()) + fmt.Sprintf(format, args...)
	if of != 0 && len(t.faults) < 3 {
		for _, e := range t.about(of) {
			text += "\n    " + e
		}
	}
	t.faults = append(t.faults, text)
}

// event is one line of a story.
type event struct {
	at   time.Duration
	text string
}

// about returns the story of a run: the events of the run, its broadcast and its shards, its
// job and of pauses, in the order of time.
func (t *truth) about(run core.RunID) []string {
	all := slices.Concat(t.events[run], t.events[core.RunID(run.Job())], t.events[0])
	whole := run
	if r, _ := t.run(run); r.Shard.Of != 0 {
		whole = r.Shard.Of
	}
	if r, _ := t.run(whole); r.IsBroadcast() {
		for id := range t.wholes {
			if k, _ := t.run(id); t.wholes[id] == whole && id != run {
				for then := id; then != 0; k, _ = t.run(then) {
					for _, e := range t.events[then] {
						all = append(all, event{e.at, fmt.Sprintf("(shard %d, run %d) %s", k.Shard.Index, then, e.text)})
					}
					if k, _ = t.run(then); k.Then == then {
						break
					}
					then = k.Then
				}
			}
		}
		if whole != run {
			for _, e := range t.events[whole] {
				all = append(all, event{e.at, fmt.Sprintf("(broadcast %d) %s", whole, e.text)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	lines := make([]string, len(all))
	for i, e := range all {
		lines[i] = fmt.Sprintf("%s +%.3f %s", t.w.began.Add(e.at).Format("15:04:05"), e.at.Seconds(), e.text)
	}
	return lines
}

// trace records an event of a run; under the number of a job, of that job; under 0, of all. Callers hold mu.
func (t *truth) trace(ctx context.Context, run core.RunID, format string, args ...any) {
	who := ""
	if inv := invocationOf(ctx); inv != nil {
		who = fmt.Sprintf("%s.%d: ", inv.in.p.name, inv.in.n)
	}
	t.events[run] = append(t.events[run], event{time.Since(t.w.began), who + fmt.Sprintf(format, args...)})
}

// bg is the context of the checker's own reads.
var bg = context.Background()

func (t *truth) run(id core.RunID) (core.Run, bool) {
	found, _ := t.store.Runs.Get(bg, []core.RunID{id})
	if g := found[id]; g.Err == nil && g.Is != nil {
		return *g.Is, true
	}
	return core.Run{}, false
}

// job returns a job; nil if there is none.
func (t *truth) job(id core.JobID) *core.Job {
	found, _ := t.store.Jobs.Get(bg, store.Whole, []core.JobID{id})
	return found[id].Is
}

// sched returns the planning data of a job.
func (t *truth) sched(id core.JobID) (s core.Sched) {
	found, _ := t.store.Jobs.Get(bg, store.Planning, []core.JobID{id})
	if j := found[id].Is; j != nil {
		s = j.Sched
	}
	return s
}

func (t *truth) claimed(ctx context.Context, nonce string) {
	if inv := invocationOf(ctx); inv != nil && nonce != "" {
		t.nonces[nonce] = inv
	}
}

// nonce is the invocation of an owner.
func (t *truth) nonce(owner string) *invocation {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.nonces[owner]
}

// fireAt is a run on a message of one slot.
type fireAt struct {
	run  core.RunID
	slot core.Instant
}

// The ring and the due index.

// inLane asserts that fires from the slow queue stay there, and are not requeued for that reason.
func (t *truth) inLane(inv *invocation, out []ring.Out) {
	came := map[core.RunID]*ring.Message{}
	for i := range inv.got {
		for _, f := range inv.got[i].Message.Fires {
			// If copies were requeued, any of them counts.
			if m := &inv.got[i].Message; m.Slow && (came[f.Run] == nil || m.Try < came[f.Run].Try) {
				came[f.Run] = m
			}
		}
	}
	for i := range out {
		m := &out[i].Message
		for _, f := range m.Fires {
			was := came[f.Run]
			switch {
			case f.Of != 0 && m.Try == 0: // its broadcast came once more
			case was == nil && m.Slow && f.Cause != core.CauseRetry:
				t.w.count("put on the slow lane", 1)
			case was != nil && !m.Slow && t.hasLimit(f.Run.Job()): // another's end, in this invocation, woke it
			case was != nil && !m.Slow:
				t.fail(f.Run, "run %d came on the slow lane and is put on the fast one", f.Run)
			case was != nil && m.Try > was.Try:
				inv.waits[f.Run] = true
			case was != nil && !inv.waits[f.Run] && m.Slot.Time().Sub(inv.in.p.now()) < time.Second:
				t.fail(f.Run, "run %d came on the slow lane and is put there once more, try %d", f.Run, m.Try)
			}
		}
	}
}

// onQueue adds a message n times to the counts of the messages on the ring; -1 removes it.
func (t *truth) onQueue(ctx context.Context, m *ring.Message, n int, what string) {
	for _, f := range m.Fires {
		t.trace(ctx, f.Run, "%s: rev %d slot %s try %d", what, f.Rev, f.Slot, m.Try)
		add(t.fires, f.Run, n)
		if m.Hint {
			add(t.hints, f.Run, n)
		}
		add(t.slots, fireAt{f.Run, f.Slot}, n)
		t.named[f.Run] = true
	}
	if a := m.PostRun; a != nil {
		t.trace(ctx, a.Run, "%s on the post-run queue: try %d", what, m.Try)
		add(t.postRuns, a.Run, n)
	}
	if c := m.Check; c != nil {
		for _, id := range c.Runs {
			add(t.checks, id, n)
			if c.Journal != nil {
				add(t.carried, id, n)
			}
		}
	}
}

// received records which process received messages.
func (t *truth) received(in *incarnation, got []store.Delivery) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range got {
		m, is := t.onRing[got[i].ID], &got[i].Message // the store holds encoded messages
		if t.cloud == nil && (m.Slow != is.Slow || !bytes.Equal(ring.Encode(m), ring.Encode(*is))) && !t.acked[got[i].ID] {
			t.fail(0, "message %d comes as %+v, and was enqueued as %+v", got[i].ID, got[i].Message, m)
		}
		for _, f := range got[i].Message.Fires {
			t.trace(bg, f.Run, "message %d comes to %s.%d", got[i].ID, in.p.name, in.n)
		}
	}
}

// healed is the longest time until messages that a queue lost are on it again. An account whose queue always has messages in flight
// knows its age only to ten minutes. The last two minutes are not compared, and the next planning comes within a minute.
func (t *truth) healed() time.Duration {
	if t.cloud != nil {
		return 13 * time.Minute
	}
	return 4 * time.Minute
}

// went asserts that the fires of an acked message are safe without it.
func (t *truth) went(ctx context.Context, id int64, m *ring.Message) {
	t.off(ctx, id, m, "ack")
	for _, f := range m.Fires {
		if why := t.whyLost(f); why != "" {
			t.fail(f.Run, "message of run %d (instant %s) was acked: %s", f.Run, f.At, why)
		}
	}
	if a := m.PostRun; a != nil {
		if r, _ := t.run(a.Run); r.OwesPostRun() != (core.PostRun{}) && t.postRuns[a.Run] == 0 {
			t.fail(a.Run, "message on the post-run queue for run %d was acked, but it still owes %+v", a.Run, r.OwesPostRun())
		}
	}
}

// off records that a message has left the ring.
func (t *truth) off(ctx context.Context, id int64, m *ring.Message, what string) {
	delete(t.onRing, id)
	t.onQueue(ctx, m, -1, fmt.Sprintf("%s of message %d", what, id))
}

// whyLost returns why a fire without a message is lost; empty if it is not.
func (t *truth) whyLost(f core.Fire) string {
	if t.fires[f.Run] > 0 || t.carried[f.Run] > 0 || t.settled[f.Run] || t.heals(f.Run) {
		return ""
	}
	r, ok := t.run(f.Run)
	switch {
	case !ok && t.covered(f.Run.Job(), f.At):
	case !ok:
		return "no run, no other message, no record"
	case r.State.Open() && r.IsBroadcast():
		return t.unsaid(&r)
	case r.State.Open() && t.entries[f.Run] == 0 && t.live[f.Run] == 0:
		return "the run is open and nothing names it"
	case t.postRunAsked(&r):
	case r.Owing() && t.live[f.Run] == 0 && !t.shardNamed(f.Run):
		return "the run owes something and nothing names it"
	}
	return ""
}

// covered reports that a skipped record reaches over an instant.
func (t *truth) covered(job core.JobID, at core.Instant) bool {
	skips, _ := t.store.Skips(bg, job, at, at)
	return len(skips) > 0
}

func add[K comparable](of map[K]int, k K, n int) {
	if of[k] += n; of[k] <= 0 {
		delete(of, k)
	}
}

func (t *truth) recount(run core.RunID) {
	t.w.entered(run.Job())
	all, _ := t.store.Jobs.Entries(bg, run.Job())
	n := 0
	for _, d := range all {
		if d.Run == run {
			n++
		}
	}
	delete(t.entries, run)
	add(t.entries, run, n)
}

// dueBefore returns the first page of a partition as it was read before, and keeps the present one, unless it is a later page.
func (t *truth) dueBefore(partition int, page []core.DueItem, first bool) []core.DueItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.due[partition]
	if first {
		t.due[partition] = page
	}
	return old
}

// Jobs and their revisions.

func (t *truth) schedule(s *core.Sched) *schedule.Schedule {
	k := revKey{s.ID, s.Rev}
	sch := t.compiled[k]
	if sch == nil {
		var err error
		if sch, err = schedule.Compile(s.Schedule, s.ID); err != nil {
			t.fail(0, "stored schedule of job %d: %v", s.ID, err)
			sch, _ = schedule.Compile(core.Schedule{}, s.ID)
		}
		t.compiled[k] = sch
	}
	return sch
}

// revised records a revision. Callers hold mu.
func (t *truth) revised(j core.Job, deleted bool) {
	list := t.jobs[j.Sched.ID]
	t.w.entered(j.Sched.ID)
	t.trace(bg, core.RunID(j.Sched.ID), "revision %d at %s: %s next %s tail %d deleted %v", j.Sched.Rev, j.Sched.RevAt.Format("15:04:05.000"),
		j.Sched.State, j.Sched.Next, j.Sched.Tail, deleted)
	if n := len(list); n > 0 && list[n-1].rev >= j.Sched.Rev {
		t.fail(0, "job %d has revision %d after %d", j.Sched.ID, j.Sched.Rev, list[n-1].rev)
	}
	t.jobs[j.Sched.ID] = append(list, revision{rev: j.Sched.Rev, revAt: j.Sched.RevAt, sched: j.Sched, def: j.Def, deleted: deleted,
		stored: time.Now()})
}

func (t *truth) pausedBy(app string, p core.Pause, rev int64) {
	if p.From.IsZero() {
		return
	}
	t.trace(bg, 0, "pause of %q from %s to %s", app, p.From.Format("15:04:05.000"), p.To.Format("15:04:05.000"))
	for i := range t.pauses {
		if o := &t.pauses[i]; o.app == app && o.pause.From.Equal(p.From) {
			if !o.pause.To.IsZero() && (p.To.IsZero() || p.To.After(o.pause.To)) {
				o.acked = time.Time{} // its new period is not acknowledged
			}
			o.pause, o.rev = p, rev
			return
		}
	}
	t.pauses = append(t.pauses, pauseOf{app: app, pause: p, rev: rev, stored: time.Now()})
}

// latest is the last moment that a change names, by the clock of its author.
func (t *truth) latest() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	var last time.Time
	for _, revs := range t.jobs {
		if at := revs[len(revs)-1].revAt; at.After(last) {
			last = at
		}
	}
	for i := range t.pauses {
		for _, at := range []time.Time{t.pauses[i].pause.From, t.pauses[i].pause.To} {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

// acknowledged records that the author of a job's change got the answer.
func (t *truth) acknowledged(job core.JobID, rev int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.jobs[job] {
		if r := &t.jobs[job][i]; r.rev == rev && r.acked.IsZero() {
			r.acked = time.Now()
		}
	}
}

// pauseAcknowledged records that the author of a pause got the answer.
func (t *truth) pauseAcknowledged(app string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.pauses) - 1; i >= 0; i-- {
		if o := &t.pauses[i]; o.app == app {
			if o.acked.IsZero() {
				o.acked = time.Now()
			}
			return
		}
	}
}

// Invocations.

func (t *truth) hold(inv *invocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if inv.in.dead.Load() {
		return
	}
	if t.held[inv.in] == nil {
		t.held[inv.in] = map[*invocation]struct{}{}
	}
	t.held[inv.in][inv] = struct{}{}
	inv.in.works.Add(1)
	for _, id := range inv.all {
		t.live[id]++
	}
}

// letGo ends an invocation's hold; its messages are acked or come again.
func (t *truth) letGo(inv *invocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.held[inv.in][inv]; !ok {
		return
	}
	delete(t.held[inv.in], inv)
	inv.in.works.Add(-1)
	for _, id := range inv.all {
		add(t.live, id, -1)
	}
}

func (t *truth) buryLive(in *incarnation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, _ := in.p.dice("bury")
	for inv := range t.held[in] {
		for _, id := range inv.all {
			add(t.live, id, -1)
		}
		// Some of its messages come to another around the end of its claims.
		if t.w.faulty.Load() && t.w.cfg.Rate > 0 && d.chance(0.3) {
			for _, m := range inv.got {
				t.w.count("duplicate delivery", 1)
				t.w.duplicate(m, time.Until(inv.until)-d.between(-time.Second, 3*time.Second), d.n(100))
			}
		}
	}
	delete(t.held, in)
}

func (t *truth) notePause(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for in, invs := range t.held {
		if in.p == p {
			for inv := range invs {
				inv.mu.Lock()
				inv.paused = true
				inv.mu.Unlock()
			}
		}
	}
}

// sweepEvery is how many seconds lie between two sweeps.
const sweepEvery = 5

// sweep lets the store remove expired runs, and checks which open runs a stored journal still
// names. A store that expires by age is left.
func (t *truth) sweep() {
	if t.cloud != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.store.Sweep(bg, time.Now(), 0, 20*24*time.Hour, 1<<30)
	if err != nil {
		t.fail(0, "sweep: %v", err)
	}
	t.w.count("swept", n)
	if n == 0 {
		return
	}
	left := map[core.RunID]bool{}
	stored, err := t.store.Journals(bg, slices.Collect(maps.Keys(t.journals)))
	if err != nil {
		t.fail(0, "read journals: %v", err)
	}
	for k := range t.journals {
		if _, is := stored[k]; !is {
			delete(t.journals, k)
		}
	}
	for _, j := range stored {
		for _, e := range j.Entries {
			if e.Outcome.Settled() {
				left[e.Run] = true
			}
		}
	}
	for _, of := range []iter.Seq[core.RunID]{maps.Keys(t.open), maps.Keys(t.owes)} {
		for id := range of {
			if t.settled[id] && !left[id] {
				delete(t.settled, id)
				t.trace(bg, id, "no journal names it any more")
			}
		}
	}
}

// otherwiseNamed reports whether a journal, an invocation, a check or an entry names a run.
func (t *truth) otherwiseNamed(id core.RunID) bool {
	return t.settled[id] || t.live[id] > 0 || t.checks[id] > 0 || t.entries[id] > 0
}

// parentOwes reports whether the maker of a run, or its successor, has yet to send it. The run can be cancelled before that.
func (t *truth) parentOwes(id core.RunID) bool {
	_, owed := t.owes[t.owing[id]]
	return owed
}

// look asserts 7.1 over all open runs and pending follow-ups.
func (t *truth) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.there()
	for id := range t.open {
		fires := t.fires[id]
		if t.moved[id] { // one of another slot lets it be
			if r, _ := t.run(id); r.Owner == "" {
				fires = t.slots[fireAt{id, r.Slot}]
			}
		}
		if hints := t.hints[id]; hints > 0 { // reading each open run takes long
			if r, _ := t.run(id); r.State == core.Queued {
				fires -= hints
			}
		}
		if fires > 0 || t.otherwiseNamed(id) || t.heals(id) || t.parentOwes(id) {
			continue
		}
		if j := t.rounds.now[id.Job()]; j.Round == id && (j.Full || j.Over) {
			continue // the actor that owes the last recorded end continues it
		}
		if r, _ := t.run(id); r.IsBroadcast() {
			if why := t.unsaid(&r); why != "" {
				t.fail(id, "broadcast %d is open: %s", id, why)
				delete(t.open, id)
			}
			continue
		}
		t.fail(id, "run %d is open and named by no message, journal, check, entry or invocation", id)
		delete(t.open, id) // reported once
	}
	for id := range t.owes {
		if t.fires[id] > 0 || t.otherwiseNamed(id) || t.heals(id) || t.w.calling(id) || t.parentOwes(id) {
			continue
		}
		if r, _ := t.run(id); !t.postRunAsked(&r) && !t.shardNamed(id) {
			t.fail(id, "run %d owes something and is named by no message, journal, check, entry or invocation", id)
			delete(t.owes, id)
		}
	}
}

// quiet reports that nothing is open, owed or on its way.
func (t *truth) quiet() (bool, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open)+len(t.owes)+len(t.fires)+len(t.checks)+len(t.postRuns)+len(t.entries) == 0 {
		return true, ""
	}
	some := slices.Sorted(maps.Keys(t.open))
	return false, fmt.Sprintf("%d open (such as %v), %d owe, %d on messages, %d in checks, %d on the post-run queue, %d entries",
		len(t.open), some[:min(3, len(some))], len(t.owes), len(t.fires), len(t.checks), len(t.postRuns), len(t.entries))
}
