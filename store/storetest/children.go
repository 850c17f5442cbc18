package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// after returns a job that comes after parents, whose numbers are in their names.
func after(id core.JobID, when core.ParentCondition, parents ...core.JobID) core.Job {
	j := job(id)
	for _, p := range parents {
		j.Def.After = append(j.Def.After, core.Parent{Job: fmt.Sprintf("orders/job-%d", p), ID: p, When: when})
	}
	return j
}

// families: the list of a job's children follows the children's own settings after each change, and changes of the list are no
// change of the job.
func families(t *testing.T, h Harness) {
	liar := after(5, core.UponClose, 1)
	liar.Def.Children = []core.Child{{Job: 77, When: core.UponClose}}
	titled := with(job(1), func(j *core.Job) { j.Def.Title = "another" })
	move := job(1).Sched.Stay()
	move.Rev, move.NewPlanAt = 101, at(77)
	jobTable(t, h, [][]jobStep{
		{accept("create parents", creates(job(1))), accept("create parents", creates(job(2)))},
		{accept("create children", creates(after(3, core.UponSuccess, 1, 2))),
			accept("create children", creates(after(4, core.UponFailure, 2))), accept("create one with a list of its own", creates(liar))},
		{refuse("create the child of a missing job", creates(after(6, core.UponClose, 1, 99)))},
		{accept("update a parent", updates(titled, 100))},
		{accept("update children", updates(after(3, core.UponClose, 1), 100)),
			accept("update children", updates(after(4, core.UponFailure, 1, 2), 100))},
		{refuse("give it a missing parent", updates(after(5, core.UponClose, 99), 100))},
		{accept("advance a parent", store.JobPut{Advance: &move})},
		{refuse("delete a parent", deletes(1, 101))}, {accept("delete a child", deletes(4, 101))},
		{accept("delete a job without children", deletes(2, 100))},
	})
}

// edges: two updates add a parent to each other's job by an earlier read; one is rejected.
func edges(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1), job(2))
	createJobs(t, s, after(3, core.UponClose, 1), after(4, core.UponClose, 2))
	was, err := s.Edges(ctx)
	ok(t, err)
	if was < 1 {
		t.Fatalf("the edges are counted from %d on", was)
	}
	update := func(j core.Job, edges int64) error {
		p := updates(j, 100)
		p.Update.Edges = edges
		return s.Jobs.Put(ctx, []store.JobPut{p})[0]
	}
	refused(t, update(after(1, core.UponClose, 4), 0))
	var errs [2]error
	var both sync.WaitGroup
	for i := range core.JobID(2) {
		both.Go(func() { errs[i] = update(after(1+i, core.UponClose, 4-i), was) })
	}
	both.Wait()
	done := slices.IndexFunc(errs[:], func(err error) bool { return err == nil })
	if done < 0 || !errors.Is(errs[1-done], core.ErrRefused) {
		t.Fatalf("two that make a circle were answered %v", errs)
	}
	if is, err := s.Edges(ctx); err != nil || is != was+1 {
		t.Fatalf("%d edges, then %d, %v", was, is, err)
	}
	wantChildren(t, s, job(core.JobID(2-done)), core.JobID(4-done)) // the other is as it was
	// An update without parents, or of a job without children, compares nothing.
	ok(t, update(after(core.JobID(3+done), core.UponClose, 1, 2), 0))
	ok(t, update(after(core.JobID(2-done), core.UponClose), 0))
}

// wantChildren checks the list of a job, and that its other fields are unchanged.
func wantChildren(t *testing.T, s *store.Store, want core.Job, list ...core.JobID) {
	t.Helper()
	got := getJobs(t, s, store.Whole, want.Def.ID)[want.Def.ID]
	same(t, "job with children", got, want)
	for _, id := range list {
		want.Def.Children = append(want.Def.Children, core.Child{Job: id, When: core.UponClose})
	}
	same(t, "its children", got.Def.Children, want.Def.Children) // Def.Equal ignores them
}

