package wiring_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestStorm: within a minute hundreds of runs of one job fail, and a few of others. Logs of their executor hang, and the
// channel takes ten seconds to answer. No heartbeat of that executor is late, and no report of an end waits. For the one
// job, users are notified at once and, with the count of the others, after its quiet period. The reason for the missing
// log is stored for each run within two hours, and no follow-up is pending then.
func TestStorm(t *testing.T) {
	check.Long(t)
	const n, others, quiet = 500, 3, 10 * time.Minute
	spec := job(core.EventFailed)
	spec.Def.Notify.Quiet = quiet
	tells(t, spec, func(r *told) {
		t := r.t
		var latest time.Duration
		beats := 0
		r.set(func() {
			r.hangs, r.slow = true, 10*time.Second
			r.answers = func(run *core.Run) dispatch.Answer {
				if run.Cause != core.CauseSchedule {
					return dispatch.Answer{Kind: dispatch.AnswerAccepted}
				}
				beats++
				latest = max(latest, time.Since(run.Slot.Time()))
				return succeeding
			}
		})
		beat := manage.JobSpec{Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Second, Aligned: true}}}}
		beat.Def.App, beat.Def.Name, beat.Def.Handler = "shop", "beat", "h"
		r.save(beat)
		names := []string{"shop/nightly"}
		for i := range others {
			other := spec
			other.Def.App, other.Def.Name, other.Def.Handler, other.Def.Notify.To = "shop", fmt.Sprint("other-", i), "h", []string{"a"}
			r.save(other)
			names = append(names, "shop/"+other.Def.Name)
		}
		var runs []core.RunID
		for i := range n + others {
			runs = append(runs, r.triggers(operate.TriggerRequest{Job: names[max(0, i-n+1)]}))
		}
		time.Sleep(time.Minute) // the executor works
		began := time.Now()
		reports := slices.Collect(slices.Chunk(runs, 100))
		for _, some := range reports {
			var list []finish.Result
			for _, id := range some {
				list = append(list, finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "boom"})
			}
			for _, err := range r.a.Finish.End(t.Context(), list) {
				r.must(err)
			}
			time.Sleep(time.Minute / time.Duration(len(reports)))
		}
		if took := time.Since(began); took > time.Minute {
			t.Errorf("reports of %d ends waited: they took %s", len(runs), took)
		}
		left := func() (owe, messages int) {
			for _, id := range runs {
				if run := r.run(id); run.State != core.Failed || run.Owing() {
					owe++
				}
			}
			due, waiting, inHand, err := r.e.Queue.Depth(t.Context(), ring.KindPostRun)
			r.must(err)
			return owe, due + waiting + inHand
		}
		if owe, messages := left(); owe < n/2 || messages < n/2 {
			t.Errorf("once all have ended %d runs owe, with %d messages: this is no storm", owe, messages)
		}
		for owe, messages := left(); owe+messages > 0; owe, messages = left() {
			if time.Since(began) > 2*time.Hour {
				t.Fatalf("after two hours %d runs owe, and %d messages are on the lane", owe, messages)
			}
			time.Sleep(5 * time.Minute)
			synctest.Wait()
		}
		done := time.Since(began)
		for _, id := range runs {
			if k, is, err := r.e.KeptLog(t.Context(), id); err != nil || !is || k.Why == "" {
				t.Fatalf("of run %d is kept %+v, %t, %v", id, k, is, err)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		told := map[string][]int{}
		var after []time.Duration
		for i, m := range r.got {
			told[m.Job] = append(told[m.Job], m.Count)
			if m.Job == "nightly" {
				after = append(after, r.when[i].Sub(began))
			}
		}
		counts := told["nightly"]
		if len(counts) != 2 || counts[0]+counts[1] != n || after[0] > 45*time.Second || after[1] < quiet || after[1] > quiet+2*time.Minute {
			t.Errorf("of %d failures people heard %v, after %v", n, counts, after)
		}
		if delete(told, "nightly"); len(told) != others || len(r.got) != 2+others {
			t.Errorf("of other jobs people heard %v", told)
		}
		if latest > 0 || beats < int(done/time.Second) {
			t.Errorf("the latest of %d beats was %s late", beats, latest)
		}
		t.Logf("people heard %v after %v; the latest of %d beats was %s late; all was done after %s", counts, after, beats, latest, done)
	})
}
