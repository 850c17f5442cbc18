package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/engine"
)

// after returns a job that comes after parents, whose numbers are in their names.
func after(id core.JobID, when core.ParentCondition, parents ...core.JobID) core.Job {
	j := job(id)
	for _, p := range parents {
		j.Def.After = append(j.Def.After, core.Parent{Job: fmt.Sprintf("orders/job-%d", p), ID: p, When: when})
	}
	return j
}

func child(id core.JobID, when core.ParentCondition) core.Child {
	return core.Child{Job: id, When: when}
}

// wantChildren checks the list of a job, and that its other fields are unchanged.
func wantChildren(t *testing.T, e *engine.Engine, want core.Job, list ...core.Child) {
	t.Helper()
	got := mustJob(t, e, want.Def.ID)
	same(t, "job with children", got, want)
	same(t, "its children", got.Def.Children, list) // Def.Equal ignores them
}

// families: the list of a job's children follows the children's own settings after each change,
// and changes of the list are no change of the job.
func families(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	createJobs(t, e, job(1), job(2))
	liar := after(5, core.UponClose, 1)
	liar.Def.Children = []core.Child{child(77, core.UponClose)}
	createJobs(t, e, after(3, core.UponSuccess, 1, 2), after(4, core.UponFailure, 2), liar)
	wantChildren(t, e, job(1), child(3, core.UponSuccess), child(5, core.UponClose))
	wantChildren(t, e, job(2), child(3, core.UponSuccess), child(4, core.UponFailure))
	same(t, "child", mustJob(t, e, 3), after(3, core.UponSuccess, 1, 2))
	same(t, "child with a list of its own", mustJob(t, e, 5), after(5, core.UponClose, 1))
	answers(t, e.Manage.CreateJobs(ctx, []core.Job{after(6, core.UponClose, 1, 99)}, nil), "refused")
	if _, is := readJob(t, e, 6); is {
		t.Fatal("a job comes after one that is not there")
	}
	wantChildren(t, e, job(1), child(3, core.UponSuccess), child(5, core.UponClose))

	// An edit of a parent keeps its list, one of a child moves it.
	update := func(j core.Job, seen, rev int64) manage.Update {
		edges, err := e.Manage.Edges(ctx)
		ok(t, err)
		j.Sched.Rev = rev
		return manage.Update{Seen: seen, Job: j, Change: change(j, rev), Edges: edges}
	}
	one := job(1)
	one.Def.Title = "another"
	allNil(t, e.Manage.UpdateJobs(ctx, []manage.Update{update(one, 100, 101)}))
	one.Sched.Rev = 101
	wantChildren(t, e, one, child(3, core.UponSuccess), child(5, core.UponClose))
	three := after(3, core.UponClose, 1)
	allNil(t, e.Manage.UpdateJobs(ctx, []manage.Update{update(three, 100, 101), update(after(4, core.UponFailure, 1, 2), 100, 101)}))
	wantChildren(t, e, one, child(3, core.UponClose), child(4, core.UponFailure), child(5, core.UponClose))
	wantChildren(t, e, job(2), child(4, core.UponFailure))
	refused(t, e.Manage.UpdateJobs(ctx, []manage.Update{update(after(5, core.UponClose, 99), 100, 101)})[0])
	same(t, "not updated", mustJob(t, e, 5), after(5, core.UponClose, 1))
	again := mustJob(t, e, 1).Sched // the list has moved no revision
	again.PlanAt = at(77)
	move := mustJob(t, e, 1).Sched.Stay()
	move.NewPlanAt = at(77)
	allNil(t, e.Tick.Advance(ctx, []core.Advance{move}))
	one.Sched.PlanAt = at(77)
	wantChildren(t, e, one, child(3, core.UponClose), child(4, core.UponFailure), child(5, core.UponClose))

	// A deletion.
	stone := func(id core.JobID) core.Tombstone {
		return core.Tombstone{Job: id, App: "orders", Name: fmt.Sprintf("job-%d", id), Rev: 200, RevAt: base.Add(time.Second)}
	}
	refused(t, e.Manage.DeleteJob(ctx, 101, stone(1), change(job(1), 200)))
	wantChildren(t, e, one, child(3, core.UponClose), child(4, core.UponFailure), child(5, core.UponClose))
	ok(t, e.Manage.DeleteJob(ctx, 101, stone(4), change(job(4), 200)))
	wantChildren(t, e, one, child(3, core.UponClose), child(5, core.UponClose))
	wantChildren(t, e, job(2))
	ok(t, e.Manage.DeleteJob(ctx, 100, stone(2), change(job(2), 200)))
}

