package sim

import (
	"cmp"
	"context"
	"github.com/tickring/tickring/store"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// The rule of liveness: every due instant is decided within a bound that the world's faults justify. Decided means that its run
// is sent or closed, or that a record covers it. The rule holds for every retry and every trigger too.
//
// It holds for every end. A reported or answered end is stored as soon. If the executor is done with a run and never reports it,
// or never had it, the watchdog closes the run at its next check after the run may be called lost. Checks are at ages that double
// (looks), and only a fault in the way of a check excuses a missing one.
//
// A fault is recorded where it happens, with the work that it delays and the time until which it may do so by the deployed
// durations (aftermath). Other events justify nothing: invocations that end, overlap and are woken late, partitions, executors of
// other addresses, queues that wait for others.

// trouble is one fault: from, and until when its consequences may last.
type trouble struct{ from, until time.Time }

// with appends a trouble; one that overlaps the last is merged into it.
func with(list []trouble, t trouble) []trouble {
	if n := len(list); n > 0 && !t.from.Before(list[n-1].from) && !t.from.After(list[n-1].until) {
		if t.until.After(list[n-1].until) {
			list[n-1].until = t.until
		}
		return list
	}
	return append(list, t)
}

// always is a moment that is the same at any time.
func always(d time.Duration) func(time.Time) time.Duration {
	return func(time.Time) time.Duration { return d }
}

// bound returns the latest time for a due decision: moment later, or moment after the last of
// the overlapping troubles in its way. It sorts the troubles by their beginnings.
func bound(due time.Time, moment func(from time.Time) time.Duration, troubles []trouble) time.Time {
	slices.SortFunc(troubles, func(a, b trouble) int { return a.from.Compare(b.from) })
	limit := due.Add(moment(due))
	for _, t := range troubles {
		if t.from.After(limit) {
			break
		}
		if until := t.until.Add(moment(t.until)); t.until.After(due) && until.After(limit) {
			limit = until
		}
	}
	return limit
}

// aftermath is how long the consequences of a fault of a call last.
type aftermath struct {
	planning  time.Duration // until a job is planned that one pass left
	lease     time.Duration // until a partition without its ticker is planned
	again     time.Duration // until a message comes again and its run can be claimed
	finishing time.Duration // until a report that failed is made again
}

func (d *deployment) aftermath() aftermath {
	a := aftermath{planning: 2 * time.Second, lease: d.lease + 2*time.Second, again: d.visibility + d.invocation + d.backoffMax*5/4,
		finishing: 20 * time.Second}
	if d.functions {
		a.lease += 2 * d.wake
	}
	return a
}

// moment is how long a decision may take without trouble: the way of a message, and the calls
// of an invocation, none of which is slow.
const moment = 5 * time.Second

// troubles holds the faults of a world, by the work that they delay.
type troubles struct {
	all, planning, finishing []trouble
	left                     []trouble                  // for runs that wait for the watchdog
	back                     map[core.Instant][]trouble // for untouched runs of a slot
	clocks                   []clock                    // as the machine's was set
	shown                    time.Time                  // the most that it has shown when it was set
	jobs                     map[core.JobID][]trouble
	runs                     map[core.RunID][]trouble
	apps                     map[string][]trouble       // caused by their executors
	unheard                  map[string][]trouble       // an executor of the app was probed and did not answer
	busy                     map[core.JobID][]trouble   // an executor was asked whether it is idle, and runs the job
	limited                  map[core.JobID][]trouble   // troubles of runs, by job, for other runs of their limit
	unproven                 map[question][]trouble     // which an executor did not answer, or by its work
	moved                    map[core.JobID]time.Time   // when the index last got a change of a job
	claims                   map[core.RunID][]time.Time // until when runs were claimed, by the machine's clock
}

func newTroubles() *troubles {
	return &troubles{jobs: map[core.JobID][]trouble{}, runs: map[core.RunID][]trouble{}, apps: map[string][]trouble{},
		moved: map[core.JobID]time.Time{}, claims: map[core.RunID][]time.Time{}, unproven: map[question][]trouble{},
		back: map[core.Instant][]trouble{}, unheard: map[string][]trouble{}, busy: map[core.JobID][]trouble{},
		limited: map[core.JobID][]trouble{}}
}

// trouble records that a call of a process goes wrong, or takes long.
func (w *World) trouble(ctx context.Context, in *incarnation, op string, takes time.Duration) {
	a := w.deployed.aftermath()
	until := time.Now().Add(takes)
	planning := a.planning
	if op == "write lease" || op == "list lease" || op == "Another" {
		planning = a.lease
	}
	var runs []core.RunID
	if inv := invocationOf(ctx); inv != nil {
		runs = inv.all
	} else if in.p.kind() == "dispatcher" {
		w.troubleForAll(until.Add(time.Second))
	}
	w.delays(in.p, until, planning, a.finishing, runs)
}

// delays records the work of a process that is delayed until a moment: planning and finishing are how long the work of a ticker
// takes after it, and runs are in the hands of a dispatcher.
func (w *World) delays(p *process, until time.Time, planning, finishing time.Duration, runs []core.RunID) {
	a, now := w.deployed.aftermath(), time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.faults
	switch p.kind() {
	case "ticker":
		f.planning = with(f.planning, trouble{now, until.Add(planning)})
		f.finishing = with(f.finishing, trouble{now, until.Add(finishing)})
	case "dispatcher":
		for _, id := range runs {
			f.runs[id] = with(f.runs[id], trouble{now, until.Add(a.again)})
			f.limited[id.Job()] = with(f.limited[id.Job()], trouble{now, until.Add(a.again)})
		}
	case "user": // jobs that were to be planned at once are left to the tick
		f.planning = with(f.planning, trouble{now, until.Add(a.lease)})
	default:
		f.finishing = with(f.finishing, trouble{now, until.Add(a.finishing)})
	}
}

// gone records that a process does nothing until a moment.
func (w *World) gone(p *process, until time.Time) {
	lease := w.deployed.aftermath().lease
	w.truth.mu.Lock()
	var runs []core.RunID
	for in, invs := range w.truth.held {
		if in.p == p {
			for inv := range invs {
				runs = append(runs, inv.all...)
			}
		}
	}
	w.truth.mu.Unlock()
	w.delays(p, until, lease, lease, runs)
}

// troubleOf records trouble of some runs only, troubleAt of the runs of an app, troubleForAll of all.
func (w *World) troubleOf(from, until time.Time, runs ...core.RunID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range runs {
		w.faults.runs[id] = with(w.faults.runs[id], trouble{from, until})
		w.faults.limited[id.Job()] = with(w.faults.limited[id.Job()], trouble{from, until})
	}
}

// troubleLeft records a late message: while it is on the ring, untouched runs are not judged, because it may be their message.
func (w *World) troubleLeft(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.left = with(w.faults.left, trouble{time.Now(), until.Add(w.deployed.watched())})
}

// putBack records that a message comes again at a moment. If a foreign claim is in its way, this is the claim's end, which is as
// long as a call may last. Until then no check judges the untouched runs of its slot, for any runs of the message.
func (w *World) putBack(d *store.Delivery, at time.Time) {
	slot := d.Message.Slot
	if d.Message.Kind == ring.KindPostRun || !at.After(slot.Time().Add(ring.PutBackAfter)) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.back[slot] = with(w.faults.back[slot], trouble{time.Now(), at})
}

func (w *World) troubleAt(app string, from, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.apps[app] = with(w.faults.apps[app], trouble{from, until})
}

func (w *World) troubleForAll(until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.all = with(w.faults.all, trouble{time.Now(), until})
}

func (w *World) troublePlanning(until time.Time, jobs ...core.JobID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(jobs) == 0 {
		w.faults.planning = with(w.faults.planning, trouble{time.Now(), until})
	}
	for _, id := range jobs {
		w.faults.jobs[id] = with(w.faults.jobs[id], trouble{time.Now(), until})
	}
}

// stale records a read of an index that is behind: it does not show the jobs that were moved in
// that time, and if no other is due, the invocation ends.
func (w *World) stale(behind time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for id, at := range w.faults.moved {
		if now.Sub(at) <= behind+time.Second {
			w.faults.jobs[id] = with(w.faults.jobs[id], trouble{now, now.Add(w.deployed.aftermath().planning + 2*w.deployed.wake)})
		} else if now.Sub(at) > time.Minute {
			delete(w.faults.moved, id)
		}
	}
}

// entered records that the due index got a new entry of a job.
func (w *World) entered(id core.JobID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.moved[id] = time.Now()
}

// clock is the offset of the machine's clock from the truth, from a moment on.
type clock struct {
	from   time.Time
	offset time.Duration
}

// earlier returns the times in which the clock of the machine is before a slot, so that no process may act. A clock that is
// behind is late by the same time at each slot, for as long as it is behind.
func earlier(slot time.Time, clocks []clock) (list []trouble) {
	for i, c := range clocks {
		until := slot.Add(-c.offset)
		if i+1 < len(clocks) && clocks[i+1].from.Before(until) {
			until = clocks[i+1].from
		}
		if until.After(c.from) {
			list = append(list, trouble{c.from, until})
		}
	}
	return list
}

// claimed records until when a run is claimed: a clock that is set back makes that longer.
func (w *World) claimed(r *core.Run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cfg.Machine && r.Owner != "" {
		w.faults.claims[r.ID] = append(w.faults.claims[r.ID], r.Until)
	}
}

// held are the times in which a run was claimed, by a clock that was set.
func (f *troubles) held(run core.RunID) (list []trouble) {
	for _, until := range f.claims[run] {
		list = append(list, earlier(until, f.clocks)...)
	}
	return list
}

// question identifies a question to an address: for a job, or for all, job 0.
type question struct {
	address string
	job     core.JobID
}

// noted records a question after which the state of the runs there is unknown.
func (w *World) noted(q question) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.unproven[q] = with(w.faults.unproven[q], trouble{time.Now(), time.Now()})
}

