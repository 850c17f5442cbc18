package finish_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/store"
)

const joinJob core.JobID = 100

// join stores parent jobs 1 to n and a job that comes after all of them within an hour.
func (r *rig) join(n int, change func(*core.Job)) {
	r.t.Helper()
	var after []core.Parent
	for i := range n {
		job := r.job(core.JobID(1+i), nil)
		after = append(after, core.Parent{Job: job.Name(), ID: job.Def.ID, When: core.UponClose})
	}
	r.job(joinJob, func(j *core.Job) {
		j.Def.After, j.Def.Within = after, time.Hour
		if change != nil {
			change(j)
		}
	})
}

// closes stores the nth run of a parent, and returns a function that ends it.
func (r *rig) closes(parent core.JobID, n int) func() error {
	r.t.Helper()
	run := core.PlannedRun(parent, core.InstantOf(begin)+core.Instant(n))
	r.run(run, func(run *core.Run) { run.Place, run.Retries = 1, 0 })
	return func() error {
		return r.end(finish.Result{Run: run, State: core.Succeeded, Reported: true, Data: fmt.Sprintf("%d of %d", n, parent)})
	}
}

// joins counts the runs of the join: sent, awaiting the join, and skipped by it.
func (r *rig) joins() (sent, await, skipped int) {
	r.t.Helper()
	onRing := map[core.RunID]bool{}
	for _, m := range r.messages(ring.KindFires) {
		for _, f := range m.Fires {
			if f.At == f.Slot {
				onRing[f.Run] = true
			}
		}
	}
	for _, c := range r.Numbered(joinJob) {
		switch {
		case c.State == core.Skipped && c.Reason == core.ReasonJoin:
			skipped++
		case c.AwaitsJoin():
			await++
		case onRing[c.ID] && c.State == core.Planned && c.Parent != 0 && c.First == c.ID && c.Retries == 2 && c.App == "orders":
			sent++
		default:
			r.t.Errorf("a run of the join is %+v, sent %v", c, onRing[c.ID])
		}
	}
	return sent, await, skipped
}

func (r *rig) wantJoins(what string, sent, await, skipped int) {
	r.t.Helper()
	if s, a, k := r.joins(); s != sent || a != await || k != skipped {
		r.t.Errorf("%s: %d sent, %d awaiting, %d skipped; want %d, %d, %d", what, s, a, k, sent, await, skipped)
	}
}

// TestJoinWaitsForUnreadableJob: an end that arrives while the join cannot be decoded counts once
// it can, and creates no run of its own.
func TestJoinWaitsForUnreadableJob(t *testing.T) {
	r := newRig(t)
	r.join(2, nil)
	first := r.closes(1, 0)
	r.damaged = joinJob
	r.Must(first())
	r.wantJoins("unreadable", 0, 0, 0)
	r.damaged = 0
	r.Must(first())
	r.wantJoins("one is missing", 0, 1, 0)
	r.Must(r.closes(2, 0)())
	r.wantJoins("all", 1, 0, 0)
}

// TestJoinOfAsked: only ends of the required kind count.
func TestJoinOfAsked(t *testing.T) {
	r := newRig(t)
	r.join(2, func(j *core.Job) { j.Def.After[1].When = core.UponFailure })
	r.Must(r.closes(1, 0)())
	r.Must(r.closes(2, 0)())
	r.wantJoins("a success", 0, 1, 0)
}

func (r *rig) due() error {
	r.t.Helper()
	for _, run := range r.Numbered(joinJob) {
		if run.AwaitsJoin() {
			return r.f.JoinDue(r.t.Context(), &run)
		}
	}
	return nil
}

