package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/tickring/tickring/store"
	"iter"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

// truth is the real store, without faults. It keeps a mirror of frequent reads, and asserts
// docs/internals/claim-protocol.md section 7 at each effect that could break it.
type truth struct {
	Store
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
	limits   map[string]*limited // by the name of their permits
	rows     map[core.JobID]*rows
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

// pauseOf is one pause of an app (or of everything, if empty), in each form
// that was stored; of one From the last form counts.
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
		Store: store, cloud: cloud, w: w, known: map[core.RunID]bool{},
		open: map[core.RunID]struct{}{}, owing: map[core.RunID]core.RunID{}, words: map[core.RunID][]int64{}, owes: map[core.RunID]struct{}{},
		covers: map[core.JobID][]cover{}, fires: map[core.RunID]int{}, slots: map[fireAt]int{}, moved: map[core.RunID]bool{},
		lost:   map[core.RunID]mends{},
		checks: map[core.RunID]int{}, carried: map[core.RunID]int{}, postRuns: map[core.RunID]int{}, entries: map[core.RunID]int{},
		settled: map[core.RunID]bool{}, named: map[core.RunID]bool{}, live: map[core.RunID]int{},
		held: map[*incarnation]map[*invocation]struct{}{}, acked: map[int64]bool{}, due: map[int][]core.DueItem{},
		onRing: map[int64]ring.Message{}, journals: map[core.JournalKey]struct{}{},
		nonces: map[string]*invocation{}, stories: map[core.RunID]*story{}, jobs: map[core.JobID][]revision{},
		compiled: map[revKey]*schedule.Schedule{}, events: map[core.RunID][]event{},
		wholes: map[core.RunID]core.RunID{}, limits: map[string]*limited{}, idle: map[idleAt]int{}, rows: map[core.JobID]*rows{}, kin: newKin(),
		rounds: newRounds(),
	}
}

// fail records that a promise was broken, with the story of its run or, without a run, of its
// job. Callers hold mu.
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

// trace records an event of a run; under the number of a job, of that job; under 0, of all.
// Callers hold mu.
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
	found, _, _ := t.Store.Runs(bg, []core.RunID{id})
	r, ok := found[id]
	return r, ok
}

// A change of runs.

func (t *truth) Create(ctx context.Context, runs []core.Run) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := t.Store.Create(ctx, runs)
	for i, err := range errs {
		t.trace(ctx, runs[i].ID, "create %s %s rev %d owner %s: %v", runs[i].State, runs[i].Reason, runs[i].Rev, runs[i].Owner, err)
		if t.took(runs[i].ID, "a claim", err, func() bool {
			_, ok := t.run(runs[i].ID)
			return ok && !t.known[runs[i].ID]
		}) {
			t.created(ctx, &runs[i])
		}
	}
	return errs
}

func (t *truth) created(ctx context.Context, r *core.Run) {
	t.known[r.ID] = true
	t.w.claimed(r)
	t.joins(r)
	t.born(r)
	if r.State.Open() {
		t.open[r.ID] = struct{}{}
	} else {
		t.over = append(t.over, r.ID)
		t.decided(r.ID)
	}
	if _, planned := r.ID.Planned(); !planned && t.wholes[r.ID] == 0 {
		t.story(r.ID).born = time.Now()
	}
	if r.IsBroadcast() {
		t.spreads(r)
	}
	if r.Cause == core.CauseRetry && t.wholes[r.ID] == 0 {
		if _, ok := t.owing[r.ID]; !ok {
			t.fail(r.ID, "retry %d was made and no run owes it", r.ID)
		}
	}
	if r.State == core.Queued {
		t.queued(ctx, r)
	}
	if revs := t.jobs[r.ID.Job()]; r.Cause == core.CauseParent && r.Rev == 0 && len(revs) > 0 && !revs[len(revs)-1].deleted {
		t.fail(r.ID, "child %d was made without its job, which is there", r.ID)
	}
	t.claimed(ctx, r.Owner)
	if at, planned := r.ID.Planned(); planned && r.Owner != "" {
		for _, rev := range t.jobs[r.ID.Job()] {
			// Checked once, before the claim, which is retried until the deadline.
			if late := r.SentAt.Sub(r.Slot.Time()); rev.rev == r.Rev && rev.sched.Misfire == core.MisfireSkip && late > rev.sched.Grace+
				t.w.deployed.invocation+t.w.slack() {
				t.fail(r.ID, "run %d (instant %s) was claimed %s after its slot, with policy skip and grace %s", r.ID, at, late, rev.sched.Grace)
			}
		}
	}
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

func (t *truth) PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err := t.Store.PutTriggered(ctx, run, entry)
	if t.took(run.ID, "a trigger", err, func() bool {
		_, ok := t.run(run.ID)
		return ok && !t.known[run.ID]
	}) {
		t.known[run.ID] = true
		t.joins(&run)
		t.born(&run)
		t.open[run.ID] = struct{}{}
		t.story(run.ID).born, t.story(run.ID).made = time.Now(), time.Now()
		t.entries[run.ID]++
		t.named[run.ID] = true
	}
	return err
}

