package sim

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/route"
)

// In a world with Waits all executors of the app without fixed ones leave at once, and come back, and jobs of any app wait for
// one: jobs of that app because none is available, jobs that probe before they choose because none answers.

// come is the app whose executors come and go.
const come = "beta"

// waitLook is the longest time between two checks of a run that nothing wakes, or that has waited for less than a minute.
const waitLook = 15 * time.Second

// nextLook is the longest time until a run that has waited from its slot on is checked, if its wake is lost.
func nextLook(slot, now time.Time) time.Duration {
	return max(waitLook, min(now.Sub(slot)*5/16, 825*time.Second))
}

// waitForExecutor is a job's, or come's, word; 0: none.
func (w *World) waitForExecutor(d *dice) time.Duration {
	if !w.cfg.Waits || d.n(2) == 0 {
		return 0
	}
	longest := 59
	if w.cfg.Long {
		longest = 500
	}
	return time.Duration(2+d.n(longest)) * time.Second
}

// comings has them go and come back; the last time perhaps they do not.
func (w *World) comings(d *dice) {
	for w.busy.Load() {
		w.sleep(bg, d.between(5*time.Second, 30*time.Second))
		long := d.between(2*time.Second, 45*time.Second)
		if w.cfg.Long && d.n(2) == 0 {
			long *= 8
		}
		w.allGo(long, d.n(2) == 0)
		w.sleep(bg, long)
	}
	if d.n(3) == 0 {
		w.allGo(24*time.Hour, d.n(2) == 0)
	}
}

// allGo stops all executors of come for a while. They deregister or, if silent, stopped long ago without that.
func (w *World) allGo(long time.Duration, silent bool) {
	at := time.Now()
	w.count("all executors away", 1)
	w.execs.set(func(e *executor) { e.down = at.Add(long) }, apps[1].addresses...)
	for _, address := range apps[1].addresses {
		var err error
		if silent {
			err = w.store.PutExecutor(bg, core.Executor{App: come, Address: address, Beat: at.Add(-time.Hour), Since: at.Add(-time.Hour)})
		} else {
			err = w.store.RemoveExecutor(bg, come, address, time.Time{})
		}
		if err != nil {
			w.fail(0, "let an executor go: %v", err)
		}
	}
}

// there mirrors the periods without an executor. Callers hold mu.
func (t *truth) there() {
	if !t.w.cfg.Waits {
		return
	}
	all, err := t.store.Executors(bg, []string{come})
	if err != nil {
		t.fail(0, "read executors: %v", err)
	}
	now, n := time.Now(), len(t.nobody)
	is := slices.ContainsFunc(all[come], func(e core.Executor) bool { return !e.Silent(core.Global{}, now, core.BeatExpiry) })
	switch was := n == 0 || t.nobody[n-1].until.Before(now); {
	case is && !was:
		t.nobody[n-1].until = now
		t.trace(bg, 0, "an executor of %s is there", come)
	case !is && was:
		t.nobody = append(t.nobody, trouble{now, now.Add(1000 * time.Hour)})
		t.trace(bg, 0, "no executor of %s is there", come)
	default:
		return
	}
	for _, l := range t.limits {
		t.crowd(l)
	}
}

// isNobody reports whether no executor is available now. Callers hold mu.
func (t *truth) isNobody() bool {
	return len(t.nobody) > 0 && t.nobody[len(t.nobody)-1].until.After(time.Now())
}

// waitsUntil returns when a run of a slot stops waiting, and whether its job probes before it chooses. Callers hold mu.
func (t *truth) waitsUntil(run core.RunID, slot time.Time) (until time.Time, asks bool) {
	revs := t.jobs[run.Job()]
	r := &revs[len(revs)-1] // no edit changes the fields that are read here
	wait := r.def.WaitForExecutor
	if r.def.App == come {
		wait = cmp.Or(wait, t.w.appWaits)
	}
	if r.sched.Deadline > 0 {
		wait = min(wait, r.sched.Deadline)
	}
	return slot.Add(wait), route.Asks(r.def.Route) != route.AskNothing
}

// awaited returns why a run waits: no executor is available or answers, until the check after
// one is, or until its wait is over. Callers hold mu of the truth and of the world.
func (t *truth) awaited(run core.RunID, app string, slot time.Time) (list []trouble) {
	until, asks := t.waitsUntil(run, slot)
	if app == come {
		for _, n := range t.nobody {
			list = append(list, trouble{n.from, n.until.Add(nextLook(slot, n.until))})
		}
	}
	if asks {
		for _, n := range slices.Concat(t.w.faults.unheard[app], t.w.faults.busy[run.Job()]) {
			list = append(list, trouble{n.from, n.until.Add(waitLook)})
		}
	}
	for i := range list {
		if list[i].until.After(until) {
			list[i].until = until
		}
	}
	return list
}

