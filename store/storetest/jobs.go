package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// jobStep is one write of a table.
type jobStep struct {
	name    string
	put     store.JobPut
	refused bool
}

func accept(name string, p store.JobPut) jobStep { return jobStep{name: name, put: p} }
func refuse(name string, p store.JobPut) jobStep { return jobStep{name: name, put: p, refused: true} }

// jobModel has the stored values after a table of writes.
type jobModel struct {
	jobs    map[core.JobID]core.Job
	tombs   map[core.JobID]core.Tombstone
	entries map[core.DueItem]bool
	changes map[core.JobID][]core.Change // each write has its own job
}

func (m *jobModel) apply(p *store.JobPut) {
	link := func(links []core.Link) {
		for _, l := range links {
			if parent, is := m.jobs[l.Parent]; is {
				parent.Def.Children, _ = core.Linked(parent.Def.Children, l)
				m.jobs[l.Parent] = parent
			}
		}
	}
	for _, c := range p.Changes {
		m.changes[c.Job] = p.Changes
	}
	switch {
	case p.Create != nil:
		j := *p.Create
		j.Def.Children = nil
		m.jobs[j.Def.ID] = j
		link(core.Links(j.Def.ID, nil, j.Def.After))
	case p.Update != nil:
		j, old := p.Update.Job, m.jobs[p.Update.Job.Def.ID]
		j.Def.Children, j.Sched.Seq = old.Def.Children, max(j.Sched.Seq, old.Sched.Seq)
		m.jobs[j.Def.ID] = j
		link(core.Links(j.Def.ID, old.Def.After, j.Def.After))
	case p.Delete != nil:
		link(core.Links(p.Delete.Job, m.jobs[p.Delete.Job].Def.After, nil))
		delete(m.jobs, p.Delete.Job)
		m.tombs[p.Delete.Job] = p.Delete.Tombstone
	case p.Advance != nil:
		j := m.jobs[p.Advance.Job]
		j.Sched = j.Sched.Moved(*p.Advance)
		m.jobs[p.Advance.Job] = j
	case p.Enter != nil:
		m.entries[*p.Enter] = true
	default:
		delete(m.entries, *p.Leave)
	}
}

// jobTable makes writes, with change records and without. A batch is one call. After each it compares all that is stored.
func jobTable(t *testing.T, h Harness, table [][]jobStep) {
	for _, noted := range []bool{true, false} {
		s := h.Open(t)
		createApps(t, s, "orders", "other")
		m := &jobModel{jobs: map[core.JobID]core.Job{}, tombs: map[core.JobID]core.Tombstone{}, entries: map[core.DueItem]bool{},
			changes: map[core.JobID][]core.Change{}}
		for n, batch := range table {
			puts := make([]store.JobPut, len(batch))
			for i, s := range batch {
				if puts[i] = s.put; noted {
					of := core.JobID(1000 + 10*n + i)
					puts[i].Changes = []core.Change{{ID: 1, At: base, By: "ann", Verb: "changed", App: "orders", Job: of, Name: s.name}}
					m.changes[of] = puts[i].Changes[:0]
				}
			}
			for i, err := range s.Jobs.Put(t.Context(), puts) {
				if is := errors.Is(err, core.ErrRefused); is != batch[i].refused || err != nil && !is {
					t.Fatalf("%s: %v", batch[i].name, err)
				}
				if err == nil {
					m.apply(&puts[i])
				}
			}
			m.check(t, h, s, "after "+batch[len(batch)-1].name)
		}
		if h.Reopen != nil { // without a cache
			m.check(t, h, h.Reopen(t, s), "after a restart")
		}
	}
}