// fireAt is a run on a message of one slot.
type fireAt struct {
	run  core.RunID
	slot core.Instant
}

// ChangeTriggered fails the simulation if a run that has an owner is changed.
func (t *truth) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var before core.Run
	id := c.Put.ID
	done := t.yields(ctx, func() { before, _ = t.run(id) })
	err := t.Store.ChangeTriggered(ctx, c)
	done()
	t.trace(ctx, id, "change to slot %s, until %s: %v", c.Put.To.Slot, c.Put.To.Until.Format("15:04:05.000"), err)
	t.recount(id)
	if t.took(id, "a change", err, func() bool {
		r, _ := t.run(id)
		return r.Until.Equal(c.Put.To.Until) && !before.Until.Equal(r.Until)
	}) {
		t.moved[id] = true
		if r, ok := t.run(id); ok {
			t.joins(&r)
		}
		t.story(id).born = time.Now()
		t.w.count("trigger changed", 1)
		if !c.Put.Holds(&before) {
			t.fail(id, "run %d was changed as one that waits, and was %s, of %q until %s", id, before.State, before.Owner, before.Until)
		}
	}
	return err
}

func (t *truth) PutSkips(ctx context.Context, skips []core.Skip) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := t.Store.PutSkips(ctx, skips)
	for i, err := range errs {
		k := &skips[i]
		if t.took(core.RunID(k.Job), "a record", err, func() bool { return t.covered(k.Job, k.First) && t.covered(k.Job, k.Last) }) {
			t.covers[k.Job] = append(t.covers[k.Job], cover{k.First, k.Last, time.Now()})
		}
		t.trace(ctx, core.RunID(k.Job), "skipped %s to %s: %s: %v", k.First, k.Last, k.Reason, err)
	}
	return errs
}

// verb returns the name of a put's operation.
func verb(p *core.RunPut) string {
	switch {
	case !p.Was.IsBroadcast() && p.To.IsBroadcast() && p.Set&core.RunGiven != 0:
		return "Spread"
	case p.Ends() && p.Set&core.RunOwes == 0:
		return "SkipUnsent"
	case p.Ends():
		return "CloseRuns"
	case p.Set&core.RunOwner != 0 && p.To.Owner != "":
		return "TakeOver"
	case p.Set&core.RunOwner != 0:
		return "GiveBack"
	case p.Set&core.RunAddress != 0:
		return "Readdress"
	case p.Set&core.RunTime != 0:
		return "Joined"
	case p.Set&core.RunOwes != 0 && len(p.To.Owes) > 0 && p.Set&core.RunPlace == 0:
		return "Draw"
	case p.Set&core.RunOwes != 0:
		return "ClearOwed"
	case p.Set&core.RunKill != 0:
		return "MarkKilled"
	case p.Set&core.RunPostRun != 0:
		return "ClearPostRun"
	case p.Set&core.RunState != 0:
		return "Wait"
	}
	return "NoteLate"
}