// looks is the time within which the watchdog checks a run of an age again, and checks it a second time if its executor is idle.
// It reads the journals at ages that double, at least a second scan apart and BehindMax at most, by minutes that are over and
// passes that may be nearly two wakes apart.
func (d *deployment) looks(age time.Duration) time.Duration {
	return max(min(age, d.behindMax), 2*d.behind) + time.Minute + 2*max(d.wake, d.watchEvery) + d.idleGap + moment
}

// sayable returns the age from which on a run may be closed as lost.
func sayable(r *core.Run, def *core.Def) time.Duration {
	// of the world's executors
	const lostAfter, timeoutGrace, functionLimit, functionGrace = 10 * time.Minute, 5 * time.Second, 3 * time.Minute, time.Minute
	age := cmp.Or(def.LostAfter, lostAfter)
	switch {
	case def.Timeout == 0:
	case strings.HasPrefix(r.Address, "call:"):
		age = def.Timeout + timeoutGrace
	default:
		age = min(age, def.Timeout+timeoutGrace)
	}
	if strings.HasPrefix(r.Address, "lambda:") {
		age = max(age, functionLimit+functionGrace)
	}
	return age
}

// endInTime asserts that a run which was sent was closed within its bound. Callers hold mu of the truth.
func (w *World) endInTime(r *core.Run, st *story, revs []revision) {
	if st.sends == 0 || st.works > 0 || st.closed.IsZero() {
		return
	}
	what, due, within := "the reported end", st.reported, always(moment)
	var age, jitter time.Duration
	if !r.MaybeSent && due.IsZero() { // else the end could be of another copy
		due = st.killed
	}
	switch {
	case !due.IsZero():
	case !st.ended.IsZero() && !w.troubledAt(r.ID, st.ended): // else the only process with the answer may have died
		what, due = "the answered end", st.ended
	default:
		for i := range revs {
			age, jitter = max(age, sayable(r, &revs[i].def)), max(jitter, revs[i].sched.Schedule.Jitter)
			if revs[i].deleted {
				age = max(age, sayable(r, &core.Def{}))
			}
		}
		what, due = "the loss", st.sent.Add(age)
		if st.over.After(due) {
			due = st.over
		}
		within = func(from time.Time) time.Duration {
			if w.cfg.Machine { // a clock that was set: the minutes of a journal and of the cursor are each counted again
				return w.deployed.looks(from.Sub(st.sent)) + 2*time.Minute
			}
			return w.deployed.looks(from.Sub(st.sent))
		}
	}
	way := w.atItsEnd(r, age, jitter)
	limit := bound(due, within, way)
	if !st.closed.After(limit) {
		w.count("in time: "+what, 1)
		return
	}
	for _, t := range way {
		if t.until.After(due) && t.from.Before(st.closed) {
			w.truth.trace(bg, r.ID, "in the way of its end from +%.3f to +%.3f", t.from.Sub(w.began).Seconds(), t.until.Sub(w.began).Seconds())
		}
	}
	w.truth.fail(r.ID, "%s of run %d (%s: %s, at %s) was due at %s and stored %s later: %s after all that was in its way", what, r.ID, r.State,
		r.Reason, r.Address,
		due.Format("15:04:05.000"), st.closed.Sub(due), st.closed.Sub(limit))
}

