package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
)

// world is a deployment on an engine. Its sender answers by the name of the job, and counts sends.
type world struct {
	t     *testing.T
	s     *store.Store
	a     *wiring.Assembly
	d     *dispatch.Dispatcher
	ask   *people.People
	names map[core.JobID]string

	mu    sync.Mutex
	sends map[string][]core.RunID // by the name of the job
}

func (w *world) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := s.Job.Def.Name
	w.sends[name] = append(w.sends[name], s.Run.ID)
	switch name {
	case "ok":
		return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}
	case "bad":
		return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Failed, Reason: core.ReasonHandler, Code: 500}
	case "refused":
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "connection refused"}
	}
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

func (*world) Beat(context.Context, *core.App, string) error                     { return nil }
func (*world) Idle(context.Context, *core.App, string, core.JobID) (bool, error) { return true, nil }

func newWorld(t *testing.T, s *store.Store) *world {
	w := &world{t: t, s: s, names: map[core.JobID]string{}, sends: map[string][]core.RunID{}}
	w.a = wiring.New(s, wiring.Options{Now: time.Now, Plan: plan.Local(), Log: slog.New(slog.DiscardHandler)})
	w.d, w.ask = w.a.Dispatcher(w, dispatch.Options{}), w.a.People(nil, people.Options{})
	for n, app := range []core.App{{Name: "calls", Executors: []string{"call:http://c/"}},
		{Name: "shop", Executors: []string{"http://a/", "http://b/"}}, {Name: "nobody"}} {
		app.Rev = 1
		ok(t, s.PutApp(t.Context(), 0, app, core.Change{ID: int64(n + 1), At: time.Now(), App: app.Name}))
	}
	return w
}

// fires dispatches fires of a job that is created for them, one after the other.
func (w *world) fires(n int, app, name string, change func(d *core.Def)) {
	w.t.Helper()
	id := core.JobID(len(w.names) + 1)
	j := core.Job{Def: core.Def{ID: id, App: app, Name: name, Handler: "/h", Created: time.Now()}}
	if change != nil {
		change(&j.Def)
	}
	j.Sched.Rev, j.Sched.RevAt, j.Sched.Misfire = 1, time.Now().Add(-time.Hour), core.MisfireAll
	j.Normalize()
	w.names[id] = app + "/" + name
	ok(w.t, w.s.Jobs.Put(w.t.Context(), []store.JobPut{creates(j)})...)
	now := core.InstantOf(time.Now())
	for i := range n {
		at := now - core.Instant(n-1-i)
		m := ring.Message{Kind: ring.KindFires, Slot: at,
			Fires: []core.Fire{{Run: core.PlannedRun(id, at), Rev: 1, At: at, Slot: at, Cause: core.CauseSchedule}}}
		for _, v := range w.d.Handle(w.t.Context(), []ring.Message{m}) {
			if !v.Ack {
				w.t.Fatalf("%s is not acked: %v", w.names[id], v.Err)
			}
		}
	}
}

// ring dispatches messages from the ring until a number of runs of a job were sent.
func (w *world) ring(name string, sends int) {
	w.t.Helper()
	for len(w.sends[name]) < sends {
		got := receive(w.t, w.s, 10)
		for i, v := range w.d.Handle(w.t.Context(), poller.Messages(got)) {
			if v.Ack {
				ok(w.t, w.s.Queue.Ack(w.t.Context(), got[i:i+1])...)
			}
		}
	}
}

// end closes runs as their executors report it.
func (w *world) end(runs []core.RunID) {
	w.t.Helper()
	for _, id := range runs {
		ok(w.t, w.a.Finish.End(w.t.Context(), []finish.Result{{Run: id, State: core.Succeeded, Code: 200, At: time.Now(), Reported: true}})...)
	}
}

func (w *world) says(r *core.Run) string {
	return strings.TrimSpace(fmt.Sprintf("%s %d %s %s", w.names[r.ID.Job()], r.Attempt, r.State, r.Reason))
}