func (m *jobModel) check(t *testing.T, h Harness, s *store.Store, what string) {
	t.Helper()
	ctx := t.Context()
	ids := append(slices.Collect(maps.Keys(m.jobs)), slices.Collect(maps.Keys(m.tombs))...)
	got := getJobs(t, s, store.Whole, ids...)
	same(t, what, got, m.jobs)
	used := []string{"job-1", "job-2", "job-3", "job-5", "fresh", "bare", "renamed"}
	names, scheds := map[string]core.JobID{}, getJobs(t, s, store.Planning, ids...)
	if len(scheds) != len(m.jobs) {
		t.Fatalf("%s: %d jobs to plan", what, len(scheds))
	}
	for id, j := range m.jobs {
		same(t, what+": planning", scheds[id].Sched, j.Sched)
		same(t, what+": children", got[id].Def.Children, j.Def.Children) // Def.Equal ignores them
		if got[id].Def.Declared != j.Def.Declared {
			t.Fatalf("%s: declared by %q", what, got[id].Def.Declared)
		}
		if j.Def.App == "orders" && slices.Contains(used, j.Def.Name) {
			names[j.Def.Name] = id
		}
	}
	named, err := s.Jobs.Named(ctx, "orders", used)
	ok(t, err)
	same(t, what+": names", named, names)
	for id, want := range m.changes {
		changes, err := s.Changes(ctx, "", id, math.MaxInt64, 100)
		ok(t, err)
		same(t, what+": change records", changes, want)
	}
	stones, err := s.Tombstones(ctx, ids)
	ok(t, err)
	same(t, what+": tombstones", stones, m.tombs)
	var list []core.Tombstone
	for after := core.JobID(0); ; after = list[len(list)-1].Job {
		page, err := s.ListTombstones(ctx, after, 2)
		ok(t, err)
		if list = append(list, page...); len(page) < 2 {
			break
		}
	}
	byID := func(a, b core.Tombstone) int { return int(a.Job - b.Job) }
	same(t, what+": listed tombstones", list, slices.SortedFunc(maps.Values(m.tombs), byID))
	for partition := range 4 {
		var due []core.DueItem
		for _, j := range m.jobs {
			if j.Sched.Partition == partition && j.Sched.PlanAt > 0 {
				due = append(due, core.DueItem{PlanAt: j.Sched.PlanAt, Job: j.Def.ID, Partition: partition})
			}
		}
		for d := range m.entries {
			if d.Partition == partition {
				due = append(due, d)
			}
		}
		sortDue(due)
		wantDue(t, h, s, partition, core.Horizon, 2, due...)
	}
	for id := range m.jobs {
		entries, err := s.Jobs.Entries(ctx, id)
		ok(t, err)
		want := slices.DeleteFunc(slices.Collect(maps.Keys(m.entries)), func(d core.DueItem) bool { return d.Job != id })
		if d := cmp.Diff(want, entries, cmpopts.EquateEmpty(), cmpopts.SortSlices(core.DueItem.Less)); d != "" {
			t.Fatalf("%s: entries of job %d: (-want +got)\n%s", what, id, d)
		}
	}
}

