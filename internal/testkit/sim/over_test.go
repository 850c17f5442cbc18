package sim

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/wire"
)

// An executor is busy with runs past their timeout, and never ends them. A run that is alone of
// its job there ends at its first check, and its retry after it. Several runs of a job end once
// all are past their timeout, at the next check. No other run of the executor is ended by that
// (each kill asserts it).
func TestTimeoutsThatKill(t *testing.T) {
	const limit, grace, apart, inTime = 30 * time.Second, 5 * time.Second, 20 * time.Second, 25 * time.Second
	hung := func(name string, retries int) manage.JobSpec {
		j := byHand("alpha", name)
		j.Def.Timeout, j.Def.Retry = limit, core.Retry{Max: retries, Delay: time.Second}
		return j
	}
	const alone, several, other = 1, 2, 3
	jobs := []manage.JobSpec{hung("alone", 1), hung("several", 0), byHand("alpha", "other")}
	for name, c := range map[string]Config{
		"one machine":                 {},
		"functions":                   {Far: true},
		"functions, as they are, AWS": {Far: true, Deployed: true, AWS: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.Jobs, c.For = jobs, 8*time.Minute
			ends := func(w *World, job core.JobID) { // the newest run of a job, well
				x, e := w.execs, w.execs.at[apps[0].addresses[0]]
				var last *task
				for t := range e.jobs[job] {
					if last == nil || t.run > last.run {
						last = t
					}
				}
				if last != nil && x.end(e, last) {
					w.report(wire.CallbackItem{LogID: int64(last.run), Code: 200})
				}
			}
			c.Behave = keeps
			c.Act = func(w *World) {
				trigger("alpha/alone", "alpha/several", "alpha/other")(w)
				for range 2 {
					w.sleep(bg, apart-5*time.Second)
					trigger("alpha/several")(w)
				}
				w.sleep(bg, 5*time.Second+inTime)
				ends(w, several)
				w.sleep(bg, 6*time.Minute)
				ends(w, other)
			}
			r := directed(t, c)
			of := map[core.JobID][]core.Run{}
			for n := range core.JobID(len(jobs)) {
				of[n+1] = r.runs[n+1]
			}
			if len(of[alone]) != 2 || len(of[several]) != 3 || len(of[other]) != 1 || of[other][0].State != core.Succeeded ||
				of[several][2].State != core.Succeeded {
				t.Fatalf("%+v", of)
			}
			for i, list := range [][]core.Run{of[alone], of[several]} {
				for _, run := range list {
					due, within := run.SentAt.Add(limit+grace), moment
					if i == 1 {
						if run.ID == list[2].ID {
							continue
						}
						due, within = list[2].EndedAt, moment+r.w.deployed.idleGap
					}
					if late := run.EndedAt.Sub(due); run.State != core.TimedOut || run.Reason != core.ReasonTimeout || late < 0 || late > within {
						t.Errorf("run %s is %s, %s, %s after it might be", run.ID, run.State, run.Reason, late)
					}
				}
			}
			if n := r.Counts["kill of what is past its timeout"]; n < 3 {
				t.Errorf("%d kills", n)
			}
		})
	}
}
