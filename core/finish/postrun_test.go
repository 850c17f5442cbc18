package finish_test

import (
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// TestLogsOwed: which ends make keeping the log pending with the close, and what their retries
// inherit. A success is closed unread.
func TestLogsOwed(t *testing.T) {
	failed := finish.Result{State: core.Failed, Reason: core.ReasonHandler, Code: 500}
	succeeded := finish.Result{State: core.Succeeded, Code: 200}
	lost := finish.Result{State: core.Lost, Reason: core.ReasonGone}
	killed := func(r *core.Run) { r.KillBy, r.KillAt = "ann", begin }
	for _, c := range []struct {
		name               string
		end                finish.Result
		run                func(*core.Run)
		def, always, never bool // expected for each keepLog setting of the job
	}{
		{"failed", failed, nil, true, true, false},
		{"timed out", finish.Result{State: core.TimedOut, Reason: core.ReasonTimeout}, nil, true, true, false},
		{"lost", lost, nil, true, true, false},
		{"succeeded", succeeded, nil, false, true, false},
		{"killed", failed, killed, false, true, false},
		{"without an executor", finish.Result{State: core.Failed, Reason: core.ReasonNoExecutor}, nil, false, false, false},
		{"taken by none", finish.Result{State: core.Failed, Reason: core.ReasonNotAccepted}, nil, false, false, false},
		{"skipped by its executor", finish.Result{State: core.Skipped, Reason: core.ReasonOverlap}, nil, false, false, false},
		{"of a function", failed, func(r *core.Run) { r.Address = "lambda:payroll" }, true, true, false},
		{"a command", failed, func(r *core.Run) { r.Address = core.LocalAddress }, true, true, false},
		{"a command, succeeded", succeeded, func(r *core.Run) { r.Address = core.LocalAddress }, false, true, false},
		{"of an endpoint", failed, func(r *core.Run) { r.Address = "call:https://pay" }, false, false, false},
		{"of an endpoint, succeeded", succeeded, func(r *core.Run) { r.Address = "call:https://pay" }, false, false, false},
		{"pulled", failed, func(r *core.Run) { r.Address = "queue:nightly" }, false, false, false},
		{"never sent", lost, func(r *core.Run) { r.Address = "" }, false, false, false},
	} {
		for keep, want := range map[core.KeepLog]bool{"": c.def, core.KeepLogAlways: c.always, core.KeepLogNever: c.never} {
			t.Run(c.name+" "+string(keep), func(t *testing.T) {
				r := newRig(t)
				r.job(1, nil)
				r.run(id, func(x *core.Run) {
					x.KeepLog = keep
					if c.run != nil {
						c.run(x)
					}
				})
				end := c.end
				end.Run = id
				for range 2 { // a second report asks again, which is harmless
					r.Must(r.end(end))
				}
				run := r.Run(id)
				if owes := run.OwesPostRun().Log; owes != want {
					t.Errorf("it is %s: %s, keeps %q, and owes its log: %t", run.State, run.Reason, keep, owes)
				}
				asked := r.messages(ring.KindPostRun)
				if want != (len(asked) > 0) {
					t.Errorf("asked for by %+v", asked)
				}
				for _, m := range asked {
					if m.PostRun.Run != id || !m.PostRun.Log || m.Try != 0 {
						t.Errorf("asked for %+v", m.PostRun)
					}
				}
				for _, retry := range r.Numbered(1) {
					if retry.KeepLog != keep || retry.PostRun != (core.PostRun{}) {
						t.Errorf("its retry keeps %q and owes %+v", retry.KeepLog, retry.PostRun)
					}
				}
				if c.end.State == core.Succeeded && r.calls["close"] > 2 { // one for each report
					t.Errorf("a success took %d writes", r.calls["close"])
				}
			})
		}
	}
}

// TestPostRunNotAsked: if the post-run queue rejects a message, the caller gets an error and the
// log stays pending. The next report or pass sends the message again.
func TestPostRunNotAsked(t *testing.T) {
	for what, next := range map[string]func(r *rig) error{
		"a report": func(r *rig) error {
			return r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler})
		},
		"the walk": func(r *rig) error {
			run := r.Run(id)
			return r.f.Mend(r.t.Context(), &run)
		},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			r.job(1, nil)
			r.run(id, func(x *core.Run) { x.Retries = 0 })
			r.faults.faults["enqueue"] = []fault{{err: core.ErrThrottled}}
			if err := r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler}); err == nil {
				t.Error("it is reported as done")
			}
			if run := r.Run(id); run.State != core.Failed || !run.OwesPostRun().Log || len(r.messages(ring.KindPostRun)) > 0 {
				t.Errorf("it is %s and owes %+v", run.State, run.OwesPostRun())
			}
			r.Must(next(r))
			if asked := r.messages(ring.KindPostRun); len(asked) != 1 || asked[0].PostRun.Run != id || asked[0].Slot != core.InstantOf(begin) {
				t.Errorf("asked for by %+v", asked)
			}
		})
	}
}