// mostChildren: a job lists MaxChildren and no more, even if all are made at once.
func mostChildren(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1))
	var puts []store.JobPut
	var want []core.JobID
	for i := range core.JobID(core.MaxChildren) {
		puts, want = append(puts, creates(after(2+i, core.UponClose, 1))), append(want, 2+i)
	}
	for part := range slices.Chunk(puts, 100) {
		ok(t, s.Jobs.Put(ctx, part)...)
	}
	answers(t, s.Jobs.Put(ctx, []store.JobPut{creates(after(5000, core.UponClose, 1)), creates(job(5001))}), "refused", "ok")
	wantChildren(t, s, job(1), want...)
}

// places tests the writes of the children that a close owes.
func places(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	id := ids(3)
	parent := put(t, s, id[0], func(r *core.Run) { r.Place, r.Parent = 1, id[1] })
	ended := core.End(parent.ID, core.Run{State: core.Succeeded, EndedAt: base, Code: 200}) // unread
	puts := []core.RunPut{ended}
	ok(t, s.ChangeRuns(ctx, puts)...)
	if puts[0].Seen == nil || puts[0].Seen.Place != 1 {
		t.Fatalf("its end was answered with %+v", puts[0].Seen)
	}
	puts[0].Apply(&parent)
	sameRun(t, s, parent)
	owes := []core.Owed{{Run: core.NumberedRun(9, 5), Kind: core.CauseParent, Slot: at(9)}}
	other := []core.Owed{{Run: core.NumberedRun(9, 6), Kind: core.CauseParent, Slot: at(9)}}
	elsewhere := parent
	elsewhere.Place = core.PlaceAfter(3)
	open := put(t, s, id[1], func(r *core.Run) { r.Place = 1 })
	asClosed := open
	asClosed.State = core.Succeeded
	answers(t, s.ChangeRuns(ctx, []core.RunPut{elsewhere.Draw(owes), asClosed.Draw(owes), parent.Draw(owes), parent.Draw(other)}),
		"refused", "refused", "ok", "refused")
	drawn := parent
	drawn.Owes = owes
	sameRun(t, s, drawn)
	sameRun(t, s, open)
	answers(t, s.ChangeRuns(ctx, []core.RunPut{elsewhere.NoteChildren(0, nil), drawn.NoteChildren(core.PlaceAfter(9), nil),
		drawn.NoteChildren(core.PlaceAfter(9), nil)}), "refused", "ok", "refused")
	drawn.Owes, drawn.Place = nil, core.PlaceAfter(9)
	sameRun(t, s, drawn)
	answers(t, s.ChangeRuns(ctx, []core.RunPut{parent.NoteChildren(0, nil), drawn.NoteChildren(0, nil)}), "refused", "ok")
	drawn.Place = 0
	sameRun(t, s, drawn)
}

// familiesAtOnce: an edit of a job and the creation of its children run at once: none undoes the other.
func familiesAtOnce(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	for round := range core.JobID(30) {
		parent := job(1 + 10*round)
		createJobs(t, s, parent)
		title := with(parent, func(j *core.Job) { j.Def.Title, j.Sched.Rev = "another", 101 })
		puts := []store.JobPut{updates(title, 100)}
		var want []core.JobID
		for k := range core.JobID(4) {
			want = append(want, parent.Def.ID+1+k)
			puts = append(puts, creates(after(want[k], core.UponClose, parent.Def.ID)))
		}
		var all sync.WaitGroup
		for i := range puts {
			all.Go(func() {
				for try := 0; ; try++ {
					if err := s.Jobs.Put(ctx, puts[i:i+1])[0]; err == nil {
						return
					} else if !errors.Is(err, core.ErrRefused) && !errors.Is(err, core.ErrThrottled) || try == 50 {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		wantChildren(t, s, title, want...)
	}
}
