package wiring_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/internal/testkit/check"
)

var (
	succeeding = dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}
	failing    = dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Failed, Reason: core.ReasonHandler, Code: 500, Message: "boom"}
)

// lone is a job whose only possible post-run work is notifications.
func lone(name string, n core.Notify) (s manage.JobSpec) {
	s.Def.App, s.Def.Name, s.Def.Handler, s.Def.Notify = "shop", name, "h", n
	s.Def.Keep.Log = core.KeepLogNever
	return s
}

// save saves a job and returns its ID.
func (r *told) save(s manage.JobSpec) core.JobID {
	r.t.Helper()
	res := r.m.Save(r.t.Context(), teller, []manage.JobSpec{s})[0]
	r.must(res.Err)
	return res.ID
}

// triggers has a job run once.
func (r *told) triggers(q operate.TriggerRequest) core.RunID {
	r.t.Helper()
	res, err := r.m.Trigger(r.t.Context(), teller, q)
	r.must(err)
	return res.Run.ID
}

// TestOwesNoticesWhereSomebodyIsTold: if a job notifies no channel, a failure stores no pending notification and enqueues
// no post-run work, whatever caused the run. If the job or its app notifies a channel, each failure is reported.
func TestOwesNoticesWhereSomebodyIsTold(t *testing.T) {
	after := func(s *manage.JobSpec, parents ...string) {
		for _, p := range parents {
			s.Def.After = append(s.Def.After, core.Parent{Job: "shop/" + p, When: core.UponFailure})
		}
	}
	origins := map[string]struct {
		spec func(s *manage.JobSpec)
		do   func(r *told)
		runs int // of the job, that end for good
	}{
		"of its schedule": {func(s *manage.JobSpec) { s.Schedule = minutely }, func(*told) { time.Sleep(time.Minute) }, 1},
		"by hand":         {nil, func(r *told) { r.triggers(operate.TriggerRequest{Job: "shop/it"}) }, 1},
		"tried again": {func(s *manage.JobSpec) { s.Def.Retry = core.Retry{Max: 1, On: []core.State{core.Failed}} }, func(r *told) {
			r.triggers(operate.TriggerRequest{Job: "shop/it"})
		}, 1},
		"run again": {nil, func(r *told) {
			id := r.triggers(operate.TriggerRequest{Job: "shop/it"})
			time.Sleep(10 * time.Second)
			_, err := r.m.Rerun(r.t.Context(), teller, operate.RerunRequest{Run: id.String()})
			r.must(err)
		}, 2},
		"a child": {func(s *manage.JobSpec) { after(s, "one") }, func(r *told) {
			r.triggers(operate.TriggerRequest{Job: "shop/one"})
		}, 1},
		"a join": {func(s *manage.JobSpec) { after(s, "one", "two"); s.Def.Within = time.Hour }, func(r *told) {
			r.triggers(operate.TriggerRequest{Job: "shop/one"})
			time.Sleep(time.Minute)
			r.triggers(operate.TriggerRequest{Job: "shop/two"})
		}, 1},
		"a broadcast": {func(s *manage.JobSpec) { s.Def.Route = core.RouteBroadcast }, func(r *told) {
			r.triggers(operate.TriggerRequest{Job: "shop/it"})
		}, 1},
	}
	a := core.Notify{To: []string{"a"}}
	for name, o := range origins {
		for by, c := range map[string]struct{ job, app core.Notify }{
			"nobody":      {},
			"of lateness": {job: core.Notify{To: []string{"a"}, On: []core.Event{core.EventLate}}},
			"by its job":  {job: a},
			"by its app":  {app: a},
		} {
			t.Run(name+", told "+by, func(t *testing.T) {
				tells(t, job(core.EventFailed), func(r *told) {
					_, err := r.m.SaveApp(r.t.Context(), teller, manage.AppSpec{Name: "shop", Executors: []string{"http://10.0.0.1:9999/"}, Notify: c.app})
					r.must(err)
					r.set(func() { r.answer = failing })
					r.save(lone("one", core.Notify{}))
					r.save(lone("two", core.Notify{}))
					spec := lone("it", c.job)
					if o.spec != nil {
						o.spec(&spec)
					}
					id := r.save(spec)
					o.do(r)
					time.Sleep(time.Minute - time.Second)
					told := c.job.TellsEnd() || c.app.TellsEnd()
					r.endedWell(id, o.runs, told)
				})
			})
		}
	}
}

// endedWell checks the runs of a job that failed for good: there are want of them. Each one was notified or none enqueued
// post-run work, and none has a pending follow-up.
func (r *told) endedWell(id core.JobID, want int, told bool) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := 0
	for _, run := range r.runs(id) {
		asked := slices.Contains(r.lane, run.ID)
		switch {
		case run.State.Open() || run.Owing() || run.PostRun != core.PostRun{}:
			r.t.Errorf("run %d is %s, and owes %+v", run.ID, run.State, run.PostRun)
		case !run.FailedForGood() || run.Shard.Of != 0:
			if asked {
				r.t.Errorf("run %d has not ended, but sent to the post-run queue", run.ID)
			}
			continue
		case run.Notice != told || asked != told:
			r.t.Errorf("run %d of %s has the notice mark %v, and requested a notification: %v; want %v", run.ID, run.Cause, run.Notice, asked, told)
		}
		failed++
	}
	check.Equal(r.t, failed, want, "runs failed for good")
}

