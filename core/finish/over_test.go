package finish_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
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
