package storetest

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
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
		return
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
	for _, c := range []struct {
		partition, upTo, page int
		want                  []core.DueItem
	}{{0, 10, 1, want[:6]}, {0, 10, 2, want[:6]}, {0, 10, 3, want[:6]}, {0, 10, 100, want[:6]}, {0, 4, 10, nil}, {0, 9, 10, want[:5]},
		{1, 9, 10, want[6:]}, {2, 1000, 10, nil}} {
		wantDue(t, h, s, c.partition, at(c.upTo), c.page, c.want...)
	}
}

func dueMany(t *testing.T, h Harness) {
	s := h.Open(t)
	var list []core.Job
	var want []core.DueItem
	for i := core.JobID(1); i <= 60; i++ {
		list = append(list, with(job(i), func(j *core.Job) { j.Sched.PlanAt = at(int(i%7) * 10) }))
		want = append(want, core.DueItem{PlanAt: at(int(i%7) * 10), Job: i})
	}
	sortDue(want)
	createJobs(t, s, list...)
	wantDue(t, h, s, 0, at(1000), 7, want...)
}

func skips(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	skip := func(first, last int, reason core.Reason) core.Skip {
		return core.Skip{Job: 1, First: at(first), Last: at(last), Count: int64(last - first + 1), Reason: reason, Rev: 100, Made: base}
	}
	a, b, c := skip(0, 10, core.ReasonMisfire), skip(20, 30, core.ReasonPaused), skip(20, 25, core.ReasonMisfire)
	other := skip(0, 100, core.ReasonMisfire)
	other.Job = 2
	ok(t, s.PutSkips(ctx, []core.Skip{a, b, c, other})...)
	read := func(from, to int, want ...core.Skip) {
		t.Helper()
		got, err := s.Skips(ctx, 1, at(from), at(to))
		ok(t, err)
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b core.Skip) bool {
			return a.First < b.First || a.First == b.First && a.Reason < b.Reason
		})); d != "" {
			t.Fatalf("(-want +got)\n%s", d)
		}
	}
	read(0, 100, a, c, b)
	read(10, 19, a)
	read(11, 19)
	read(26, 26, b)
	read(5, 5, a)
	shorter, longer := skip(0, 5, core.ReasonMisfire), skip(20, 40, core.ReasonPaused)
	shorter.Made, longer.Made = base.Add(time.Hour), base.Add(2*time.Hour)
	ok(t, s.PutSkips(ctx, []core.Skip{shorter})...)
	ok(t, s.PutSkips(ctx, []core.Skip{longer})...)
	b.Last, b.Count, b.Made = longer.Last, longer.Count, longer.Made
	read(0, 100, a, c, b)
	read(35, 36, b)
}

