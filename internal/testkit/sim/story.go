package sim

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
)

// story holds facts about one run from outside the store.
type story struct {
	sends    int
	refused  int // sends that were proven not taken
	arrivals []arrival
	takes    int         // takeovers from a foreign owner
	looked   []time.Time // when each of them was made
	closed   time.Time
	born     time.Time // when it was requested, or made; zero: by its schedule
	made     time.Time // of a trigger: when it was first stored
	decided  time.Time // when it was first sent, or closed
	queued   bool      // it waited for an executor
	left     bool      // left by the watchdog: its claimer died, and then it fell
	sent     time.Time // last
	over     time.Time // when an executor was done with it last
	works    int       // executors that are not
	reported time.Time // when its end was first reported
	killed   time.Time // when it was first reported that it was killed
	marked   time.Time // when a kill of it was stored
	ended    time.Time // when its last send was answered with its end
}

// arrival is one request for a run that reached an executor and was taken.
type arrival struct {
	at       time.Time
	address  string
	owner    string // nonce of the invocation that sent it
	maybe    bool
	inv      *invocation
	logged   int64 // the trigger time that it carried
	slot     core.Instant
	params   *string
	got      string    // the params that it was sent with
	answered time.Time // zero: its sender never saw an answer
	kind     dispatch.AnswerKind
}

func (t *truth) story(id core.RunID) *story {
	s := t.stories[id]
	if s == nil {
		s = &story{}
		t.stories[id] = s
	}
	return s
}

// works records that an executor begins a run, done that it ends.
func (t *truth) works(id core.RunID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.story(id).works++
}

func (t *truth) done(id core.RunID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.story(id)
	st.works--
	st.over = time.Now()
}

// reports records that the end of a run is being reported.
func (t *truth) reports(id core.RunID, killed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := &t.story(id).reported
	if killed {
		at = &t.story(id).killed
	}
	if at.IsZero() {
		*at = time.Now()
	}
}

// sending asserts the rules before a send: promises 3 and 5.
func (t *truth) sending(inv *invocation, in *incarnation, sh *dispatch.SendRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	id, clock := sh.Run.ID, in.p.now()
	st := t.story(id)
	st.sends++
	st.sent, st.ended = time.Now(), time.Time{}
	t.wentByIdle(in, sh)
	t.decided(id)
	t.trace(contextOf(inv), id, "sent to %s, job revision %d, maybe %v", sh.Address, sh.Job.Sched.Rev, sh.Run.MaybeSent)
	var since time.Duration // it held its fires until the slot by the clock of then
	if inv != nil {
		since = time.Since(inv.began)
	}
	var apart time.Duration
	if !sh.Run.Cause.Planned() && !t.w.cfg.Machine { // another process may have given it a slot of now, by its own clock
		apart = t.w.slack()
	}
	if clock.Add(apart).Before(sh.Run.Slot.Time()) && !in.p.steppedWithin(since) {
		t.fail(id, "run %d was sent %s before its slot by the clock of %s", id, sh.Run.Slot.Time().Sub(clock), in.p.name)
	}
	if inv == nil {
		return
	}
	f, ok := inv.fires[id]
	if !ok {
		t.fail(id, "run %d was sent by an invocation that has no message of it", id)
		return
	}
	if f.Cause.Planned() && f.Rev < sh.Job.Sched.Rev {
		t.fail(id, "run %d of revision %d was sent after revision %d of its job was read", id, f.Rev, sh.Job.Sched.Rev)
	}
	inv.mu.Lock()
	read, appsRead, allRead := inv.jobsRead[id.Job()], inv.appsRead, inv.allRead
	inv.mu.Unlock()
	if read.IsZero() || appsRead.IsZero() || allRead.IsZero() {
		t.fail(id, "run %d was sent by an invocation that did not read its job, app and everything", id)
	}
	if of := sh.Run.Shard.Of; of != 0 && !sh.Run.MaybeSent {
		if marked := t.story(of).marked; !marked.IsZero() && inv.began.After(marked) {
			t.fail(id, "shard %d was sent by an invocation that began after its broadcast %d was killed", id, of)
		}
	}
	for _, r := range t.jobs[id.Job()] {
		if r.rev == sh.Job.Sched.Rev && !r.def.Equal(sh.Job.Def) {
			t.fail(id, "run %d was sent with revision %d of its job and the definition of another", id, r.rev)
		}
		if r.acked.IsZero() || !r.acked.Before(read) {
			continue
		}
		switch {
		case f.Cause.Planned() && f.Rev < r.rev:
			t.fail(id, "run %d of revision %d was sent although revision %d was acknowledged %s before the job was read", id, f.Rev, r.rev,
				read.Sub(r.acked))
		case f.Cause == core.CauseRetry && r.deleted:
			t.fail(id, "retry %d was sent although its job was deleted", id)
		case f.Cause == core.CauseRetry && r.sched.PausedAt(time.Now().Add(t.w.slack())) && r.rev == sh.Job.Sched.Rev:
			t.fail(id, "retry %d was sent although its job was paused", id)
		}
	}
	if !f.Cause.Planned() {
		return
	}
	for i := range t.pauses {
		p := &t.pauses[i]
		read := appsRead
		if p.app == "" {
			read = allRead
		}
		if p.app != "" && p.app != sh.Run.App || p.acked.IsZero() || !p.acked.Before(read) || !p.pause.Covers(f.At.Time()) {
			continue
		}
		t.fail(id, "run %d was sent although its instant %s lies in a pause of %q", id, f.At, p.app)
	}
}