// runs returns each run that a filter accepts, page by page, and whether waiting runs may be missing.
func (w *world) runs(f query.RunFilter) (list []string, noWaiting bool) {
	w.t.Helper()
	for {
		page, err := w.ask.Queries.Runs(w.t.Context(), f)
		ok(w.t, err)
		for i := range page.Runs {
			list = append(list, w.says(&page.Runs[i]))
		}
		noWaiting = page.NoWaiting
		if f.After = page.Next; f.After == "" {
			slices.Sort(list)
			return list, noWaiting
		}
	}
}

// reruns is each run that would be run again.
func (w *world) reruns(f query.RunFilter) (list []string) {
	w.t.Helper()
	for {
		res, err := w.ask.Operate.Rerun(w.t.Context(), core.Actor{Name: "ann"}, operate.RerunRequest{Filter: f, DryRun: true})
		ok(w.t, err)
		for i := range res.Runs {
			if x := &res.Runs[i]; x.Why == nil {
				list = append(list, w.says(&x.Of))
			}
		}
		if f.After = res.Next; f.After == "" {
			slices.Sort(list)
			return list
		}
	}
}

// rows returns a text for each report row: the number of open runs, of each kind of end, and of runs with a known lateness.
func (w *world) rows(rows []report.Row) (list []string) {
	of := map[core.JobID]*report.Row{}
	for i := range rows {
		if r := of[rows[i].Job]; r != nil {
			r.Merge(&rows[i])
		} else {
			of[rows[i].Job] = &rows[i]
		}
	}
	for id, r := range of {
		if r.Open > 0 {
			list = append(list, fmt.Sprintf("%s open %d", w.names[id], r.Open))
		}
		for _, s := range r.Ends {
			list = append(list, fmt.Sprintf("%s %s %s %d, late %d", w.names[id], s.State, s.Reason, s.N, s.Late.N()))
		}
	}
	slices.Sort(list)
	return list
}