// runs are all that are stored of a job.
func (r *told) runs(id core.JobID) []core.Run {
	r.t.Helper()
	var all []core.Run
	for _, span := range [2]func() (core.RunID, core.RunID){
		func() (core.RunID, core.RunID) { return core.RunRange(id, 0, core.Horizon) },
		func() (core.RunID, core.RunID) { return core.NumberedRange(id) },
	} {
		first, last := span()
		list, err := r.e.Runs.Span(r.t.Context(), first, last, 100)
		r.must(err)
		all = append(all, list...)
	}
	return all
}

// TestWhoIsToldIsReadWhenItIsDue: a waiting run uses the notification settings at its due time, not at its request.
func TestWhoIsToldIsReadWhenItIsDue(t *testing.T) {
	a := core.Notify{To: []string{"a"}}
	for name, c := range map[string]struct {
		asked, due core.Notify
		heard      []string
	}{
		"a channel by then": {core.Notify{}, a, []string{"failed 1"}},
		"a channel removed": {a, core.Notify{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tells(t, job(core.EventFailed), func(r *told) {
				r.set(func() { r.answer = failing })
				r.save(lone("it", c.asked))
				at := time.Now().Add(time.Hour)
				id := r.triggers(operate.TriggerRequest{Job: "shop/it", At: &at})
				r.heard(time.Minute)
				saved, err := r.m.Job(r.t.Context(), "shop/it")
				r.must(err)
				spec := lone("it", c.due)
				spec.IfRev = &saved.Sched.Rev
				r.save(spec)
				r.heard(time.Hour, c.heard...)
				if run := r.run(id); run.State != core.Failed || run.Owing() {
					t.Fatalf("the run is %+v", run)
				}
				r.endedWell(id.Job(), 1, len(c.heard) > 0)
			})
		})
	}
}

// TestSkipOwesNoticeWhereSomebodyIsTold: a triggered run that is skipped, and was stored before, has a pending
// notification only if users are notified of skips.
func TestSkipOwesNoticeWhereSomebodyIsTold(t *testing.T) {
	for name, n := range map[string]core.Notify{
		"nobody":      {},
		"of failures": {To: []string{"a"}},
		"of skips":    {To: []string{"a"}, On: []core.Event{core.EventSkipped}},
	} {
		t.Run(name, func(t *testing.T) {
			tells(t, job(core.EventFailed), func(r *told) {
				r.set(func() { r.answer = dispatch.Answer{Kind: dispatch.AnswerAccepted} })
				spec := lone("it", n)
				spec.Def.Overlap = core.Overlap{Limit: 1, Full: core.FullSkip}
				r.save(spec)
				r.triggers(operate.TriggerRequest{Job: "shop/it"})
				time.Sleep(10 * time.Second)
				id := r.triggers(operate.TriggerRequest{Job: "shop/it"})
				time.Sleep(time.Minute)
				run, tells := r.run(id), n.Includes(core.EventSkipped)
				r.mu.Lock()
				defer r.mu.Unlock()
				if run.State != core.Skipped || run.Owing() || slices.Contains(r.lane, id) != tells || len(r.got) > 0 != tells {
					t.Fatalf("it is %s, the lane was asked for %v, people heard %+v", run.State, r.lane, r.got)
				}
			})
		})
	}
}

// TestRetryThatFalls: a retry chain whose retry is skipped has failed. The failed attempt before it sent no notification.
func TestRetryThatFalls(t *testing.T) {
	tells(t, job(core.EventFailed), func(r *told) {
		r.set(func() { r.answer = failing })
		spec := lone("it", core.Notify{To: []string{"a"}, On: []core.Event{core.EventFailed}})
		spec.Def.Retry = core.Retry{Max: 1, Delay: 10 * time.Minute, On: []core.State{core.Failed}}
		r.save(spec)
		id := r.triggers(operate.TriggerRequest{Job: "shop/it"})
		time.Sleep(time.Minute)
		first := r.run(id)
		r.mu.Lock()
		before := len(r.got)
		r.answer = dispatch.Answer{Kind: dispatch.AnswerBlocked}
		r.mu.Unlock()
		time.Sleep(30 * time.Minute)
		retry := r.run(first.Then)
		r.mu.Lock()
		defer r.mu.Unlock()
		if retry.State != core.Skipped || retry.Reason != core.ReasonOverlap || retry.Owing() || before != 0 || len(r.got) != 1 ||
			r.got[0].Event != string(core.EventFailed) || r.got[0].Run != retry.ID {
			t.Fatalf("it is %s %s after %s, people heard %d, then %+v", retry.State, retry.Reason, first.State, before, r.got)
		}
	})
}