// answered records that a sender saw an answer.
func (t *truth) answered(inv *invocation, id core.RunID, kind dispatch.AnswerKind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	st := t.story(id)
	t.trace(contextOf(inv), id, "answered %d", kind)
	if kind == dispatch.AnswerRefused || kind == dispatch.AnswerBlocked || kind == dispatch.AnswerBusy {
		st.refused++
	}
	if kind == dispatch.AnswerEnded {
		st.ended = time.Now()
	}
	for i := range st.arrivals {
		if a := &st.arrivals[i]; a.inv == inv && a.answered.IsZero() {
			a.answered, a.kind = time.Now(), kind
		}
	}
}

// arrives is arrived for an executor that knows only the request.
func (t *truth) arrives(sh *dispatch.SendRequest) { t.arrived(t.nonce(sh.Run.Owner), sh) }

// arrived asserts promise 2 and 7.3: an executor gets a run twice only at the same address,
// after a takeover, and only if its answer was not safe.
func (t *truth) arrived(inv *invocation, sh *dispatch.SendRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := sh.Run
	st := t.story(r.ID)
	t.atWork(r)
	t.trace(contextOf(inv), r.ID, "arrived at %s", sh.Address)
	a := arrival{at: time.Now(), address: sh.Address, owner: r.Owner, maybe: r.MaybeSent, inv: inv, logged: core.Millis(r.SentAt),
		slot: r.Slot, params: r.Params, got: sh.Params}
	if len(st.arrivals) == 0 {
		st.arrivals = append(st.arrivals, a)
		return
	}
	t.w.count("re-send", 1)
	if !st.closed.IsZero() {
		t.w.count("window: closed before the re-send", 1)
	}
	for i := range st.arrivals {
		e := &st.arrivals[i]
		switch {
		case e.address != a.address:
			t.fail(r.ID, "run %d arrived at %s and at %s", r.ID, e.address, a.address)
		case e.owner == a.owner:
			t.fail(r.ID, "run %d arrived twice from one invocation", r.ID)
		case e.logged != a.logged:
			t.fail(r.ID, "run %d arrived with two trigger times, %d and %d", r.ID, e.logged, a.logged)
		case !e.maybe && !a.maybe:
			t.fail(r.ID, "run %d arrived twice, from %s and %s, and neither knew that it may have been sent", r.ID, e.owner, a.owner)
		}
	}
	if len(st.arrivals) > st.takes {
		t.fail(r.ID, "run %d arrived %d times after %d takeovers", r.ID, len(st.arrivals)+1, st.takes)
	}
	t.excused(&r.ID, st, &st.arrivals[len(st.arrivals)-1], &a)
	st.arrivals = append(st.arrivals, a)
}

// excused asserts that a re-send is one that promise 2 admits: the first had no
// answer, or one of the last moment, or a window of claim protocol section 8.
func (t *truth) excused(id *core.RunID, st *story, first, second *arrival) {
	if first.answered.IsZero() || first.inv == nil || !second.maybe {
		// Without an answer; or the second is a stale owner's, behind a taker.
		if !second.maybe {
			t.w.count("window: stale owner sent after the taker", 1)
			if second.inv != nil && !second.inv.paused && !t.w.cfg.Skew && !t.w.cfg.Pauses {
				t.fail(*id, "run %d was sent by %s, which had lost it, and was not paused", *id, second.owner)
			}
		}
		return
	}
	// Only until the takeover: answers and writes of the first owner after that come late.
	end := st.looked[len(st.looked)-1]
	if i := slices.IndexFunc(st.looked, func(at time.Time) bool { return at.After(first.at) }); i >= 0 {
		end = st.looked[i]
	}
	if in := first.inv.in; in.dead.Load() && in.died.Before(end) {
		end = in.died
	}
	first.inv.mu.Lock()
	journal := first.inv.journal
	if w := first.inv.writing; !w.IsZero() { // it may still be on its way
		journal = max(journal, end.Sub(w))
	}
	trouble, paused, slack := first.inv.trouble, first.inv.paused, 2*journal
	if first.kind == dispatch.AnswerEnded { // closed by three or four calls, not journalled
		slowest := first.inv.slowest
		for _, began := range first.inv.open { // one may be the call that closes it
			slowest = max(slowest, end.Sub(began))
		}
		trouble, slack = trouble || first.inv.rough, 8*slowest
	}
	first.inv.mu.Unlock()
	after := end.Sub(first.answered)
	switch {
	case trouble:
		t.w.count("window: journal refused or late", 1)
	case paused:
		t.w.count("window: paused owner", 1)
	case after <= 250*time.Millisecond+slack+20*time.Millisecond:
		t.w.count("re-send of an answer of the last moment", 1)
	default:
		t.fail(*id, "run %d was sent again, although its first send was answered (%d) %s before its sender stopped, and the journal was taken",
			*id, first.kind, after)
	}
}
