package wiring_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
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
