package finish_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
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

// parent stores a run that has children.
func (r *rig) parent(change func(*core.Run)) {
	r.t.Helper()
	r.run(id, func(run *core.Run) {
		run.Place, run.Retries = 1, 0
		if change != nil {
			change(run)
		}
	})
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

func TestChildrenOfAnEnd(t *testing.T) {
	success, failure, closed := span(100, 3), span(200, 3), span(300, 3)
	on := func(list ...[]core.JobID) []core.JobID { return slices.Concat(list...) }
	for what, c := range map[string]struct {
		end    finish.Result
		parent func(*core.Run)
		job    func(*core.Job)
		want   []core.JobID
	}{
		"succeeded":   {end: finish.Result{State: core.Succeeded, Reported: true}, want: on(success, closed)},
		"failed":      {end: finish.Result{State: core.Failed, Reason: core.ReasonHandler}, want: on(failure, closed)},
		"no executor": {end: finish.Result{State: core.Failed, Reason: core.ReasonNoExecutor}, want: on(failure, closed)},
		"timed out":   {end: finish.Result{State: core.TimedOut, Reason: core.ReasonTimeout}, want: on(failure, closed)},
		"never again": {end: finish.Result{State: core.Failed, RetryAfter: core.NoRetry}, want: on(failure, closed)},
		"lost":        {end: finish.Result{State: core.Lost, Reason: core.ReasonGone}, want: closed},
		"lost and named": {end: finish.Result{State: core.Lost, Reason: core.ReasonGone}, want: on(failure, closed),
			job: func(j *core.Job) { j.Def.Retry.On = []core.State{core.Lost} }},
		"killed": {end: finish.Result{State: core.Failed}, want: closed,
			parent: func(run *core.Run) { run.KillBy, run.KillAt = "bob", begin }},
		"skipped": {end: finish.Result{State: core.Skipped, Reason: core.ReasonOverlap}},
		"a retry that fell": {end: finish.Result{State: core.Skipped, Reason: core.ReasonPaused}, want: on(failure, closed),
			parent: func(run *core.Run) { run.Attempt = 2 }},
		"tried again": {end: finish.Result{State: core.Failed}, parent: func(run *core.Run) { run.Retries = 1 }},
		"has none":    {end: finish.Result{State: core.Succeeded}, parent: func(run *core.Run) { run.Place = 0 }},
		"none of its end": {end: finish.Result{State: core.Lost, Reason: core.ReasonGone},
			parent: func(run *core.Run) { run.Place = core.PlaceAfter(302) }},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			r.family(3)
			if c.job != nil {
				changed := r.JobOf(1)
				c.job(&changed)
				changed.Sched.Rev++
				r.Must(r.Jobs.Put(t.Context(), []store.JobPut{{Update: &store.JobUpdate{Seen: 1, Job: changed}}})[0])
			}
			r.parent(c.parent)
			c.end.Run = id
			for range 3 {
				r.Must(r.end(c.end))
			}
			got := r.born()
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("made %v, want %v", got, c.want)
			}
			if run := r.Run(id); len(run.Owes) > 0 || run.OwesChildren() || len(c.want) > 0 && run.Place != 0 {
				t.Errorf("in the end it is %+v", run)
			}
		})
	}
}