func sortDue(list []core.DueItem) {
	slices.SortFunc(list, func(a, b core.DueItem) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
}

func creates(j core.Job) store.JobPut { return store.JobPut{Create: &j} }

// updates replaces a job of revision seen.
func updates(j core.Job, seen int64) store.JobPut {
	j.Sched.Rev = seen + 1
	return store.JobPut{Update: &store.JobUpdate{Seen: seen, Job: j}}
}

func deletes(id core.JobID, seen int64) store.JobPut {
	return deletesAt(id, seen, base.Add(time.Second))
}

func deletesAt(id core.JobID, seen int64, at time.Time) store.JobPut {
	return store.JobPut{Delete: &store.JobDelete{Seen: seen, Tombstone: core.Tombstone{Job: id, App: "orders", Name: job(id).Def.Name,
		Rev: seen + 1, RevAt: at}}}
}

// with returns a job with changed fields.
func with(j core.Job, change func(*core.Job)) core.Job {
	change(&j)
	return j
}

func jobConditions(t *testing.T, h Harness) {
	full := with(job(7), func(j *core.Job) {
		j.Sched.PauseUntil, j.Sched.PauseBy, j.Sched.PauseWhy, j.Sched.PlanError = at(999), "bob", "maintenance", "no such zone"
		j.Sched.Compared, j.Sched.State, j.Sched.Tail, j.Sched.Partition = at(30), core.Paused, core.NumberedRun(7, 3), 2
	})
	bare := core.Job{Def: core.Def{ID: 8, App: "orders", Name: "bare"}, Sched: core.Sched{ID: 8, App: "orders", State: core.Ended, Rev: 1}}
	named := func(id core.JobID, app, name string) core.Job {
		return with(job(id), func(j *core.Job) { j.Def.App, j.Sched.App, j.Def.Name = app, app, name })
	}
	edited := with(job(1), func(j *core.Job) {
		j.Sched.PlanAt, j.Sched.Next, j.Def.Title, j.Def.Labels = 0, 0, "new", map[string]string{"x": "y"}
	})
	taken := with(edited, func(j *core.Job) { j.Def.Declared = core.DeclaredTaken }) // nothing else of the definition changes
	renamed := with(taken, func(j *core.Job) { j.Def.Name = "renamed" })
	// An advance between the read of an edit and its write keeps the revision: the tail that it set rejects the edit, and its
	// number is not used again.
	move := job(2).Sched.Stay()
	move.NewTail, move.NewSeq = core.PlannedRun(2, at(55)), 10
	late := updates(job(2), 100)
	late.Update.SeenTail, late.Update.Job.Sched.Tail = move.NewTail, move.NewTail
	jobTable(t, h, [][]jobStep{
		{accept("create", creates(job(1))), accept("create all fields", creates(full)), accept("create no fields", creates(bare))},
		{refuse("create with a name that a job has", creates(named(3, "orders", "job-1"))),
			refuse("create with an ID that a job has", creates(named(1, "orders", "fresh"))),
			accept("create with the name of a job of another app", creates(named(4, "other", "job-1"))),
			refuse("create in a missing app", creates(named(5, "none", "job-5"))), accept("create another", creates(job(2)))},
		{accept("update", updates(edited, 100)), refuse("update another revision", updates(job(2), 99)),
			refuse("update a missing job", updates(job(9), 100))},
		{accept("update who declares it", updates(taken, 101))},
		{accept("rename", updates(renamed, 102))},
		{refuse("rename to a name that a job has", updates(named(2, "orders", "bare"), 100))},
		{accept("advance", store.JobPut{Advance: &move})},
		{refuse("update another tail", updates(job(2), 100))}, {accept("update with the tail", late)},
		{refuse("delete another revision", deletes(2, 99))}, {accept("delete", deletes(2, 101))},
		{refuse("delete again", deletes(2, 101))}, {refuse("update a deleted job", updates(job(2), 101))},
		{refuse("create a deleted job", creates(job(2)))},
		{accept("create with the name of a deleted job", creates(named(6, "orders", "job-2")))},
		{accept("long IDs", creates(job(90))), accept("long IDs", creates(job(1000))), accept("long IDs", creates(job(211)))},
		{accept("delete all", deletes(90, 100)), accept("delete all", deletes(1000, 100)), accept("delete all", deletes(211, 100))},
	})
}

func advance(t *testing.T, h Harness) {
	tailed := with(job(2), func(j *core.Job) { j.Sched.Tail = core.PlannedRun(2, at(1)) })
	paused := with(job(3), func(j *core.Job) {
		j.Sched.State, j.Sched.PauseUntil, j.Sched.PauseBy, j.Sched.PauseWhy = core.Paused, at(55), "ann", "lunch"
	})
	move := func(s core.Sched, change func(*core.Advance)) store.JobPut {
		a := s.Stay()
		change(&a)
		return store.JobPut{Advance: &a}
	}
	far := func(a *core.Advance) {
		a.NewNext, a.NewPlanAt, a.NewSeq, a.NewPartition, a.PlanError, a.NewCompared = at(120), at(115), 9, 3, "odd", at(40)
	}
	moved := job(1).Sched.Moved(*move(job(1).Sched, far).Advance)
	resume := func(a *core.Advance) {
		a.NewState, a.NewRev, a.NewRevAt = core.Started, 300, base.Add(7*time.Millisecond)
	}
	resumed := paused.Sched.Moved(*move(paused.Sched, resume).Advance)
	jobTable(t, h, [][]jobStep{
		{accept("create", creates(job(1))), accept("create with a tail", creates(tailed)), accept("create paused", creates(paused))},
		{refuse("another revision", move(job(1).Sched, func(a *core.Advance) { far(a); a.Rev++ })),
			refuse("another next time", move(tailed.Sched, func(a *core.Advance) { far(a); a.Next++ })),
			refuse("another tail", move(paused.Sched, func(a *core.Advance) { far(a); a.Tail = 77 })),
			refuse("a missing job", move(job(99).Sched, far))},
		{refuse("no tail", move(tailed.Sched, func(a *core.Advance) { far(a); a.Tail = 0 })),
			accept("advance", move(job(1).Sched, far))},
		{refuse("a second time", move(job(1).Sched, far))},
		{accept("nothing compared", move(moved, func(a *core.Advance) { a.NewPlanAt = at(118) }))}, // Compared stays
		{accept("end", move(tailed.Sched, func(a *core.Advance) { a.NewTail, a.NewState, a.NewPlanAt, a.NewNext = 0, core.Ended, 0, 0 }))},
		{refuse("resume another revision", move(paused.Sched, func(a *core.Advance) { resume(a); a.Rev-- }))},
		{accept("resume", move(paused.Sched, resume))}, {refuse("resume again", move(paused.Sched, resume))},
		{accept("pause without an end", move(resumed, func(a *core.Advance) {
			a.NewState, a.NewRev, a.NewRevAt, a.NewNext = core.Paused, 302, base.Add(9*time.Millisecond), 0
			a.NewPauseBy, a.NewPauseWhy = "tickring", "it failed"
		}))},
	})
}

func entries(t *testing.T, h Harness) {
	one := core.DueItem{PlanAt: at(5), Job: 1, Run: core.NumberedRun(1, 1)}
	moved, two := one, core.DueItem{PlanAt: at(5), Job: 2, Run: core.NumberedRun(2, 1), Partition: 3}
	moved.PlanAt = at(50)
	enter := func(d core.DueItem) store.JobPut { return store.JobPut{Enter: &d} }
	leave := func(d core.DueItem) store.JobPut { return store.JobPut{Leave: &d} }
	jobTable(t, h, [][]jobStep{
		{accept("create", creates(job(1))), accept("create another", creates(job(2)))},
		{accept("enter", enter(one)), accept("enter in another partition", enter(two))},
		{accept("enter again", enter(one))}, {accept("enter at another time", enter(moved))}, {accept("leave", leave(one))},
		{accept("leave a missing entry", leave(one)), accept("leave the other", leave(moved)), accept("leave it again", leave(moved))},
		{accept("all kinds", creates(job(3))), accept("all kinds", updates(job(1), 100)), accept("all kinds", enter(one)),
			accept("all kinds", leave(two))},
	})
}

func jobLists(t *testing.T, h Harness) {
	s := h.Open(t)
	want := map[string][]core.JobID{"none": nil}
	for i := core.JobID(1); i <= 25; i++ {
		app := "orders"
		if i%5 == 1 {
			app = "other"
		}
		want[app], want[""] = append(want[app], i), append(want[""], i)
	}
	for i := core.JobID(25); i > 0; i-- {
		createJobs(t, s, with(job(i), func(j *core.Job) {
			if i%5 == 1 {
				j.Def.App, j.Sched.App = "other", "other"
			}
		}))
	}
	for app, want := range want {
		got, _ := listJobs(t, s, app, 7)
		same(t, "jobs of "+app, got, want)
	}
}

// listJobs returns the IDs of the jobs of an app, and of the jobs that cannot be read.
func listJobs(t *testing.T, s *store.Store, app string, limit int) (all, bad []core.JobID) {
	t.Helper()
	for after := core.JobID(0); ; {
		page, next, err := s.Jobs.List(t.Context(), app, after, limit)
		ok(t, err)
		if len(page) > limit {
			t.Fatalf("%d jobs, %d were asked for", len(page), limit)
		}
		for _, got := range page {
			if all = append(all, got.Is.Def.ID); got.Err != nil {
				bad = append(bad, got.Is.Def.ID)
			}
		}
		if after = next; next == 0 {
			return all, bad
		}
	}
}

// unreadable: if one of several jobs is damaged, the others are returned and that one is named.
func unreadable(t *testing.T, h Harness) {
	if h.Damage == nil {
		t.Skip("tests cannot damage what this store keeps")
	}
	s, ctx := h.Open(t), t.Context()
	createJobs(t, s, job(1), job(2), job(3))
	h.Damage(t, s, 2)
	for _, part := range []store.Part{store.Whole, store.Planning} {
		found, err := s.Jobs.Get(ctx, part, []core.JobID{1, 2, 3})
		ok(t, err)
		for id, got := range found {
			if throttled := errors.Is(got.Err, core.ErrThrottled); !throttled && (got.Err != nil) != (id == 2) || len(found) != 3 {
				t.Errorf("part %d: job %d of %d: %v", part, id, len(found), got.Err)
			}
		}
	}
	all, bad := listJobs(t, s, "orders", 1)
	same(t, "listed", all, []core.JobID{1, 2, 3})
	same(t, "unreadable", bad, []core.JobID{2})
}

func due(t *testing.T, h Harness) {
	s := h.Open(t)
	in := func(id core.JobID, plan core.Instant, partition int) core.Job {
		return with(job(id), func(j *core.Job) { j.Sched.PlanAt, j.Sched.Partition = plan, partition })
	}
	createJobs(t, s, in(1, at(10), 0), in(2, at(5), 0), in(3, at(5), 0), in(4, 0, 0), in(5, at(5), 1), in(6, at(20), 0))
	item := func(plan int, job core.JobID, run core.RunID, partition int) core.DueItem {
		return core.DueItem{PlanAt: at(plan), Job: job, Run: run, Partition: partition}
	}
	want := []core.DueItem{item(5, 2, 0, 0), item(5, 2, core.NumberedRun(2, 4), 0), item(5, 2, core.NumberedRun(2, 9), 0), item(5, 3, 0, 0),
		item(7, 1, core.NumberedRun(1, 1), 0), item(10, 1, 0, 0), item(5, 5, 0, 1), item(5, 5, core.NumberedRun(5, 1), 1)}
	for _, i := range []int{2, 1, 4, 7} {
		ok(t, s.Jobs.Put(t.Context(), []store.JobPut{{Enter: &want[i]}})...)
	}
	var many []core.DueItem
	for i := core.JobID(100); i < 160; i++ {
		createJobs(t, s, in(i, at(int(i%7)*10), 2))
		many = append(many, item(int(i%7)*10, i, 0, 2))
	}
	sortDue(many)
	for _, c := range []struct {
		partition, upTo, page int
		want                  []core.DueItem
	}{{0, 10, 1, want[:6]}, {0, 10, 2, want[:6]}, {0, 10, 3, want[:6]}, {0, 10, 100, want[:6]}, {0, 4, 10, nil}, {0, 9, 10, want[:5]},
		{1, 9, 10, want[6:]}, {2, 1000, 7, many}, {3, 1000, 10, nil}} {
		wantDue(t, h, s, c.partition, at(c.upTo), c.page, c.want...)
	}
}

// counters: numbers are consecutive, and no number is allocated twice. Job 0 has the job IDs.
func counters(t *testing.T, h Harness) {
	s := h.Open(t)
	for _, job := range []core.JobID{0, 3} {
		next := int64(1)
		for _, n := range []int{1, 5, 1, 100} {
			first, err := s.Jobs.Numbers(t.Context(), job, n)
			ok(t, err)
			if first != next {
				t.Fatalf("job %d: number %d, want %d", job, first, next)
			}
			next += int64(n)
		}
	}
}

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
	for part := range slices.Chunk(puts, 500) {
		ok(t, s.Jobs.Put(ctx, part)...)
	}
	answers(t, s.Jobs.Put(ctx, []store.JobPut{creates(after(5000, core.UponClose, 1)), creates(job(5001))}), "refused", "ok")
	wantChildren(t, s, job(1), want...)
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

// unreadableRun: if one of several runs is damaged, Get returns the other runs, and an error for the damaged run.
func unreadableRun(t *testing.T, h Harness) {
	if h.SetOwes == nil {
		t.Skip("tests cannot damage what this store keeps")
	}
	s := h.Open(t)
	bad, fine := fullRun(core.NumberedRun(1, 2)), run(core.PlannedRun(1, at(60)))
	other := run(core.PlannedRun(2, at(60)))
	ok(t, s.CreateRuns(t.Context(), []core.Run{fine, bad, other})...)
	h.SetOwes(t, s, bad.ID, "{")
	found := getRuns(t, s, fine.ID, bad.ID, other.ID)
	if len(found) != 3 || found[bad.ID].Err == nil || found[fine.ID].Err != nil || found[other.ID].Err != nil {
		t.Fatalf("of 3 runs one is damaged: %+v", found)
	}
	same(t, "readable run", *found[fine.ID].Is, fine)
	same(t, "readable run", *found[other.ID].Is, other)
	// The damaged run blocks no write of another run.
	end := core.End(fine.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base})
	ok(t, s.ChangeRuns(t.Context(), []core.RunPut{end})...)
	if state := mustRun(t, s, fine.ID).State; state != core.Succeeded {
		t.Fatalf("the run beside a damaged run is %s", state)
	}
}