// PutRuns fails the simulation if a completed write did not meet its condition, or if a run breaks a rule.
func (t *truth) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := make([]core.Run, len(puts))
	for i := range puts {
		before[i], _ = t.run(puts[i].ID)
	}
	errs := t.Store.PutRuns(ctx, puts)
	for i, err := range errs {
		p, was, does := &puts[i], &before[i], verb(&puts[i])
		t.trace(ctx, p.ID, "%s from %q to %q %s %s %s owes %v: %v", does, p.Was.Owner, p.To.Owner, p.To.State, p.To.Reason, p.To.Address,
			p.To.Owes, err)
		if !t.took(p.ID, does, err, func() bool {
			if slices.ContainsFunc(puts[:i], func(o core.RunPut) bool { return o.ID == p.ID }) { // the effect may be the other one's
				return false
			}
			is, there := t.run(p.ID)
			to := is
			p.Apply(&to)
			for _, at := range []*time.Time{&to.Until, &to.SentAt, &to.KillAt, &to.EndedAt} {
				*at = core.FromMillis(core.Millis(*at))
			}
			return there && reflect.DeepEqual(to, is) && !reflect.DeepEqual(is, *was)
		}) {
			continue
		}
		// Fields that the decision relies on are compared here, whether or not the put compares them.
		owned := does == "TakeOver" || does == "GiveBack" || does == "Readdress" || does == "Wait" || does == "Spread"
		if !p.Holds(was) || owned && (!was.State.Open() || was.Owner != p.Was.Owner) {
			t.fail(p.ID, "%s of run %d was done on a condition that it did not meet: %+v of %+v", does, p.ID, *p, *was)
		}
		switch does {
		case "MarkKilled":
			t.replaced(p, was)
		case "SkipUnsent", "CloseRuns":
			t.ended(ctx, p, does == "CloseRuns")
		case "Spread":
			if is, _ := t.run(p.ID); was.MayHaveBeenSent() {
				t.fail(p.ID, "run %d has become a broadcast, but was claimed before: %+v", p.ID, *was)
			} else {
				t.spreads(&is)
			}
		case "TakeOver":
			t.w.claimed(&core.Run{ID: p.ID, Owner: p.To.Owner, Until: p.To.Until})
			t.taken(ctx, p, was)
		case "Wait":
			is, _ := t.run(p.ID)
			t.queued(ctx, &is)
		case "GiveBack":
			if r, _ := t.run(p.ID); was.MaybeSent && r.Address != was.Address {
				t.fail(p.ID, "run %d was given back without its address although it may have been sent", p.ID)
			}
		case "Readdress": // 7.2; a Readdress without a change only records where a run is found
			switch {
			case p.To.Address == was.Address:
			case was.MaybeSent:
				t.fail(p.ID, "run %d moved from %s to %s although it may have been sent", p.ID, was.Address, p.To.Address)
			case len(t.story(p.ID).arrivals) > 0:
				t.fail(p.ID, "run %d moved from %s to %s although it arrived there", p.ID, was.Address, p.To.Address)
			}
		case "Joined":
			t.joined(p, was)
		case "Draw":
			t.drawn(p, was)
		case "ClearOwed": // 7.5: each cleared follow-up exists, and is or was on its way
			if len(p.To.Owes) == 0 {
				delete(t.owes, p.ID)
			}
			for _, o := range was.Owes {
				if slices.Contains(p.To.Owes, o) {
					continue
				} else if o.Pause {
					t.pauseMade(p.ID)
				} else if t.counted(o.Run) {
					continue
				} else if _, ok := t.run(o.Run); !ok {
					t.fail(p.ID, "run %d owes nothing any more, and run %d was never made", p.ID, o.Run)
				} else if !t.named[o.Run] {
					t.fail(p.ID, "run %d owes nothing any more, and run %d was never sent on its way", p.ID, o.Run)
				}
			}
			t.placed(p)
			t.owesPostRun(p.ID)
		case "ClearPostRun":
			t.postRunMade(p.ID, was)
		}
	}
	return errs
}

