package finish_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// lasting returns a rig with a run that is past its timeout and whose executor is busy.
func lasting(t *testing.T, change func(*core.Run)) *watchRig {
	r := newWatchRig(t)
	r.job(1, func(j *core.Job) { j.Def.Timeout = 30 * time.Second })
	r.sent(func(x *core.Run) {
		x.Retries = 1
		if change != nil {
			change(x)
		}
	})
	r.now = begin.Add(40 * time.Second)
	r.registered(0)
	return r
}

// TestTimeoutOfADeletedJob: an executor is busy with a run of a deleted job. The run is ended
// after the longest timeout that a job can have.
func TestTimeoutOfADeletedJob(t *testing.T) {
	r := lasting(t, nil)
	r.Delete(1, begin)
	for _, age := range []time.Duration{core.MaxTimeout, core.MaxTimeout + 5*time.Second} {
		r.now = begin.Add(age)
		r.registered(0)
		r.Must(r.check(false))
		if got := r.Run(id); (got.State == core.TimedOut) != (age > core.MaxTimeout) {
			t.Errorf("after %s: %+v, %d kills sent", age, got, r.p.kills)
		}
	}
}

// TestTimeoutOfOneOfSeveral: a kill would end other runs of the job there, so the run stays open
// and is checked again until it is alone. Runs elsewhere, and runs without an executor, do not
// matter.
func TestTimeoutOfOneOfSeveral(t *testing.T) {
	r := lasting(t, nil)
	other := core.PlannedRun(1, core.InstantOf(begin)+20)
	r.run(other, nil)
	r.run(core.PlannedRun(1, core.InstantOf(begin)+21), func(x *core.Run) { x.Address = "http://10.0.0.2:9999/" })
	r.run(core.PlannedRun(1, core.InstantOf(begin)+22), func(x *core.Run) { x.State, x.Owner = core.Queued, "" })
	for range 3 {
		r.Must(r.check(false))
		if got := r.Run(id); got.State != core.Running || !got.PastTimeout() || r.p.kills != 0 {
			t.Fatalf("one of two: %+v, %d kills sent", got, r.p.kills)
		}
		m := r.messages(ring.KindCheck)
		if len(m) != 1 || len(m[0].Check.Runs) != 1 || m[0].Check.Runs[0] != id || m[0].Check.Idle {
			t.Fatalf("asked for again: %+v", m)
		}
	}
	r.Must(r.end(finish.Result{Run: other, State: core.Succeeded, Code: 200, Reported: true}))
	third := core.PlannedRun(1, core.InstantOf(begin)+23)
	r.run(third, func(x *core.Run) { x.KillAt = begin }) // past its timeout too, and waits to be alone
	r.Must(r.check(false))
	if got := r.Run(third); got.State != core.TimedOut || got.Reason != core.ReasonTimeout {
		t.Errorf("another past its timeout there: %+v", got)
	}
	if got := r.Run(id); got.State != core.TimedOut || got.Then == 0 || r.p.kills != 1 || len(r.messages(ring.KindCheck)) != 0 {
		t.Errorf("alone: %+v, %d kills sent", got, r.p.kills)
	}
}

// TestTimeoutEndsBehindQueuedRuns: queued runs of the job do not delay the end of a run past its
// timeout. A run in time at its address does.
func TestTimeoutEndsBehindQueuedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that the search for other runs has the time that it needs
		for i, n := range []int{budget.OpenAtOnce, budget.OpenAtOnce + 1, 3 * budget.OpenAtOnce, budget.OpenAtOnce} {
			r := lasting(t, func(x *core.Run) { x.Permit = "job/1" })
			alone := i < 3
			if !alone {
				r.run(core.PlannedRun(1, core.InstantOf(begin)-10), nil)
			}
			var waits []core.Run
			for i := range n {
				run := core.PlannedRun(1, core.InstantOf(begin)+core.Instant(100+i))
				waits = append(waits, core.Run{ID: run, App: "orders", State: core.Queued, Cause: core.CauseSchedule, Rev: 1, Attempt: 1, First: run,
					Permit: "job/1"})
			}
			r.Must(errors.Join(r.CreateRuns(t.Context(), waits)...))
			r.Must(r.check(false))
			if got := r.Run(id); (got.State == core.TimedOut) != alone || r.p.kills == 1 != alone {
				t.Errorf("alone there %t: it is %s, its executor got %d kills", alone, got.State, r.p.kills)
			}
		}
	})
}