// TestChildOfAListThatChanges: the place is not a count, so an edit of the list before it moves
// nothing.
func TestChildOfAListThatChanges(t *testing.T) {
	r := newRig(t)
	r.family(28)
	r.parent(nil)
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
	r.faults.faults["clear owed"] = faults[1:]
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

// TestChildrenOfAJobThatIsGone: a deleted job has no children.
func TestChildrenOfAJobThatIsGone(t *testing.T) {
	r := newRig(t)
	r.parent(nil)
	r.Must(r.end(finish.Result{Run: id, State: core.Succeeded, Reported: true}))
	if run := r.Run(id); run.Owing() || run.Place != 0 {
		t.Errorf("in the end it is %+v", run)
	}
}

// TestChildDeletedWhileItIsOwed: the run of a deleted child job is still created, with its app.
func TestChildDeletedWhileItIsOwed(t *testing.T) {
	r := newRig(t)
	r.family(1)
	r.parent(nil)
	r.faults.faults["create"] = []fault{{err: core.ErrThrottled}}
	result := finish.Result{Run: id, State: core.Succeeded, Reported: true}
	if r.end(result) == nil {
		t.Fatal("it was done")
	}
	r.Delete(100, begin)
	r.Must(r.end(result))
	child := r.Run(core.NumberedRun(100, 1))
	if child.App != "orders" || child.Parent != id {
		t.Errorf("its run is %+v", child)
	}
}

// TestChildFollowsItsJob: a child run takes the rules for its own end from its job.
func TestChildFollowsItsJob(t *testing.T) {
	r := newRig(t)
	r.job(1, nil)
	r.job(100, func(j *core.Job) {
		j.Def.After = []core.Parent{{Job: "orders/job-1", ID: 1, When: core.UponSuccess}}
		j.Def.PauseAfter, j.Def.Overlap = 1, core.Overlap{Limit: 1}
	})
	r.parent(nil)
	r.Must(r.end(finish.Result{Run: id, State: core.Succeeded, Reported: true}))
	child := core.NumberedRun(100, 1)
	if c := r.Run(child); !c.PauseAfter || c.Permit != "" { // the permit is set at the first send
		t.Fatalf("%+v", c)
	}
}

// TestDataOfAParent: a template that names the parent's data is filled at the child's first
// attempt. Any other template is filled when the run is sent.
func TestDataOfAParent(t *testing.T) {
	r := newRig(t)
	r.job(1, nil)
	for id, params := range map[core.JobID]string{2: "{{scheduledAt yyyy}}: {{parent.data}}", 3: "{{runId}}"} {
		r.job(id, func(j *core.Job) {
			j.Def.After, j.Def.Params, j.Def.Template = []core.Parent{{Job: "orders/job-1", ID: 1}}, params, true
		})
	}
	r.parent(nil)
	r.Must(r.end(finish.Result{Run: id, State: core.Succeeded, Reported: true, Data: "{{runId}}"}))
	if c := r.Run(core.NumberedRun(2, 1)); c.Params == nil || *c.Params != "2027: {{runId}}" {
		t.Errorf("params %v", c.Params)
	}
	if c := r.Run(core.NumberedRun(3, 1)); c.Params != nil {
		t.Errorf("params %q", *c.Params)
	}
}

// TestChildrenWaitForUnreadableJob: a child whose job cannot be decoded stays pending until it
// can, and then has its own params and retries. Siblings and reports of the parent do not wait
// for it.
func TestChildrenWaitForUnreadableJob(t *testing.T) {
	r := newWatchRig(t)
	r.family(1)
	r.job(400, func(j *core.Job) {
		j.Def.After, j.Def.Params, j.Def.Template = []core.Parent{{Job: "orders/job-1", ID: 1, When: core.UponSuccess}}, "{{parent.data}}", true
	})
	r.parent(nil)
	r.journal(key, core.Accepted)
	r.damaged = 400
	end := finish.Result{Run: id, State: core.Succeeded, Reported: true, Data: "data"}
	for range 3 {
		r.Must(r.end(end)) // a report gets nil once its end is stored
		if err := r.end(finish.Result{Run: id, State: core.Succeeded}); err == nil {
			t.Fatal("nothing is owed, and one child is not made")
		}
		if owes := r.Run(id).Owes; len(owes) != 1 || owes[0].Run.Job() != 400 { // a sibling may be over and deleted at this point
			t.Fatalf("it owes %+v: children would be created again", owes)
		}
	}
	if made := r.Numbered(400); len(made) > 0 {
		t.Fatalf("made without its job: %+v", made)
	}
	if got := r.born(); !slices.Equal(got, []core.JobID{100, 300}) {
		t.Errorf("its siblings: %v", got)
	}
	r.damaged = 0
	for range 24 { // without another report, the watchdog creates it
		r.now = r.now.Add(time.Minute)
		r.pass()
	}
	made := r.Numbered(400)
	if len(made) != 1 || made[0].Params == nil || *made[0].Params != "data" || made[0].Retries != 2 {
		t.Errorf("once its job can be read: %+v", made)
	}
	if run := r.Run(id); run.OwesChildren() {
		t.Errorf("it still owes %+v", run)
	}
}
