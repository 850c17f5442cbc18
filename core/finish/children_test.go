package finish_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// family stores job 1 and n child jobs for each kind of end. Their IDs begin at 100 for success,
// 200 for failure, and 300 for any end.
func (r *rig) family(n int) {
	r.t.Helper()
	r.job(1, nil)
	for i, when := range core.Upons {
		for k := range n {
			r.job(core.JobID(100*(i+1)+k), func(j *core.Job) {
				j.Def.After = []core.Parent{{Job: "orders/job-1", ID: 1, When: when}}
				j.Def.Retry.Max = 3
			})
		}
	}
}

// born returns the jobs of the child runs of id, once for each run that was sent.
func (r *rig) born() (jobs []core.JobID) {
	r.t.Helper()
	sent := map[core.RunID]bool{}
	for _, m := range r.messages(ring.KindFires) {
		for _, f := range m.Fires {
			sent[f.Run] = true
		}
	}
	for job := core.JobID(100); job < 400; job++ {
		first, last := core.NumberedRange(job)
		runs, err := r.Runs.Span(r.t.Context(), first, last, 100)
		r.Must(err)
		for i := range runs {
			c := &runs[i]
			if c.Parent != id || c.Cause != core.CauseParent || c.State != core.Planned || c.First != c.ID || c.Attempt != 1 ||
				c.Retries != 3 || c.Rev != 1 || c.App != "orders" {
				r.t.Errorf("a child is %+v", c)
			}
			if sent[c.ID] {
				jobs = append(jobs, job)
			} else {
				r.t.Errorf("run %d of job %d was not sent", c.ID, job)
			}
		}
	}
	return jobs
}

func span(first core.JobID, n int) (list []core.JobID) {
	for k := range n {
		list = append(list, first+core.JobID(k))
	}
	return list
}

// TestChildOfAListThatChanges: the place is not a count, so an edit of the list before it moves
// nothing.
func TestChildOfAListThatChanges(t *testing.T) {
	r := newRig(t)
	r.family(28)
	r.run(id, func(run *core.Run) { run.Place, run.Retries = 1, 0 })
	faults := make([]fault, 3) // the first piece is created
	faults[2] = fault{err: core.ErrThrottled, between: func() {
		for _, gone := range []core.JobID{100, 101, 127, 300} {
			r.Delete(gone, begin)
		}
		r.job(99, func(j *core.Job) { j.Def.After = []core.Parent{{Job: "orders/job-1", ID: 1, When: core.UponClose}} })
		r.job(150, func(j *core.Job) {
			j.Def.After, j.Def.Retry.Max = []core.Parent{{Job: "orders/job-1", ID: 1, When: core.UponClose}}, 3
		})
	}}
	r.faults.faults["change"] = faults[1:]
	result := finish.Result{Run: id, State: core.Succeeded, Reported: true}
	if err := r.end(result); !errors.Is(err, core.ErrThrottled) {
		t.Fatalf("got %v", err)
	}
	r.Must(r.end(result))
	got := r.born()
	slices.Sort(got)
	// 100 and 101 were created before they were removed, 127 and 300 were not. 99 came too late.
	if want := slices.Concat(span(100, 27), []core.JobID{150}, span(301, 27)); !slices.Equal(got, want) {
		t.Errorf("made %v, want %v", got, want)
	}
}
