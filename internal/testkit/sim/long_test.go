package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/wire"
)

// A trigger 70 days ahead is there when its time has come.
func TestTriggerFarAhead(t *testing.T) {
	for _, aws := range []bool{false, true} {
		r := directed(t, Config{AWS: aws, Far: true, Deployed: true, For: 71 * day, Jobs: []manage.JobSpec{byHand("alpha", "one")},
			Act: func(w *World) {
				at := time.Now().Add(70 * day)
				w.triggers("alpha/one", &at)
				w.stands(70*day - 20*time.Minute)
				w.sleep(bg, 30*time.Minute)
				w.stands(time.Until(w.began.Add(71 * day)))
			}})
		r.want(t, "state succeeded", 1)
		if runs := r.runs[1]; len(runs) == 1 && runs[0].SentAt.Sub(runs[0].Slot.Time()) > time.Second {
			t.Errorf("sent at %s, due at %s", runs[0].SentAt, runs[0].Slot)
		}
	}
}

// A run that is open for 30 days is watched all the time: the run that reports ends as
// reported, and the run that its executor forgot is lost soon after.
func TestRunOpenForAMonth(t *testing.T) {
	for _, aws := range []bool{false, true} {
		var forgets time.Time
		r := directed(t, Config{AWS: aws, Far: true, Deployed: true, For: 31 * day, Jobs: []manage.JobSpec{byHand("alpha", "one"),
			byHand("alpha", "two")},
			Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
				w.truth.arrives(sh)
				forgets = time.Now().Add(30 * day)
				t := w.execs.takes(sh)
				w.after(30*day, func() {
					if w.execs.end(w.execs.at[sh.Address], t); sh.Job.Def.Name == "one" {
						w.report(wire.CallbackItem{LogID: int64(sh.Run.ID), Code: 200})
					}
				})
				return dispatch.Answer{Kind: dispatch.AnswerAccepted}, true
			},
			Act: func(w *World) {
				trigger("alpha/one", "alpha/two")(w)
				for w.busy.Load() { // little happens in between
					w.sleep(bg, 10*time.Minute)
					stands := 12 * time.Hour
					if time.Since(w.began) > 28*day { // it has to be seen soon after the end
						stands = 4 * time.Hour
					}
					if left := time.Until(w.began.Add(31 * day)); left > 0 {
						w.stands(min(stands, left))
					}
				}
			}})
		r.want(t, "state succeeded", 1)
		r.want(t, "state lost", 1)
		for n := range core.JobID(2) {
			for _, run := range r.runs[n+1] {
				if late := run.EndedAt.Sub(forgets); late < 0 || late > 5*time.Hour {
					t.Errorf("run %d ended as %s at %s, %s after its executor ended it", run.ID, run.State, run.EndedAt, late)
				}
			}
		}
	}
}

// For hours an executor has twenty runs and answers no question, and another does not respond
// at all. The watchdog has 50 s for each of its passes, and continues: a run whose executor is
// gone is closed as lost as soon as without them.
func TestDeafForHours(t *testing.T) {
	var jobs []manage.JobSpec
	var refs []string
	for i := range 20 {
		jobs = append(jobs, byHand("beta", fmt.Sprint("deaf-", i)))
		refs = append(refs, "beta/"+jobs[i].Def.Name)
	}
	jobs = append(jobs, byHand("alpha", "well"))
	const hours = 4 * time.Hour
	var gone time.Time
	r := directed(t, Config{Far: true, Deployed: true, For: hours, Jobs: jobs, Behave: keeps, Act: func(w *World) {
		trigger(refs...)(w)
		w.sleep(bg, time.Minute)
		w.execs.set(func(e *executor) { e.deaf = w.began.Add(hours) }, apps[1].addresses...)
		trigger("alpha/well")(w)
		w.sleep(bg, time.Minute)
		gone = time.Now()
		w.execs.set(func(e *executor) { e.down = w.began.Add(hours) }, apps[0].addresses...)
		w.sleep(bg, time.Until(w.began.Add(hours-time.Minute)))
		w.execs.set(func(e *executor) { clear(e.tasks); clear(e.jobs) }, apps[1].addresses...) // and forgets all
	}})
	if r.Counts["question not answered"] < 8 {
		t.Errorf("%d questions were not answered", r.Counts["question not answered"])
	}
	runs := r.runs[21]
	if len(runs) != 1 || runs[0].State != core.Lost {
		t.Fatalf("%+v", runs)
	}
	if late := runs[0].EndedAt.Sub(gone); late > r.w.deployed.watched() {
		t.Errorf("the run of an executor that is gone was lost %s later", late)
	}
}