// taken asserts 7.3: the new owner saw until pass by its clock, and only then read the journal
// that the claim named, and the journal did not show that an executor has the run.
func (t *truth) taken(ctx context.Context, p *core.RunPut, was *core.Run) {
	t.claimed(ctx, p.To.Owner)
	if was.Address != p.Was.Address || core.Millis(was.Until) != core.Millis(p.Was.Until) {
		t.fail(was.ID, "run %d was taken over at %q until %s, and it was at %q until %s", was.ID, p.Was.Address, p.Was.Until, was.Address,
			was.Until)
	}
	if was.Owner == "" {
		return
	}
	t.w.count("take-over", 1)
	st := t.story(p.ID)
	st.takes++
	inv := invocationOf(ctx)
	if inv == nil {
		return
	}
	inv.mu.Lock()
	saw, ok := inv.journals[was.Journal]
	inv.mu.Unlock()
	stepped := inv.in.p.steppedWithin(30 * time.Second)
	switch {
	case !ok:
		t.fail(was.ID, "run %d was taken over from %s without a read of its journal", was.ID, was.Owner)
	case saw.settled[was.ID]:
		t.fail(was.ID, "run %d was taken over from %s although an executor has it by its journal", was.ID, was.Owner)
	case saw.clock.Before(was.Until) && !stepped:
		t.fail(was.ID, "run %d was taken over from %s: its journal was read %s before until had passed", was.ID, was.Owner,
			was.Until.Sub(saw.clock))
	}
	st.looked = append(st.looked, time.Now())
}

// ended records an end; reported: an executor reported it.
func (t *truth) ended(ctx context.Context, p *core.RunPut, reported bool) {
	delete(t.open, p.ID)
	t.over = append(t.over, p.ID)
	t.leaves(p)
	if reported {
		c := &p.To
		if r, _ := t.run(p.ID); r.Data != c.Data {
			t.fail(p.ID, "run %d was closed with the data %q, and has %q", p.ID, c.Data, r.Data)
		} else if len(c.Message) > 300 && (r.Message != c.Message || r.State != c.State) {
			t.fail(p.ID, "run %d was closed as %s with a message of %d bytes, and is %s with %d", p.ID, c.State, len(c.Message), r.State,
				len(r.Message))
		} else if len(c.Message) > 300 {
			t.w.count("long message", 1)
		}
		t.story(p.ID).closed = time.Now()
		t.story(p.ID).left = t.story(p.ID).left || t.story(p.ID).decided.IsZero() && invocationOf(ctx) == nil
	}
	t.decided(p.ID)
	r, _ := t.run(p.ID)
	if r.Owing() {
		t.owes[p.ID] = struct{}{}
	}
	t.owesNotice(&r)
	if !p.GoesOn() {
		t.chainEnds(&r)
	}
	for _, o := range p.To.Owes {
		if o.Pause {
			continue
		}
		if other, ok := t.owing[o.Run]; ok {
			t.fail(p.ID, "run %d owes %d, which run %d owes already", p.ID, o.Run, other)
		}
		t.owing[o.Run] = p.ID
	}
}

func (t *truth) PutJournal(ctx context.Context, j core.Journal) (answer error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before, _ := t.Store.Journals(bg, []core.JournalKey{j.Key})
	err := t.Store.PutJournal(ctx, j)
	if old, ok := before[j.Key]; ok && err == nil && old.V >= j.V {
		t.fail(0, "journal %s was stored in version %d over version %d", j.Key, j.V, old.V)
	}
	if err != nil && !errors.Is(err, core.ErrRefused) && t.cloud != nil {
		found, _ := t.Store.Journals(bg, []core.JournalKey{j.Key})
		if old, ok := found[j.Key]; ok && old.V == j.V {
			j, err = old, nil
			defer func() { answer = errUnknown }()
		}
	}
	if err == nil {
		t.journals[j.Key] = struct{}{}
		for _, e := range j.Entries {
			t.trace(ctx, e.Run, "journal %s v%d: %s", j.Key, j.V, e.Outcome)
			if e.Outcome.Settled() {
				t.settled[e.Run] = true
			}
		}
	}
	return err
}

// The ring and the due index.

func (t *truth) Enqueue(ctx context.Context, out []ring.Out) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if inv := invocationOf(ctx); inv != nil {
		t.inLane(inv, out)
	} else {
		t.spreadAgain(out)
	}
	errs := t.Store.Enqueue(ctx, out)
	if t.cloud != nil {
		t.observed(ctx)
		return errs
	}
	for i, err := range errs {
		if err == nil {
			t.lastID++
			t.onRing[t.lastID] = out[i].Message
			t.came(ctx, &out[i].Message, out[i].NotBefore)
		}
	}
	return errs
}

// inLane asserts that fires from the slow queue stay there, and are not requeued for that
// reason.
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