// newerRun: a run with a field that only a newer version knows can be read.
func newerRun(t *testing.T, h Harness) {
	if h.SetOwes == nil {
		t.Skip("tests cannot damage what this store keeps")
	}
	s := h.Open(t)
	r := fullRun(core.NumberedRun(1, 2))
	ok(t, s.CreateRuns(t.Context(), []core.Run{r})...)
	text, err := json.Marshal(r.Owes)
	ok(t, err)
	h.SetOwes(t, s, r.ID, strings.Replace(string(text), "{", `{"since":{"next":"version"},`, 1))
	sameRun(t, s, r)
}

// longTexts: a job and a run whose texts are as long as an item of DynamoDB allows (400 KB) are stored and read unchanged.
func longTexts(t *testing.T, h Harness) {
	s, long := h.Open(t), strings.Repeat("x", 390<<10)
	createJobs(t, s, with(job(1), func(j *core.Job) { j.Def.Params = long }))
	put(t, s, ids(1)[0], func(r *core.Run) { r.Params = &long })
	if r := mustRun(t, s, ids(1)[0]); mustJob(t, s, 1).Def.Params != long || r.Params == nil || *r.Params != long {
		t.Fatal("the params of a job or of a run have changed")
	}
}

// noAliasing: callers may change arguments and results without an effect on the store, except jobs, which are shared.
func noAliasing(t *testing.T, h Harness) {
	s, ctx, now := h.Open(t), t.Context(), time.Now()
	j, r, jn := job(1), fullRun(core.NumberedRun(1, 1)), journal(5, "n", 1, 3)
	r.State, r.EndedAt, r.Owes, r.Late = core.Running, time.Time{}, nil, nil
	o := out(now, core.InstantOf(now), 1)
	createJobs(t, s, j)
	ok(t, s.CreateRuns(ctx, []core.Run{r})...)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{o})...)
	ok(t, s.PutJournal(ctx, jn))
	want := mustRun(t, s, r.ID)
	j.Def.Labels["team"], j.Def.Retry.On[0], j.Sched.Schedule.Any[0].Expr = "x", core.Lost, "x"
	*r.Params, r.Addresses[0], r.Tries[0].Address = "x", "x", "x"
	o.Message.Fires[0].Run, jn.Entries[0].Run = 1, 9
	for range 2 {
		same(t, "job", mustJob(t, s, 1), job(1))
		got := mustRun(t, s, r.ID)
		same(t, "run", got, want)
		*got.Params, got.Addresses[0], got.Tries[0].Address = "y", "y", "y"
		if want = mustRun(t, s, r.ID); *want.Params == "y" || want.Addresses[0] == "y" {
			t.Fatal("a run shares memory with the store")
		}
		received := receive(t, s, 1)
		same(t, "message", received[0].Message, out(now, core.InstantOf(now), 1).Message)
		received[0].Message.Fires[0].Run = 2
		ok(t, s.Queue.Release(ctx, received, now)...)
		journals, err := s.Journals(ctx, []core.JournalKey{jn.Key})
		ok(t, err)
		same(t, "journal", journals[jn.Key], journal(5, "n", 1, 3))
		journals[jn.Key].Entries[0].Run = 9
	}
}