// troubledAt reports whether the sender of a run had trouble when it was answered.
func (w *World) troubledAt(run core.RunID, at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.faults.runs[run], func(t trouble) bool { return t.until.After(at) && !t.from.After(at.Add(moment)) })
}

// atItsEnd is all that was in the way of the end of a run, which is lost from an age on, by the clock that the watchdog has; 0:
// it is not. Its slot may have been any that the jitter allows.
func (w *World) atItsEnd(r *core.Run, age, jitter time.Duration) []trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.faults
	list := slices.Concat(f.all, f.finishing, f.runs[r.ID], f.held(r.ID), f.jobs[r.ID.Job()])
	if age > 0 {
		for slot, back := range f.back {
			if min(r.At, r.Slot) <= slot && slot <= max(r.At.Add(jitter), r.Slot) {
				list = append(list, back...)
			}
		}
		list = slices.Concat(list, earlier(r.SentAt.Add(age), f.clocks), f.planning, f.left, f.apps[r.App], f.unproven[question{r.Address, 0}],
			f.unproven[question{r.Address, r.ID.Job()}])
	}
	return list
}

// watched is the longest time until the watchdog has closed a run that no executor runs: it checks at ages that double, so at
// most at twice the age from which the run may be closed, plus one scan and one second check.
func (d *deployment) watched() time.Duration {
	const functionLimit, grace = 3 * time.Minute, time.Minute // the longest that is waited for, of the world's executors
	age := max(d.behind, functionLimit+grace)
	return 2*age + d.behind + 2*time.Minute + d.idleGap
}