// came mirrors a message that is on the ring.
func (t *truth) came(ctx context.Context, m *ring.Message, notBefore time.Time) {
	for _, f := range m.Fires {
		t.trace(ctx, f.Run, "enqueue rev %d slot %s try %d not before %s", f.Rev, f.Slot, m.Try, notBefore.Format("15:04:05.000"))
		t.fires[f.Run]++
		t.slots[fireAt{f.Run, f.Slot}]++
		t.named[f.Run] = true
	}
	if a := m.PostRun; a != nil {
		t.trace(ctx, a.Run, "on the post-run queue, try %d not before %s", m.Try, notBefore.Format("15:04:05.000"))
		t.postRuns[a.Run]++
	}
	if c := m.Check; c != nil {
		for _, id := range c.Runs {
			t.checks[id]++
			if c.Journal != nil {
				t.carried[id]++
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

// loses removes the messages of an app from the ring by hand, without an ack.
func (t *truth) loses(got []store.Delivery) []store.Delivery {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.DeleteFunc(got, func(d store.Delivery) bool {
		if len(d.Message.Fires) == 0 { // a check
			return false
		}
		found, _, _ := t.Store.Jobs(bg, []core.JobID{d.Message.Fires[0].Run.Job()})
		if j := found[d.Message.Fires[0].Run.Job()]; j == nil || j.Def.App != apps[0].name {
			return false
		}
		t.byHand(d, "loss")
		for _, f := range d.Message.Fires {
			t.w.troubleOf(time.Now(), time.Now().Add(t.healed()), f.Run)
		}
		t.w.count("lost from the ring", 1)
		return true
	})
}

// byHand removes a message from the ring. It is no ack, so no process answers for its fires.
func (t *truth) byHand(d store.Delivery, what string) {
	if t.cloud != nil {
		t.observed(bg)
	}
	t.Store.Ack(bg, []store.Delivery{d})
	if t.cloud != nil {
		t.cloud.sights() // of this, which is no ack
	}
	t.acked[d.ID] = true
	t.off(bg, d.ID, &d.Message, what)
}

// healed is the longest time until messages that a queue lost are on it again: the window that
// it was in, and the one after, which is compared with its runs. If something is always in
// flight, an account knows the age of its ring only to ten minutes.
func (t *truth) healed() time.Duration {
	if t.cloud != nil {
		return 12 * time.Minute
	}
	return 4 * time.Minute
}

func (t *truth) Ack(ctx context.Context, done []store.Delivery) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := t.Store.Ack(ctx, done)
	if t.cloud != nil {
		t.observed(ctx)
		return errs
	}
	for i, err := range errs {
		d := &done[i]
		if err != nil || t.acked[d.ID] {
			continue
		}
		t.acked[d.ID] = true
		t.went(ctx, d.ID, &d.Message)
	}
	return errs
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
	for _, f := range m.Fires {
		t.trace(ctx, f.Run, "%s of message %d", what, id)
		drop(t.fires, f.Run)
		drop(t.slots, fireAt{f.Run, f.Slot})
	}
	if a := m.PostRun; a != nil {
		t.trace(ctx, a.Run, "%s of message %d on the post-run queue", what, id)
		drop(t.postRuns, a.Run)
	}
	if c := m.Check; c != nil {
		for _, id := range c.Runs {
			drop(t.checks, id)
			if c.Journal != nil {
				drop(t.carried, id)
			}
		}
	}
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
	skips, _ := t.Store.Skips(bg, job, at, at)
	return len(skips) > 0
}

func drop[K comparable](of map[K]int, k K) {
	if of[k]--; of[k] <= 0 {
		delete(of, k)
	}
}

func (t *truth) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := t.Store.PutEntries(ctx, entries)
	for i, err := range errs {
		if t.recount(entries[i].Run); err == nil || t.entries[entries[i].Run] > 0 {
			t.named[entries[i].Run] = true
		}
	}
	return errs
}

func (t *truth) RemoveEntries(ctx context.Context, entries []core.DueItem) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := t.Store.RemoveEntries(ctx, entries)
	for _, e := range entries {
		t.recount(e.Run)
	}
	return errs
}

func (t *truth) recount(run core.RunID) {
	t.w.entered(run.Job())
	all, _ := t.Store.Entries(bg, run.Job())
	n := 0
	for _, d := range all {
		if d.Run == run {
			n++
		}
	}
	if n == 0 {
		delete(t.entries, run)
	} else {
		t.entries[run] = n
	}
}

func (t *truth) oldDue(partition int) []core.DueItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.due[partition]
}