// endedContext: a call whose context ended before it fails, and a write is not done.
func endedContext(t *testing.T, h Harness) {
	s, r := h.Open(t), run(core.NumberedRun(1, 1))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Jobs.Get(ended, store.Whole, []core.JobID{1})
	_, err2 := s.Records.Get(ended, record("a", 0, "").Key)
	for what, err := range map[string]error{"a read": err, "a read of a record": err2, "a write": s.CreateRuns(ended, []core.Run{r})[0],
		"a write of a record": s.Records.Write(ended, single(record("a", 1, ""), store.Any))[0],
		"a message":           s.Queue.Enqueue(ended, []ring.Out{out(time.Now(), at(1), 1)})[0]} {
		if err == nil {
			t.Errorf("%s with an ended context succeeded", what)
		}
	}
	kept(t, s, false, "the context had ended", r.ID)
}

// empty: calls without items return nothing, and no error.
func empty(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	for _, errs := range [][]error{s.CreateRuns(ctx, nil), s.ChangeRuns(ctx, nil), s.Enter(ctx, nil), s.Advance(ctx, nil),
		s.PutSkips(ctx, nil), s.Jobs.Put(ctx, nil), s.Queue.Enqueue(ctx, nil), s.Queue.Ack(ctx, nil), s.Queue.Release(ctx, nil, base)} {
		if len(errs) != 0 {
			t.Fatalf("results of nothing: %v", errs)
		}
	}
	reads[map[core.JobID]store.Got[*core.Job]](t, "jobs", nil)(s.Jobs.Get(ctx, store.Whole, nil))
	reads[map[core.RunID]store.Got[*core.Run]](t, "runs", nil)(s.Runs.Get(ctx, nil))
	reads[map[string]store.Value[core.App]](t, "apps", nil)(s.Apps(ctx))
	reads[map[string][]core.Executor](t, "executors", nil)(s.Executors(ctx, nil))
	reads[map[core.JournalKey]core.Journal](t, "journals", nil)(s.Journals(ctx, nil))
	ok(t, s.PutChanges(ctx, nil), s.PutRevisits(ctx, 1, nil))
}