// lists: a run that a dispatcher took is in each list and report, whether it stays open, ends at once, waits or is skipped.
func lists(t *testing.T, h Harness) {
	w := newWorld(t, h.Open(t))
	reports := w.a.Reports(report.Options{LiveFor: time.Minute})
	ok(t, reports.Pass(t.Context())) // they begin
	began := core.InstantOf(time.Now())
	w.fires(1, "calls", "ok", nil)
	w.fires(1, "calls", "bad", func(d *core.Def) { d.Retry = core.Retry{Max: 1, Delay: time.Second} })
	w.fires(1, "shop", "reported", nil)
	w.fires(1, "shop", "refused", nil)
	w.fires(2, "shop", "single", func(d *core.Def) { d.Overlap = core.Overlap{Limit: 1, Full: core.FullSkip} })
	w.fires(3, "shop", "line", func(d *core.Def) { d.Overlap = core.Overlap{Limit: 1, Full: core.FullQueue, Max: 1} })
	w.fires(1, "shop", "spread", func(d *core.Def) { d.Route = core.RouteBroadcast })
	w.fires(1, "nobody", "none", nil)
	w.fires(1, "nobody", "waits", func(d *core.Def) { d.WaitForExecutor = time.Hour })
	w.ring("spread", 2)
	w.ring("bad", 2)
	w.end(slices.Concat(w.sends["reported"], w.sends["spread"]))

	all := []string{"calls/bad 1 failed handler", "calls/bad 2 failed handler", "calls/ok 1 succeeded",
		"nobody/none 1 failed no-executor", "nobody/waits 1 queued",
		"shop/line 1 queued", "shop/line 1 running", "shop/line 1 skipped queue-full", "shop/refused 1 failed not-accepted",
		"shop/reported 1 succeeded", "shop/single 1 running", "shop/single 1 skipped overlap",
		"shop/spread 1 succeeded", "shop/spread 1 succeeded", "shop/spread 1 succeeded"}
	that := func(has string) (list []string) {
		for _, run := range all {
			if strings.Contains(run, has) {
				list = append(list, run)
			}
		}
		return list
	}
	failed := slices.DeleteFunc(that("failed"), func(run string) bool { return strings.Contains(run, "bad 1") })
	for _, c := range []struct {
		name string
		of   query.RunFilter
		want []string
	}{
		{"all", query.RunFilter{}, all}, {"two at a time", query.RunFilter{Limit: 2}, all},
		{"of an app", query.RunFilter{App: "calls"}, that("calls")}, {"of another", query.RunFilter{App: "shop"}, that("shop")},
		{"skipped", query.RunFilter{States: []core.State{core.Skipped}}, that("skipped")},
		{"queued", query.RunFilter{States: []core.State{core.Queued}}, that("queued")},
		{"running", query.RunFilter{App: "shop", States: []core.State{core.Running}}, that("running")},
		{"failed for good", query.RunFilter{Failed: true}, failed},
		{"retries", query.RunFilter{Causes: []core.Cause{core.CauseRetry}}, that("bad 2")},
	} {
		eventually(t, h, func() string {
			got, _ := w.runs(c.of)
			if !slices.Equal(got, c.want) {
				return fmt.Sprintf("%s: got %q, want %q", c.name, got, c.want)
			}
			return ""
		})
	}
	same(t, "to run again", w.reruns(query.RunFilter{Failed: true}), failed)
	same(t, "to run again in an app", w.reruns(query.RunFilter{App: "calls", Failed: true}), []string{"calls/bad 2 failed handler"})

	counted := []string{"calls/bad failed handler 2, late 2", "calls/ok succeeded  1, late 1", "nobody/none failed no-executor 1, late 0",
		"shop/line open 1", "shop/line skipped queue-full 1, late 0", "shop/refused failed not-accepted 1, late 1",
		"shop/reported succeeded  1, late 1", "shop/single open 1", "shop/single skipped overlap 1, late 0", "shop/spread succeeded  3, late 3"}
	now := core.InstantOf(time.Now()) + 1
	a, err := reports.Answer(t.Context(), report.Question{From: began, To: now, Each: report.EachJob})
	ok(t, err)
	same(t, "report", w.rows(a.Rows), counted)
	s, err := reports.Shape(t.Context(), report.Question{From: began - 60, To: now, Each: report.EachJob})
	ok(t, err)
	same(t, "shape and lateness", w.rows(s.Rows), counted)

	w.listsWaiting()
}

// listsWaiting: runs that no dispatcher has taken are listed by their job; a list without them reports that.
func (w *world) listsWaiting() {
	t := w.t
	later := time.Now().Add(time.Hour)
	made, err := w.ask.Operate.Trigger(t.Context(), core.Actor{Name: "ann"}, operate.TriggerRequest{Job: "calls/ok", At: &later})
	ok(t, err)
	planned := []string{"calls/ok 1 planned"}
	got, noWaiting := w.runs(query.RunFilter{Job: "calls/ok", States: []core.State{core.Planned}})
	same(t, "planned of a job", got, planned)
	if got, without := w.runs(query.RunFilter{States: []core.State{core.Planned}}); noWaiting || without == slices.Equal(got, planned) {
		t.Errorf("planned: %q, without waiting runs: %t, of a job %t", got, without, noWaiting)
	}
	// All lists have them once they were cancelled.
	_, err = w.ask.Operate.Cancel(t.Context(), core.Actor{Name: "ann"}, made.Run.ID.String())
	ok(t, err)
	got, noWaiting = w.runs(query.RunFilter{App: "calls", States: []core.State{core.Skipped}})
	if same(t, "skipped", got, []string{"calls/ok 1 skipped cancelled"}); noWaiting {
		t.Error("skipped: without those that wait")
	}
}