func (t *truth) noteDue(partition int, items []core.DueItem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due[partition] = items
}

// Jobs and their revisions.

func (t *truth) Advance(ctx context.Context, moves []core.Advance) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := make([]core.Sched, len(moves))
	for i := range moves {
		found, _, _ := t.Store.Scheds(bg, []core.JobID{moves[i].Job})
		before[i] = found[moves[i].Job]
	}
	errs := t.Store.Advance(ctx, moves)
	for i, err := range errs {
		m, s := &moves[i], &before[i]
		if !t.took(core.RunID(m.Job), "an advance", err, func() bool {
			found, _, _ := t.Store.Scheds(bg, []core.JobID{m.Job})
			is, want := found[m.Job], s.Moved(*m)
			place := func(x *core.Sched) [5]int64 {
				return [5]int64{x.Rev, int64(x.Next), int64(x.PlanAt), int64(x.Tail), x.Seq}
			}
			return s.Rev == m.Rev && s.Next == m.Next && s.Tail == m.Tail && place(&is) == place(&want) && place(&is) != place(s)
		}) {
			continue
		}
		if s.Rev != m.Rev || s.Next != m.Next || s.Tail != m.Tail {
			t.fail(core.RunID(m.Job), "job %d was advanced from revision %d, next %s, tail %d, and is of revision %d, next %s, tail %d", m.Job,
				m.Rev, m.Next, m.Tail, s.Rev, s.Next, s.Tail)
		}
		t.w.entered(m.Job)
		t.trace(ctx, core.RunID(m.Job), "advance rev %d next %s to %s planAt %s tail %d to %d", m.Rev, m.Next, m.NewNext, m.NewPlanAt, m.Tail,
			m.NewTail)
		if m.NewRev != 0 {
			found, _, _ := t.Store.Jobs(bg, []core.JobID{m.Job})
			if m.NewState == core.Paused {
				t.pausedFor(m, s)
			}
			t.revised(*found[m.Job], false)
			t.jobs[m.Job][len(t.jobs[m.Job])-1].ended = m.NewState != core.Paused
			continue
		}
		if _, fixed := s.Schedule.FixedDelay(); fixed {
			t.chainMoved(m, s)
			continue
		}
		end := m.NewNext - 1
		if m.NewNext == 0 {
			end = s.Next + 5000
		}
		t.passed(s, s.Next, end, "advanced")
	}
	return errs
}

// passed asserts 7.6: each instant that a job leaves behind is on a message, or
// has a run, or is covered.
func (t *truth) passed(s *core.Sched, from, to core.Instant, how string) {
	if s.State != core.Started || from == 0 {
		return
	}
	sch := t.schedule(s)
	for at, n := from, 0; at != 0 && at <= to && n < 5000; n++ {
		id := core.PlannedRun(s.ID, at)
		if t.fires[id] == 0 && !t.settled[id] && !t.covered(s.ID, at) && !t.heals(id) {
			if _, ok := t.run(id); !ok {
				t.fail(id, "job %d was %s over %s, and there is no message, run or record of it", s.ID, how, at)
			}
		}
		next, ok := sch.Next(at)
		if !ok {
			break
		}
		at = next
	}
}

// chainMoved asserts that the chain of a fixed delay moves on only when it has
// ended, and begins only with a fire on its way.
func (t *truth) chainMoved(m *core.Advance, s *core.Sched) {
	if m.NewTail != 0 && m.NewTail != m.Tail && !t.named[m.NewTail] {
		t.fail(m.Tail, "fixed delay %d has the tail %d, which was never sent on its way", m.Job, m.NewTail)
	}
	if m.Tail == 0 || m.NewTail == m.Tail {
		if m.Tail == 0 && m.NewTail == 0 && m.Next != m.NewNext && m.Next != 0 {
			t.passed(s, m.Next, m.Next, "advanced")
		}
		return
	}
	for id, n := m.Tail, 0; n < 200; n++ {
		r, ok := t.run(id)
		if !ok || r.State.Open() {
			t.fail(m.Tail, "fixed delay %d goes on although run %d of its chain has not ended", m.Job, id)
			return
		}
		if r.Then == 0 {
			return
		}
		id = r.Then
	}
}

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