// inTheWay is all that was in the way of a run of a slot.
func (w *World) inTheWay(runs []core.RunID, app string, slot time.Time, finishing bool) []trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.faults
	list := slices.Concat(f.all, f.planning, f.apps[app], earlier(slot, f.clocks),
		w.truth.awaited(runs[0], app, slot), w.truth.permitted(runs[0].Job(), slot), w.nextIdle(runs[0].Job()))
	for _, id := range runs {
		list = slices.Concat(list, f.runs[id], f.held(id), f.jobs[id.Job()])
	}
	if finishing { // the watchdog makes follow-ups that were not made at once
		list = slices.Concat(list, f.left)
		walk := w.deployed.behind + 2*time.Minute
		if w.cfg.Machine { // a clock that was set: minutes are counted again
			walk += 2 * time.Minute
		}
		for _, t := range slices.Concat(f.finishing, f.runs[runs[len(runs)-1]]) {
			t.until = t.until.Add(walk)
			list = append(list, t)
		}
	}
	return list
}

// decided records when a run was first decided. Callers hold mu.
func (t *truth) decided(id core.RunID) {
	if st := t.story(id); st.decided.IsZero() {
		st.decided = time.Now()
	}
}

// covering is when a record was first made that covers an instant.
func (t *truth) covering(job core.JobID, at core.Instant) time.Time {
	var first time.Time
	for _, c := range t.covers[job] {
		if c.first <= at && at <= c.last && (first.IsZero() || c.at.Before(first)) {
			first = c.at
		}
	}
	return first
}

// cover is a record of skipped instants, and when it was stored.
type cover struct {
	first, last core.Instant
	at          time.Time
}

// inTime asserts that a due fire was decided within its bound. Callers hold mu of the truth.
func (w *World) inTime(what string, runs []core.RunID, app string, moment time.Duration, slot, since, decided time.Time, finishing bool) {
	due := slot
	if since.After(due) {
		due = since
	}
	if w.cfg.Skew {
		moment += 5 * time.Second // two clocks, each two seconds from the truth, and a second
	}
	if decided.Sub(due) <= moment {
		return
	}
	way := slices.DeleteFunc(w.inTheWay(runs, app, slot, finishing),
		func(t trouble) bool { return !t.until.After(due) || t.from.After(decided) })
	limit := bound(due, always(moment), way)
	if decided.After(limit) {
		for _, t := range way {
			w.truth.trace(bg, runs[0], "in its way from +%.3f to +%.3f", t.from.Sub(w.began).Seconds(), t.until.Sub(w.began).Seconds())
		}
		w.truth.fail(runs[0], "%s %d was due at %s and decided %s later: %s after all that was in its way", what, runs[0],
			due.Format("15:04:05.000"), decided.Sub(due), decided.Sub(limit))
	}
	w.count("late, and justified", 1)
}

// runInTime is inTime for a stored run.
func (w *World) runInTime(r *core.Run, since time.Time, parent core.RunID) {
	st := w.truth.story(r.ID)
	if st.decided.IsZero() {
		return // reported elsewhere
	}
	if st.born.After(since) {
		since = st.born
	}
	ids := []core.RunID{r.ID}
	if parent != 0 {
		ids = append(ids, parent)
	}
	within := moment
	if st.left {
		within = w.deployed.watched()
	}
	what := cmp.Or(string(r.Cause), "run")
	w.inTime(what, ids, r.App, within, r.Slot.Time(), since, st.decided,
		st.left || r.Cause == core.CauseRetry || r.Cause == core.CauseParent || r.FixedDelay)
}