// edges: two updates add a parent to each other's job by an earlier read; one is rejected.
func edges(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	createJobs(t, e, job(1), job(2))
	createJobs(t, e, after(3, core.UponClose, 1), after(4, core.UponClose, 2))
	was, err := e.Manage.Edges(ctx)
	ok(t, err)
	if was < 1 {
		t.Fatalf("the edges are counted from %d on", was)
	}
	update := func(j core.Job, rev, edges int64) manage.Update {
		j.Sched.Rev = rev
		return manage.Update{Seen: 100, Job: j, Change: change(j, rev), Edges: edges}
	}
	circle := []manage.Update{update(after(1, core.UponClose, 4), 101, was), update(after(2, core.UponClose, 3), 101, was)}
	var errs [2]error
	var both sync.WaitGroup
	for i := range circle {
		both.Go(func() { errs[i] = e.Manage.UpdateJobs(ctx, circle[i:i+1])[0] })
	}
	both.Wait()
	done := slices.IndexFunc(errs[:], func(err error) bool { return err == nil })
	if done < 0 || !errors.Is(errs[1-done], core.ErrRefused) {
		t.Fatalf("two that make a circle were answered %v", errs)
	}
	if is, err := e.Manage.Edges(ctx); err != nil || is != was+1 {
		t.Fatalf("%d edges, then %d, %v", was, is, err)
	}
	wantChildren(t, e, job(core.JobID(2-done)), child(core.JobID(4-done), core.UponClose)) // the other is as it was
	// An update without parents, or of a job without children, compares nothing.
	allNil(t, e.Manage.UpdateJobs(ctx, []manage.Update{update(after(core.JobID(3+done), core.UponClose, 1, 2), 101, 0)}))
	allNil(t, e.Manage.UpdateJobs(ctx, []manage.Update{update(after(core.JobID(2-done), core.UponClose), 101, 0)}))
}

// mostChildren: a job lists MaxChildren and no more, even if all are made at once.
func mostChildren(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	createJobs(t, e, job(1))
	var list []core.Job
	var want []core.Child
	for i := range core.MaxChildren {
		list = append(list, after(core.JobID(2+i), core.UponClose, 1))
		want = append(want, child(core.JobID(2+i), core.UponClose))
	}
	for part := range slices.Chunk(list, 100) {
		allNil(t, e.Manage.CreateJobs(ctx, part, nil))
	}
	wantChildren(t, e, job(1), want...)
	answers(t, e.Manage.CreateJobs(ctx, []core.Job{after(5000, core.UponClose, 1), job(5001)}, nil), "refused", "ok")
	wantChildren(t, e, job(1), want...)
}

// places tests the writes of the children that a close owes.
func places(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	id := ids(3)
	parent := put(t, e, id[0], func(r *core.Run) { r.Place, r.Parent = 1, id[1] })
	ended := core.End(parent.ID, core.Run{State: core.Succeeded, EndedAt: base, Code: 200}) // unread
	puts := []core.RunPut{ended}
	allNil(t, e.Finish.PutRuns(ctx, puts))
	if puts[0].Seen == nil || puts[0].Seen.Place != 1 {
		t.Fatalf("its end was answered with %+v", puts[0].Seen)
	}
	puts[0].Apply(&parent)
	sameRun(t, e, parent)
	owes := []core.Owed{{Run: core.NumberedRun(9, 5), Kind: core.CauseParent, Slot: at(9)}}
	other := []core.Owed{{Run: core.NumberedRun(9, 6), Kind: core.CauseParent, Slot: at(9)}}
	elsewhere := parent
	elsewhere.Place = core.PlaceAfter(3)
	open := put(t, e, id[1], func(r *core.Run) { r.Place = 1 })
	asClosed := open
	asClosed.State = core.Succeeded
	answers(t, e.Finish.PutRuns(ctx, []core.RunPut{elsewhere.Draw(owes), asClosed.Draw(owes), parent.Draw(owes), parent.Draw(other)}),
		"refused", "refused", "ok", "refused")
	drawn := parent
	drawn.Owes = owes
	sameRun(t, e, drawn)
	sameRun(t, e, open)
	answers(t, e.Finish.PutRuns(ctx, []core.RunPut{elsewhere.NoteChildren(0, nil), drawn.NoteChildren(core.PlaceAfter(9), nil),
		drawn.NoteChildren(core.PlaceAfter(9), nil)}), "refused", "ok", "refused")
	drawn.Owes, drawn.Place = nil, core.PlaceAfter(9)
	sameRun(t, e, drawn)
	answers(t, e.Finish.PutRuns(ctx, []core.RunPut{parent.NoteChildren(0, nil), drawn.NoteChildren(0, nil)}), "refused", "ok")
	drawn.Place = 0
	sameRun(t, e, drawn)
}

// familiesAtOnce: an edit of a job and the creation of its children run at once: none undoes
// the other.
func familiesAtOnce(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	for round := range core.JobID(30) {
		parent := job(1 + 10*round)
		createJobs(t, e, parent)
		title := parent
		title.Def.Title, title.Sched.Rev = "another", 101
		var all sync.WaitGroup
		insist := func(do func() error) {
			all.Go(func() {
				for try := 0; ; try++ {
					if err := do(); err == nil {
						return
					} else if !errors.Is(err, core.ErrRefused) && !errors.Is(err, core.ErrThrottled) || try == 50 {
						t.Error(err)
						return
					}
				}
			})
		}
		insist(func() error {
			return e.Manage.UpdateJobs(ctx, []manage.Update{{Seen: 100, Job: title, Change: change(title, 101)}})[0]
		})
		var want []core.Child
		for k := range core.JobID(4) {
			j := after(parent.Def.ID+1+k, core.UponClose, parent.Def.ID)
			want = append(want, child(j.Def.ID, core.UponClose))
			insist(func() error { return e.Manage.CreateJobs(ctx, []core.Job{j}, nil)[0] })
		}
		all.Wait()
		wantChildren(t, e, title, want...)
	}
}