func changes(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	of := func(app string, job core.JobID, id int64) core.Change {
		return core.Change{ID: id, At: base.Add(time.Duration(id) * time.Second), By: "ann", Verb: "paused", App: app, Job: job,
			Why: fmt.Sprint(id)}
	}
	all := []core.Change{of("a", 1, 10), of("a", 0, 20), of("b", 2, 30), of("", 0, 40), of("a", 1, 50), of("a", 3, 60)}
	createApps(t, s, "a", "b")
	all = append(all, core.Change{ID: 1, At: base, App: "a"}, core.Change{ID: 1, At: base, App: "b"})
	ok(t, s.PutChanges(ctx, []core.Change{all[3], all[0], all[4]}))
	ok(t, s.PutChanges(ctx, []core.Change{all[5], all[1], all[2]}))
	ok(t, s.PutChanges(ctx, all[:1])) // a repeat
	read := func(app string, job core.JobID, limit int, want ...int) {
		t.Helper()
		eventually(t, h, func() string {
			got, err := s.Changes(ctx, app, job, math.MaxInt64, limit)
			ok(t, err)
			var list []core.Change
			for _, i := range want {
				list = append(list, all[i])
			}
			return cmp.Diff(list, got, cmpopts.EquateEmpty())
		})
	}
	read("a", 1, 10, 4, 0)
	read("a", 1, 1, 4)
	read("a", 0, 10, 5, 4, 1, 0, 6)
	read("", 0, 6, 5, 4, 3, 2, 1, 0)
	read("", 0, 2, 5, 4)
	read("c", 0, 10)
	for _, c := range []struct {
		app   string
		job   core.JobID
		last  int64
		limit int
		want  []core.Change
	}{{"", 1, 50, 10, []core.Change{all[4], all[0]}}, {"", 1, 49, 10, all[:1]}, {"", 1, 50, 1, all[4:5]}, {"", 1, 9, 10, nil},
		{"", 1, math.MaxInt64, 1, all[4:5]}, {"a", 0, 50, 2, []core.Change{all[4], all[1]}},
		{"", 0, 40, 3, []core.Change{all[3], all[2], all[1]}},
		{"a", 0, 20, 1, all[1:2]}} {
		eventually(t, h, func() string {
			got, err := s.Changes(ctx, c.app, c.job, c.last, c.limit)
			ok(t, err)
			return cmp.Diff(c.want, got, cmpopts.EquateEmpty())
		})
	}

	// Changes without a job differ by name: two channels are deleted in one millisecond.
	mail := core.Change{ID: 95, At: base, By: "ann", Verb: core.VerbDeleted, Name: "mail", Old: "{}"}
	oncall := mail
	oncall.Name = "oncall"
	ok(t, s.PutChanges(ctx, []core.Change{mail, oncall}))
	ok(t, s.PutChanges(ctx, []core.Change{mail, oncall})) // a repeat
	eventually(t, h, func() string {
		got, err := s.Changes(ctx, "", 0, math.MaxInt64, 2)
		ok(t, err)
		return cmp.Diff([]core.Change{mail, oncall}, got, cmpopts.SortSlices(func(a, b core.Change) bool { return a.Name < b.Name }))
	})

	// Two users act in one millisecond, and a third changes the job.
	first, second, edited := of("d", 4, 70), of("d", 4, 70), of("d", 4, 70)
	first.Verb, first.New = core.VerbTriggered, `{"run":"1"}`
	second.Verb, second.New = core.VerbTriggered, `{"run":"2"}`
	ok(t, s.PutChanges(ctx, []core.Change{first, edited}))
	ok(t, s.PutChanges(ctx, []core.Change{second}))
	ok(t, s.PutChanges(ctx, []core.Change{first, second, edited})) // a repeat
	for app, job := range map[string]core.JobID{"d": 0, "": 4} {
		eventually(t, h, func() string {
			got, err := s.Changes(ctx, app, job, math.MaxInt64, 10)
			ok(t, err)
			return cmp.Diff([]core.Change{edited, first, second}, got,
				cmpopts.SortSlices(func(a, b core.Change) bool { return a.Verb+a.New < b.Verb+b.New }))
		})
	}
}

// appPauses: the store keeps the latest pauses of an app.
func appPauses(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	b := anApp
	b.Pause = core.Pause{From: base, To: base.Add(time.Hour)}
	ok(t, s.PutApp(ctx, 0, b, core.Change{ID: b.Rev, At: base, Verb: "created", App: "orders"}))
	for i := range core.MaxPast + 2 { // the store keeps the stored pauses, whatever it gets as past
		seen := b.Rev
		b.Rev, b.Past = b.Rev+1, core.PauseHistory{}
		want := b.Past
		for k := max(0, i-core.MaxPast); k < i; k++ {
			from := base.Add(time.Duration(k) * 24 * time.Hour)
			want.Pauses = append(want.Pauses, core.Pause{From: from, To: from.Add(time.Hour)})
		}
		if n := i - core.MaxPast; n > 0 {
			want.From = base.Add(time.Duration(n-1)*24*time.Hour + time.Hour)
		}
		b.Pause.From = base.Add(time.Duration(i) * 24 * time.Hour)
		b.Pause.To = b.Pause.From.Add(time.Hour)
		ok(t, s.PutApp(ctx, seen, b, core.Change{ID: b.Rev, At: base, Verb: "paused", App: "orders"}))
		b.Past = want
		same(t, "app with its pauses", readApp(t, s, "orders"), []core.App{b})
	}
}