// CreateJobs fails the simulation if a create that arrives late restores a job that was already deleted.
func (t *truth) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := make([]error, len(jobs))
	for i := range jobs {
		errs[i] = t.Store.CreateJobs(ctx, jobs[i:i+1], changes[i:i+1])[0]
		if t.took(0, "a new job", errs[i], func() bool {
			found, _, _ := t.Store.Scheds(bg, []core.JobID{jobs[i].Def.ID})
			return found[jobs[i].Def.ID].Rev == jobs[i].Sched.Rev && len(t.jobs[jobs[i].Def.ID]) == 0
		}) {
			if n := len(t.jobs[jobs[i].Def.ID]); n > 0 && t.jobs[jobs[i].Def.ID][n-1].deleted {
				t.fail(0, "job %d was made again after it was deleted", jobs[i].Def.ID)
			}
			t.revised(jobs[i], false)
		}
	}
	return errs
}

// UpdateJobs fails the simulation if an outdated edit removes the tail, the last run of a fixed-delay chain. Without
// the tail, a second chain starts in addition to the first chain.
func (t *truth) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	errs := make([]error, len(updates))
	for i := range updates {
		want := &updates[i].Job.Sched
		var before core.Sched
		done := t.yields(ctx, func() {
			found, _, _ := t.Store.Scheds(bg, []core.JobID{want.ID})
			before = found[want.ID]
		})
		errs[i] = t.Store.UpdateJobs(ctx, updates[i:i+1])[0]
		done()
		_, was := before.Schedule.FixedDelay()
		if t.took(core.RunID(want.ID), "an edit", errs[i], func() bool {
			found, _, _ := t.Store.Scheds(bg, []core.JobID{want.ID})
			return found[want.ID].Rev == want.Rev && before.Rev != want.Rev
		}) {
			if _, is := want.Schedule.FixedDelay(); was && is && before.Tail != 0 && want.Tail != before.Tail {
				t.fail(0, "an edit of job %d lost the tail %d of a chain", want.ID, before.Tail)
			}
			if verb, list := updates[i].Change.Verb, t.jobs[want.ID]; verb == core.VerbPaused || verb == core.VerbResumed {
				if n := len(list); n > 0 && !list[n-1].def.Equal(updates[i].Job.Def) {
					t.fail(core.RunID(want.ID), "job %d was %s with another definition than revision %d gave it", want.ID, verb, list[n-1].rev)
				}
			}
			t.left(&before, want.RevAt, "edited")
			t.revised(updates[i].Job, false)
		}
	}
	return errs
}

// left asserts that an old revision ended with all that was due on a message,
// in a run or under a record.
func (t *truth) left(s *core.Sched, revAt time.Time, how string) {
	if _, fixed := s.Schedule.FixedDelay(); fixed {
		if s.Tail == 0 && s.Next != 0 && s.Next <= core.InstantOf(revAt) {
			t.passed(s, s.Next, s.Next, how)
		}
		return
	}
	t.passed(s, s.Next, core.InstantOf(revAt), how)
}

func (t *truth) DeleteJob(ctx context.Context, seen int64, stone core.Tombstone, c core.Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var j core.Job
	done := t.yields(ctx, func() {
		found, _, _ := t.Store.Jobs(bg, []core.JobID{stone.Job})
		if was := found[stone.Job]; was != nil {
			j = *was
		}
	})
	err := t.Store.DeleteJob(ctx, seen, stone, c)
	done()
	if t.took(core.RunID(stone.Job), "a deletion", err, func() bool {
		found, _, _ := t.Store.Scheds(bg, []core.JobID{stone.Job})
		_, is := found[stone.Job]
		return !is && j.Sched.ID != 0
	}) {
		t.left(&j.Sched, stone.RevAt, "deleted")
		j.Sched.Rev, j.Sched.RevAt = stone.Rev, stone.RevAt
		t.revised(j, true)
	}
	return err
}