// TestJoinOver: the end of a window leaves one skipped run, whichever process sees it first.
func TestJoinOver(t *testing.T) {
	texts := golden.New(t)
	for _, byNote := range []bool{true, false} {
		r := newRig(t)
		r.join(2, nil)
		r.Must(r.closes(1, 0)())
		if r.due() == nil {
			t.Error("it was judged before the end of its window")
		}
		r.wantJoins("before", 0, 1, 0)
		r.now = r.now.Add(time.Hour)
		if !byNote {
			for range 2 {
				r.Must(r.due())
			}
			r.wantJoins("over", 0, 0, 1)
		}
		r.Must(r.closes(2, 0)())
		r.wantJoins("the next", 0, 1, 1)
		for _, run := range r.Numbered(joinJob) {
			if run.State == core.Skipped {
				texts.Equal(t, "skipped", run.Message)
			}
		}
	}
}

// TestJoinIsEdited: the current parents count, even if no parent closes after the edit.
func TestJoinIsEdited(t *testing.T) {
	edit := func(r *rig, change func(*core.Def)) {
		job := r.JobOf(joinJob)
		change(&job.Def)
		job.Sched.Rev++
		r.Must(r.Jobs.Put(t.Context(), []store.JobPut{{Update: &store.JobUpdate{Seen: job.Sched.Rev - 1, Job: job}}})[0])
	}
	r := newRig(t)
	r.join(3, nil)
	r.Must(errors.Join(r.closes(1, 0)(), r.closes(2, 0)()))
	edit(r, func(d *core.Def) { d.After = d.After[:2] })
	r.Must(r.due())
	r.wantJoins("fewer", 1, 0, 0)

	r = newRig(t)
	r.join(2, nil)
	r.Must(r.closes(1, 0)())
	edit(r, func(d *core.Def) { d.Within = 0 })
	r.Must(r.closes(2, 0)())
	r.now = r.now.Add(time.Hour)
	r.Must(r.due())
	r.wantJoins("a list", 1, 0, 1)
}

// TestJoinGetsDataOfRunsThatAreGone: the data of a join is an object with the parents' names as
// keys. A parent's run may be deleted while the join waits for the next parent.
func TestJoinGetsDataOfRunsThatAreGone(t *testing.T) {
	r := newRig(t)
	r.join(2, func(j *core.Job) { j.Def.Params, j.Def.Template = "{{parent.data}}", true })
	r.Must(errors.Join(r.closes(1, 0)(), r.closes(1, 1)()))
	last := core.PlannedRun(1, core.InstantOf(begin)+1)
	r.Drop(r.Run(last))
	r.Must(r.closes(2, 5)())
	run := r.Numbered(joinJob)[0]
	if want := `{"orders/job-1":"1 of 1","orders/job-2":"5 of 2"}`; run.Params == nil || *run.Params != want {
		t.Errorf("params %v", run.Params)
	}
}

// TestSkippedJoinIsToldThoughTheLaneRefused: every caller that finds a round over requests the
// notification of its skipped run. An earlier caller may have created the run without the
// request.
func TestSkippedJoinIsToldThoughTheLaneRefused(t *testing.T) {
	for _, awaited := range []bool{true, false} {
		r := newRig(t)
		r.join(2, func(j *core.Job) { j.Def.Notify = core.Notify{To: []string{"a"}, On: []core.Event{core.EventSkipped}} })
		first := r.closes(1, 0)
		if !awaited { // the mark is stored, the run is not
			r.faults.faults["create"] = []fault{{err: core.ErrThrottled}}
		}
		if err := first(); (err == nil) != awaited {
			t.Fatal(err)
		}
		r.now = r.now.Add(time.Hour)
		second := r.closes(2, 0)
		r.faults.faults["enqueue"] = []fault{{err: core.ErrThrottled}}
		if second() == nil {
			t.Errorf("awaited %v: the log does not show that the notification was not requested", awaited)
		}
		if n := len(r.messages(ring.KindPostRun)); n != 0 {
			t.Fatalf("%d messages", n)
		}
		r.Must(second())
		if n := len(r.messages(ring.KindPostRun)); n != 1 {
			t.Errorf("awaited %v: the lane is asked %d times", awaited, n)
		}
	}
}