// reopen: acknowledged writes of runs, messages and numbers exist after a store was closed. Each noun and each table of jobs
// tests its own.
func reopen(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("this store keeps nothing")
	}
	s, ctx, now, id := h.Open(t), t.Context(), time.Now(), ids(2)
	open, ended := put(t, s, id[0], nil), put(t, s, id[1], nil)
	end := core.End(ended.ID, core.Run{State: core.Succeeded, Code: 200, EndedAt: base})
	ok(t, s.ChangeRuns(ctx, []core.RunPut{end})...)
	end.Apply(&ended)
	ok(t, s.PutJournal(ctx, journal(9, "n", 1, 3)))
	firstJob, err := s.JobIDs(ctx, 5)
	first, err2 := s.RunNumbers(ctx, 1, 3)
	ok(t, err, err2)
	slot := core.InstantOf(now)
	ok(t, s.Queue.Enqueue(ctx, []ring.Out{out(now, slot, 1), out(now.Add(time.Millisecond), slot, 2)})...)
	got := receive(t, s, 1)
	ok(t, s.Queue.Ack(ctx, got)...)

	s = h.Reopen(t, s)
	sameRun(t, s, open)
	sameRun(t, s, ended)
	refused(t, s.CreateRuns(ctx, []core.Run{run(id[0])})...)
	reads(t, "journals", []core.Journal{journal(9, "n", 1, 3)})(s.JournalsAt(ctx, 9, core.JournalKey{}, 1000))
	nextJob, err := s.JobIDs(ctx, 1)
	next, err2 := s.RunNumbers(ctx, 1, 1)
	if ok(t, err, err2); nextJob < firstJob+5 || next < first+3 {
		t.Fatalf("job ID %d after %d, number %d after %d", nextJob, firstJob, next, first)
	}
	if left := receive(t, s, 10); len(left) != 1 || left[0].Message.Fires[0].Run == got[0].Message.Fires[0].Run {
		t.Fatalf("on the delay queue: %+v", left)
	}
}