// appDeleted: an app that has a job cannot be deleted; with an app its executors go, and its jobs cannot be created.
func appDeleted(t *testing.T, h Harness) {
	s, ctx, ch := h.Open(t), t.Context(), core.Change{ID: 5, At: base, By: "ann", Verb: "created", App: "orders"}
	deletion := store.Group{Writes: []store.Write{{Record: store.Record{Key: store.Key{Kind: "app", Name: "orders"}}, Was: 5, Delete: true}},
		Changes: []core.Change{{ID: 6, At: base, Verb: "deleted", App: "orders"}}}
	ok(t, s.PutApp(ctx, 0, anApp, ch))
	createJobs(t, s, job(1))
	refused(t, s.Records.Write(ctx, deletion)[0])
	ok(t, s.Jobs.Put(ctx, []store.JobPut{deletes(1, 100)})...)
	ok(t, s.PutExecutor(ctx, core.Executor{App: "orders", Address: "http://10.0.0.1:9999/", Beat: base, Since: base}))
	other := deletion
	other.Writes = []store.Write{deletion.Writes[0]}
	other.Writes[0].Was = 4
	answers(t, s.Records.Write(ctx, other, deletion), "refused", "ok")
	same(t, "deleted app", readApp(t, s, "orders"), nil)
	left, err := s.Executors(ctx, []string{"orders"})
	ok(t, err)
	same(t, "executors of a deleted app", left["orders"], nil)
	refused(t, s.Jobs.Put(ctx, []store.JobPut{creates(job(2))})[0]) // read before its app was deleted
	ok(t, s.PutApp(ctx, 0, anApp, ch))
	createJobs(t, s, job(2))
}

// globalPast: the store keeps a pause of everything when another one takes its place.
func globalPast(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	g := core.Global{Pause: core.Pause{From: base, By: "ann", Why: "freeze"}, Rev: 1}
	ok(t, s.PutGlobal(ctx, 0, g))
	g.Rev, g.Pause = 2, core.Pause{From: base.Add(time.Hour), By: "bob"}
	for range 2 {
		ok(t, s.PutGlobal(ctx, g.Rev-1, g))
		got, err := s.Global(ctx)
		ok(t, err)
		want := g
		want.Past = core.PauseHistory{Pauses: []core.Pause{{From: base, To: base.Add(time.Hour)}}} // it had no end
		same(t, "global", got, want)
		g.Rev++
	}
}

// renewals: a lease is renewed whatever its end is. The earlier holder renews no lease that was taken or released.
func renewals(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	a := core.Lease{Name: "partition/0", Owner: "a", Epoch: 1, Until: base}
	ok(t, s.PutLease(ctx, core.Lease{}, a))
	renewed, back := a, a
	renewed.Until, back.Owner = base.Add(time.Minute), ""
	ok(t, s.PutLease(ctx, a, renewed))
	ok(t, s.PutLease(ctx, a, renewed))
	ok(t, s.PutLease(ctx, renewed, back))
	refused(t, s.PutLease(ctx, a, renewed))
	got, err := s.Leases(ctx)
	ok(t, err)
	same(t, "released lease", got, []core.Lease{back})
	ok(t, s.PutLease(ctx, back, core.Lease{Name: a.Name, Owner: "b", Epoch: 2, Until: base}))
	refused(t, s.PutLease(ctx, a, renewed))
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

func keys(t *testing.T, h Harness) {
	s, ctx := h.Open(t), t.Context()
	put := func(job core.JobID, key string, run, want core.RunID) {
		t.Helper()
		got, err := s.PutKey(ctx, job, key, run)
		ok(t, err)
		if got != want {
			t.Fatalf("bound to %d, want %d", got, want)
		}
	}
	a, b := core.NumberedRun(1, 1), core.NumberedRun(1, 2)
	put(1, "k", a, a)
	put(1, "k", b, a)
	put(1, "k", a, a)
	put(1, "other", b, b)
	put(2, "k", core.NumberedRun(2, 1), core.NumberedRun(2, 1))
}