// TestTimeoutIsLookedAtAgain: if the next check cannot be enqueued, this one fails.
func TestTimeoutIsLookedAtAgain(t *testing.T) {
	r := lasting(t, nil)
	r.run(core.PlannedRun(1, core.InstantOf(begin)+20), nil)
	r.faults.faults["enqueue"] = []fault{{err: core.ErrThrottled}}
	if err := r.check(false); err == nil {
		t.Error("the check is done, and none follows")
	}
}

// TestTimeoutIsNotTaken: if the executor rejects the kill, the run stays open. Every later end
// but a success is recorded as timed-out.
func TestTimeoutIsNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		end   finish.Result
		state core.State
		retry bool
	}{
		"killed, as reported": {finish.Result{State: core.Killed, Reason: core.ReasonPerson, Code: 500, Killed: true, Reported: true},
			core.TimedOut, true},
		"failed":    {finish.Result{State: core.Failed, Reason: core.ReasonHandler, Code: 500, Reported: true}, core.TimedOut, true},
		"lost":      {finish.Result{State: core.Lost, Reason: core.ReasonGone}, core.TimedOut, true},
		"succeeded": {finish.Result{State: core.Succeeded, Code: 200, Reported: true}, core.Succeeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := lasting(t, nil)
			r.p.killErr = errors.New("refused")
			r.Must(r.check(false))
			if got := r.Run(id); got.State != core.Running || !got.PastTimeout() {
				t.Fatalf("%+v", got)
			}
			c.end.Run = id
			r.Must(r.end(c.end))
			if got := r.Run(id); got.State != c.state || (got.Then != 0) != c.retry {
				t.Errorf("it is %s: %s, its retry %d", got.State, got.Reason, got.Then)
			}
		})
	}
}

// TestTimeoutAndAPerson: a user's kill decides, whether it is recorded before or after the
// timeout.
func TestTimeoutAndAPerson(t *testing.T) {
	r := lasting(t, func(x *core.Run) { x.KillBy, x.KillAt = "ann", begin.Add(time.Second) })
	r.Must(r.check(false))
	if got := r.Run(id); got.State != core.Killed || got.KillBy != "ann" || got.Then != 0 || r.p.kills != 1 {
		t.Errorf("before: %+v", got)
	}
	r = lasting(t, nil)
	r.p.killErr = errors.New("refused")
	r.Must(r.check(false))
	failed := finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500}
	r.faults.faults["close"] = []fault{{between: func() {
		got := r.Run(id)
		r.Must(r.Change(got.Kill("ann", r.now)))
	}}}
	r.Must(r.end(failed))
	if got := r.Run(id); got.State != core.Killed || got.Reason != core.ReasonPerson || got.Then != 0 || len(r.Numbered(1)) != 0 {
		t.Errorf("after, while it was ended: %+v", got)
	}
}

// TestTimeoutAtAQueue: a run that waits in a queue has not begun, and its consumer limits its
// time.
func TestTimeoutAtAQueue(t *testing.T) {
	r := lasting(t, func(x *core.Run) { x.Address = "queue:slow" })
	r.fixed("queue:slow")
	r.Must(r.check(false))
	if got := r.Run(id); got.State != core.Running || !got.KillAt.IsZero() || r.p.idles != 1 {
		t.Errorf("%+v", got)
	}
}