func (t *truth) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	rev := func() int64 {
		found, _, _ := t.Store.Apps(bg, []string{a.Name})
		return found[a.Name].Rev
	}
	before := rev()
	err := t.Store.PutApp(ctx, seen, a, c)
	if t.took(0, "a change of an app", err, func() bool { return became(a.Rev, before, rev(), err) }) {
		t.pausedBy(a.Name, a.Pause, a.Rev)
	}
	return err
}

func (t *truth) PutGlobal(ctx context.Context, seen int64, g core.Global) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := func() core.Global {
		g, _ := t.Store.Global(bg)
		return g
	}
	before := is()
	err := t.Store.PutGlobal(ctx, seen, g)
	if t.took(0, "a change of everything", err, func() bool { return became(g.Rev, before.Rev, is().Rev, err) }) {
		t.pausedBy("", g.Pause, g.Rev)
		for p := g.Readable; p < before.Readable; p++ { // partitions that are not read from now on
			if left, _ := t.Store.Due(bg, p, core.Horizon, core.DueItem{}, 1); len(left) > 0 {
				t.fail(left[0].Run, "partition %d is given up, and has %+v", p, left[0])
			}
		}
	}
	return err
}

// became reports whether a write with an unclear answer made a revision the wanted one. Two
// writers that read the same revision at one moment, or by a clock behind the store, compute
// the same number. If the answer rules out this write, the stored revision is the other
// writer's.
func became(want, before, now int64, err error) bool {
	return now == want && before != want && !errors.Is(err, core.ErrRefused) && !errors.Is(err, core.ErrThrottled)
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
	for _, id := range inv.all {
		drop(t.live, id)
	}
}

func (t *truth) buryLive(in *incarnation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d, _ := in.p.dice("bury")
	for inv := range t.held[in] {
		for _, id := range inv.all {
			drop(t.live, id)
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

func (inv *invocation) troubled() {
	inv.mu.Lock()
	inv.trouble = true
	inv.mu.Unlock()
}

func (inv *invocation) sawJournals(keys []core.JournalKey, found map[core.JournalKey]core.Journal, clock time.Time) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for _, k := range keys {
		l := looked{clock: clock, settled: map[core.RunID]bool{}}
		for _, e := range found[k].Entries {
			if e.Outcome == core.Accepted || e.Outcome == core.Unconfirmed {
				l.settled[e.Run] = true
			}
		}
		inv.journals[k] = l
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
	n, err := t.Store.Sweep(bg, time.Now(), 0, 20*24*time.Hour, 1<<30)
	if err != nil {
		t.fail(0, "sweep: %v", err)
	}
	t.w.count("swept", n)
	if n == 0 {
		return
	}
	left := map[core.RunID]bool{}
	stored, err := t.Store.Journals(bg, slices.Collect(maps.Keys(t.journals)))
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
		if fires > 0 || t.settled[id] || t.live[id] > 0 || t.checks[id] > 0 || t.entries[id] > 0 || t.heals(id) {
			continue
		}
		if j := t.rounds.now[id.Job()]; j.Round == id && (j.Full || j.Over) {
			continue // the actor that owes the last recorded end continues it
		}
		if parent, ok := t.owing[id]; ok {
			if _, owed := t.owes[parent]; owed {
				continue // made, and not yet sent: its maker's successor will
			}
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
		if t.heals(id) {
			continue
		}
		if parent, ok := t.owing[id]; ok {
			if _, owed := t.owes[parent]; owed {
				continue // a retry that was cancelled before it was sent
			}
		}
		if r, _ := t.run(id); t.postRunAsked(&r) {
			continue
		}
		if t.fires[id] == 0 && !t.settled[id] && t.live[id] == 0 && t.checks[id] == 0 && t.entries[id] == 0 && !t.w.calling(id) &&
			!t.shardNamed(id) {
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
	some := slices.Sorted(keysOf(t.open))
	return false, fmt.Sprintf("%d open (such as %v), %d owe, %d on messages, %d in checks, %d on the post-run queue, %d entries",
		len(t.open), some[:min(3, len(some))], len(t.owes), len(t.fires), len(t.checks), len(t.postRuns), len(t.entries))
}