// queued asserts that a run that begins to wait has no executor. Callers hold mu.
func (t *truth) queued(ctx context.Context, r *core.Run) {
	st := t.story(r.ID)
	st.queued = true
	if t.hasLimit(r.ID.Job()) {
		if r.App == come && t.isNobody() {
			t.w.count("waits for an executor beside a limit", 1)
			for _, l := range t.limits {
				if l.open[r.First] {
					t.crowd(l)
				}
			}
		}
		if r.Shard.Of == 0 && r.Cause != core.CauseRetry {
			t.hasPermit(r)
		}
		return
	}
	t.w.count("waits for an executor", 1)
	until, asks := t.waitsUntil(r.ID, r.Slot.Time())
	inv := invocationOf(ctx)
	switch {
	case !until.After(r.Slot.Time()):
		t.fail(r.ID, "run %d waits for an executor, and its job does not", r.ID)
	case inv != nil && !asks && !t.wasNobody(r.App, inv.until.Add(-t.w.deployed.invocation-time.Second), time.Now()):
		t.fail(r.ID, "run %d waits for an executor, but one was available", r.ID)
	}
}

// wasNobody reports whether no executor was available at some moment. Callers hold mu.
func (t *truth) wasNobody(app string, from, to time.Time) bool {
	return app == come && slices.ContainsFunc(t.nobody, func(n trouble) bool {
		return !n.from.After(to.Add(time.Second)) && !n.until.Before(from.Add(-time.Second))
	})
}

// waited asserts that a run which failed without an executor waited for one as long as its job
// allows, and that none was available. Callers hold mu.
func (t *truth) waited(r *core.Run, st *story) {
	slot := r.Slot.Time()
	until, asks := t.waitsUntil(r.ID, slot)
	if st.queued {
		t.w.count("waited, then "+string(r.State)+" "+string(r.Reason), 1)
	}
	if r.Reason != core.ReasonNoExecutor || !until.After(slot) {
		return
	}
	switch {
	case st.closed.Add(t.w.slack()).Before(until):
		t.fail(r.ID, "run %d failed without an executor %s before its wait was over", r.ID, until.Sub(st.closed))
	case !asks && !t.wasNobody(r.App, slot.Add(-t.w.slack()), st.closed):
		t.fail(r.ID, "run %d failed without an executor, but one was available", r.ID)
	}
}

// unanswered records that an address was probed for a run and did not answer.
func (w *World) unanswered(app string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults.unheard[app] = with(w.faults.unheard[app], trouble{time.Now(), time.Now()})
}

// busyWith records that an address was asked whether it is idle for a job, and runs one of its runs.
func (w *World) busyWith(job core.JobID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts["asked who is idle: busy"]++
	w.faults.busy[job] = with(w.faults.busy[job], trouble{time.Now(), time.Now()})
}

// nextIdle returns the troubles that make a run of a job come again because another used the
// idle answer that it asked for. Callers hold mu of the world.
func (w *World) nextIdle(job core.JobID) []trouble {
	list := slices.Clone(w.faults.busy[job])
	for i := range list {
		list[i].until = list[i].until.Add(w.deployed.backoffMax * 5 / 4)
	}
	return list
}

// idleAt is an address that one process asked whether it is idle for a job.
type idleAt struct {
	in *incarnation
	q  question
}

// saidIdle records the answer that it is idle: one fire may use it.
func (t *truth) saidIdle(in *incarnation, q question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle[idleAt{in, q}]++
	t.w.count("asked who is idle: idle", 1)
}

// wentByIdle asserts for the first send of a job that needs an idle address: the address
// reported idle, for this run and no other. Callers hold mu.
func (t *truth) wentByIdle(in *incarnation, sh *dispatch.SendRequest) {
	r, job := sh.Run, &sh.Job.Def
	if job.Route != core.RouteBusyover || t.story(r.ID).sends > 1 || r.MaybeSent || r.Shard.Of != 0 ||
		strings.HasPrefix(sh.Address, "call:") || strings.HasPrefix(sh.Address, "lambda:") {
		return
	}
	k := idleAt{in, question{sh.Address, job.ID}}
	if t.idle[k]--; t.idle[k] < 0 {
		t.fail(r.ID, "run %d goes to %s as idle, but only others got that answer", r.ID, sh.Address)
	}
}
