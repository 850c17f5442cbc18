package enginetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/engine"
)

func jobs(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	full := job(7)
	full.Sched.PauseUntil, full.Sched.PauseBy, full.Sched.PauseWhy, full.Sched.PlanError = at(999), "bob", "maintenance", "no such zone"
	full.Sched.Compared = at(30)
	full.Sched.State, full.Sched.Tail, full.Sched.Partition = core.Paused, core.NumberedRun(7, 3), 2
	bare := core.Job{Def: core.Def{ID: 8, App: "orders", Name: "bare"}, Sched: core.Sched{ID: 8, App: "orders", State: core.Ended, Rev: 1}}
	createJobs(t, e, full, bare)
	same(t, "job", mustJob(t, e, 7), full)
	same(t, "bare job", mustJob(t, e, 8), bare)
	if _, is := readJob(t, e, 9); is {
		t.Fatal("a job that was not created")
	}
	scheds, unread, err := e.Tick.Scheds(ctx, []core.JobID{7, 9, 8})
	ok(t, err)
	if len(unread) == 0 {
		same(t, "scheds", scheds, map[core.JobID]core.Sched{7: full.Sched, 8: bare.Sched})
	}
	ids, err := e.Manage.JobIDs(ctx, "orders", []string{"bare", "none"})
	ok(t, err)
	same(t, "by name", ids, map[string]core.JobID{"bare": 8})
	ids, err = e.Manage.JobIDs(ctx, "other", []string{"bare"})
	ok(t, err)
	same(t, "by name of another app", ids, nil)
}

func jobConditions(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	createJobs(t, e, job(1), job(2))

	sameName := job(3)
	sameName.Def.Name = "job-1"
	sameID := job(1)
	sameID.Def.Name = "fresh"
	otherApp := job(4)
	otherApp.Def.App, otherApp.Sched.App, otherApp.Def.Name = "other", "other", "job-1"
	list := []core.Job{sameName, sameID, otherApp, job(5)}
	var cs []core.Change
	for _, j := range list {
		cs = append(cs, change(j, 555))
	}
	createApps(t, e, "other")
	answers(t, e.Manage.CreateJobs(ctx, list, cs), "refused", "refused", "ok", "ok")
	same(t, "job 1", mustJob(t, e, 1), job(1))
	if _, is := readJob(t, e, 3); is {
		t.Fatal("a refused job is there")
	}
	got, err := e.Manage.Changes(ctx, "", 1, math.MaxInt64, 10)
	ok(t, err)
	same(t, "changes of job 1", got, []core.Change{change(job(1), 100)})
	got, err = e.Manage.Changes(ctx, "", 5, math.MaxInt64, 10)
	ok(t, err)
	same(t, "changes of job 5", got, []core.Change{change(job(5), 555)})

	// Updates.
	update := func(id core.JobID, seen, rev int64) manage.Update {
		j := job(id)
		j.Sched.Rev, j.Sched.PlanAt, j.Sched.Next, j.Def.Title = rev, 0, 0, "new"
		j.Def.Labels = map[string]string{"x": "y"}
		return manage.Update{Seen: seen, Job: j, Change: change(j, rev)}
	}
	us := []manage.Update{update(1, 100, 101), update(2, 99, 101), update(9, 100, 101)}
	answers(t, e.Manage.UpdateJobs(ctx, us), "ok", "refused", "refused")
	same(t, "updated", mustJob(t, e, 1), us[0].Job)
	same(t, "not updated", mustJob(t, e, 2), job(2))
	if _, is := readJob(t, e, 9); is {
		t.Fatal("an update made a job")
	}
	wantDue(t, h, e, 0, core.Horizon, 10, core.DueItem{PlanAt: at(55), Job: 2}, core.DueItem{PlanAt: at(55), Job: 4},
		core.DueItem{PlanAt: at(55), Job: 5})
	taken := us[0].Job // nothing else of the definition changes
	taken.Sched.Rev, taken.Def.Declared = 102, core.DeclaredTaken
	allNil(t, e.Manage.UpdateJobs(ctx, []manage.Update{{Seen: 101, Job: taken, Change: change(taken, 102)}}))
	if d := mustJob(t, e, 1).Def.Declared; d != core.DeclaredTaken { // not by Def.Equal, which may ignore it
		t.Fatalf("it was last declared by %q", d)
	}
	renamed := update(1, 102, 103)
	renamed.Job.Def.Name = "renamed"
	allNil(t, e.Manage.UpdateJobs(ctx, []manage.Update{renamed}))
	// An advance between the read of an edit and its write keeps the revision: the tail that it
	// set rejects the edit, and its number is not reused.
	moved := mustJob(t, e, 4).Sched.Stay()
	moved.NewTail, moved.NewSeq = core.PlannedRun(4, at(55)), moved.NewSeq+7
	allNil(t, e.Tick.Advance(ctx, []core.Advance{moved}))
	edit := update(4, 100, 101)
	refused(t, e.Manage.UpdateJobs(ctx, []manage.Update{edit})[0])
	edit.SeenTail = moved.NewTail
	edit.Job.Sched.Tail, edit.Job.Sched.PlanAt = moved.NewTail, mustJob(t, e, 4).Sched.PlanAt
	allNil(t, e.Manage.UpdateJobs(ctx, []manage.Update{edit}))
	if s := mustJob(t, e, 4).Sched; s.Seq != moved.NewSeq || s.Tail != moved.NewTail {
		t.Fatalf("after the edit: seq %d tail %d", s.Seq, s.Tail)
	}
	ids, err := e.Manage.JobIDs(ctx, "orders", []string{"job-1", "renamed"})
	ok(t, err)
	same(t, "names after a renaming", ids, map[string]core.JobID{"renamed": 1})

	// Deletion.
	stone := core.Tombstone{Job: 2, App: "orders", Name: "job-2", Rev: 200, RevAt: base.Add(time.Second)}
	refused(t, e.Manage.DeleteJob(ctx, 99, stone, change(job(2), 200)))
	stones, err := e.Dispatch.Tombstones(ctx, []core.JobID{2})
	ok(t, err)
	same(t, "no tombstone", stones, nil)
	ok(t, e.Manage.DeleteJob(ctx, 100, stone, change(job(2), 200)))
	refused(t, e.Manage.DeleteJob(ctx, 100, stone, change(job(2), 201)))
	if _, is := readJob(t, e, 2); is {
		t.Fatal("a deleted job is there")
	}
	stones, err = e.Dispatch.Tombstones(ctx, []core.JobID{1, 2})
	ok(t, err)
	same(t, "tombstones", stones, map[core.JobID]core.Tombstone{2: stone})
	listTombstones(t, e, stone)
	got, err = e.Manage.Changes(ctx, "", 2, math.MaxInt64, 10)
	ok(t, err)
	same(t, "changes of job 2", got, []core.Change{change(job(2), 200), change(job(2), 100)})
	wantDue(t, h, e, 0, core.Horizon, 10, core.DueItem{PlanAt: at(55), Job: 4}, core.DueItem{PlanAt: at(55), Job: 5})
	answers(t, e.Manage.CreateJobs(ctx, []core.Job{job(2)}, nil), "refused") // a create that comes late brings nothing back
	again := job(6)                                                          // the name is free again
	again.Def.Name = "job-2"
	createJobs(t, e, again)
}

func jobLists(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	var want, orders []core.JobID
	for i := core.JobID(1); i <= 25; i++ {
		j := job(26 - i)
		if i%5 == 0 {
			j.Def.App, j.Sched.App = "other", "other"
		}
		createJobs(t, e, j)
	}
	for i := core.JobID(1); i <= 25; i++ {
		want = append(want, i)
		if (26-i)%5 != 0 {
			orders = append(orders, i)
		}
	}
	for app, want := range map[string][]core.JobID{"": want, "orders": orders, "none": nil} {
		var got []core.JobID
		after := core.JobID(0)
		for {
			page, next, err := e.Manage.ListJobs(ctx, app, after, 7)
			ok(t, err)
			if len(page) > 7 {
				t.Fatalf("%d jobs, 7 were asked for", len(page))
			}
			for _, j := range page {
				got = append(got, j.Def.ID)
			}
			if after = next; next == 0 {
				break
			}
		}
		same(t, "jobs of "+app, got, want)
	}
}

// unreadable: if one of several jobs is damaged, the others are returned and that one is named;
// a list continues after it even if a page has no other.
func unreadable(t *testing.T, h Harness) {
	if h.Damage == nil {
		return
	}
	e, ctx := h.Open(t), t.Context()
	createJobs(t, e, job(1), job(2), job(3))
	h.Damage(t, e, 2)
	named := func(what string, err error, is bool) {
		t.Helper()
		bad, err := core.SplitUnreadable(err)
		if ok(t, err); (bad[2] != nil) != is || len(bad) > 1 {
			t.Errorf("%s: unreadable jobs are %v", what, bad)
		}
	}
	ids := []core.JobID{1, 2, 3}
	scheds, unread, err := e.Tick.Scheds(ctx, ids)
	if named("scheds", err, true); len(unread) == 0 {
		same(t, "scheds", scheds, map[core.JobID]core.Sched{1: job(1).Sched, 3: job(3).Sched})
	}
	jobs, unread, err := e.Dispatch.Jobs(ctx, ids)
	if named("jobs", err, true); len(unread) == 0 && (len(jobs) != 2 || jobs[1] == nil || jobs[3] == nil) {
		t.Errorf("jobs: %v", jobs)
	}
	var got []core.JobID
	for after, pages := core.JobID(0), 0; ; pages++ {
		page, next, err := e.Manage.ListJobs(ctx, "orders", after, 1)
		named(fmt.Sprint("the list behind ", after), err, pages == 1)
		for _, j := range page {
			got = append(got, j.Def.ID)
		}
		if after = next; next == 0 || pages == 4 {
			break
		}
	}
	same(t, "listed", got, []core.JobID{1, 3})

	ok(t, e.Manage.PutApp(ctx, 0, core.App{Name: "ledger", Rev: 1}, core.Change{ID: 1, App: "ledger"}))
	before, err := e.Manage.ListApps(ctx)
	ok(t, err)
	h.DamageApp(t, e, "ledger")
	apps, err := e.Manage.ListApps(ctx)
	bad, is := errors.AsType[core.UnreadableApps](err)
	if !is || len(bad) != 1 || bad["ledger"] == nil || len(apps) != len(before)-1 {
		t.Errorf("of %d apps one is damaged: %v, %v", len(before), apps, err)
	}
	some, left, err := e.Dispatch.Apps(ctx, []string{"ledger", apps[0].Name})
	if bad, err = core.BesidesApps(err); err != nil || len(left) > 0 || len(bad) != 1 || bad["ledger"] == nil || len(some) != 1 ||
		some[apps[0].Name].Name == "" {
		t.Errorf("of two apps by name one is damaged: %v, %v %v %v", some, left, bad, err)
	}
}

func due(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	in := func(id core.JobID, plan core.Instant, partition int) core.Job {
		j := job(id)
		j.Sched.PlanAt, j.Sched.Partition = plan, partition
		return j
	}
	createJobs(t, e, in(1, at(10), 0), in(2, at(5), 0), in(3, at(5), 0), in(4, 0, 0), in(5, at(5), 1), in(6, at(20), 0))
	light := []core.DueItem{
		{PlanAt: at(5), Job: 2, Run: core.NumberedRun(2, 9)},
		{PlanAt: at(5), Job: 2, Run: core.NumberedRun(2, 4)},
		{PlanAt: at(7), Job: 1, Run: core.NumberedRun(1, 1)},
		{PlanAt: at(5), Job: 5, Run: core.NumberedRun(5, 1), Partition: 1},
	}
	allNil(t, e.Finish.PutEntries(ctx, light))
	allNil(t, e.Finish.PutEntries(ctx, light[:1])) // it is there already
	want := []core.DueItem{
		{PlanAt: at(5), Job: 2}, light[1], light[0], {PlanAt: at(5), Job: 3}, light[2], {PlanAt: at(10), Job: 1},
	}
	for _, page := range []int{1, 2, 3, 100} {
		wantDue(t, h, e, 0, at(10), page, want...)
	}
	wantDue(t, h, e, 0, at(4), 10)
	wantDue(t, h, e, 0, at(9), 10, want[:5]...)
	wantDue(t, h, e, 1, at(9), 10, core.DueItem{PlanAt: at(5), Job: 5, Partition: 1}, light[3])
	wantDue(t, h, e, 2, core.Horizon, 10)
	allNil(t, e.Tick.RemoveEntries(ctx, []core.DueItem{light[0], light[0]}))
	wantDue(t, h, e, 0, at(5), 10, want[0], want[1], want[3])
}

func dueMany(t *testing.T, h Harness) {
	e := h.Open(t)
	var list []core.Job
	var want []core.DueItem
	for i := core.JobID(1); i <= 60; i++ {
		j := job(i)
		j.Sched.PlanAt = at(int(i%7) * 10)
		list = append(list, j)
	}
	for s := range 7 {
		for i := core.JobID(1); i <= 60; i++ {
			if int(i%7) == s {
				want = append(want, core.DueItem{PlanAt: at(s * 10), Job: i})
			}
		}
	}
	createJobs(t, e, list...)
	wantDue(t, h, e, 0, at(1000), 7, want...)
}

func advance(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	tailed := job(5)
	tailed.Sched.Tail = core.PlannedRun(5, at(1))
	paused := job(6)
	paused.Sched.State, paused.Sched.PauseUntil, paused.Sched.PauseBy, paused.Sched.PauseWhy = core.Paused, at(55), "ann", "lunch"
	createJobs(t, e, job(1), job(2), job(3), job(4), tailed, paused)
	move := func(s core.Sched) core.Advance {
		a := s.Stay()
		a.NewNext, a.NewPlanAt, a.NewSeq, a.NewPartition, a.PlanError = at(120), at(115), 9, 3, "odd"
		a.NewCompared = at(40)
		return a
	}
	stale, late, chain := move(job(2).Sched), move(job(3).Sched), move(job(4).Sched)
	stale.Rev++
	late.Next++
	chain.Tail = 77
	wrongTail := move(tailed.Sched)
	wrongTail.Tail = 0
	moves := []core.Advance{move(job(1).Sched), stale, late, chain, wrongTail, move(job(99).Sched)}
	answers(t, e.Tick.Advance(ctx, moves), "ok", "refused", "refused", "refused", "refused", "refused")
	want := job(1)
	want.Sched = want.Sched.Moved(moves[0])
	same(t, "moved", mustJob(t, e, 1), want)
	for _, j := range []core.Job{job(2), job(3), job(4), tailed} {
		same(t, "not moved", mustJob(t, e, j.Def.ID), j)
	}
	refused(t, e.Tick.Advance(ctx, moves[:1])[0]) // a second time

	further := want.Sched.Stay() // nothing was compared: it stays
	further.NewPlanAt = at(118)
	answers(t, e.Tick.Advance(ctx, []core.Advance{further}), "ok")
	want.Sched = want.Sched.Moved(further)
	same(t, "moved further", mustJob(t, e, 1), want)

	end := tailed.Sched.Stay()
	end.NewTail, end.NewState, end.NewPlanAt, end.NewNext = 0, core.Ended, 0, 0
	answers(t, e.Finish.Advance(ctx, []core.Advance{end}), "ok")
	tailed.Sched = tailed.Sched.Moved(end)
	same(t, "ended", mustJob(t, e, 5), tailed)

	resume := paused.Sched.Stay()
	resume.NewState, resume.NewRev, resume.NewRevAt = core.Started, 300, base.Add(7*time.Millisecond)
	resume.Change = &core.Change{ID: 300, At: resume.NewRevAt, By: "tickring", Verb: core.VerbResumed, App: "shop", Job: 6, Old: "{}",
		New: `{"a":1}`}
	same(t, "record and advance: both or neither", records(t, e, 6), nil)
	stale = resume
	stale.Rev--
	answers(t, e.Manage.Advance(ctx, []core.Advance{move(want.Sched), stale}), "ok", "refused")
	same(t, "record and advance: both or neither", records(t, e, 6), nil)
	answers(t, e.Tick.Advance(ctx, []core.Advance{resume}), "ok")
	paused.Sched = paused.Sched.Moved(resume)
	same(t, "resumed", mustJob(t, e, 6), paused)
	again := resume
	again.Change = &core.Change{ID: 301, Verb: core.VerbResumed, App: "shop", Job: 6}
	refused(t, e.Manage.Advance(ctx, []core.Advance{again})[0])
	same(t, "record and advance: both or neither", records(t, e, 6), []core.Change{*resume.Change})

	pause := paused.Sched.Stay() // and paused again, without an end
	pause.NewState, pause.NewRev, pause.NewRevAt, pause.NewNext = core.Paused, 302, base.Add(9*time.Millisecond), 0
	pause.NewPauseBy, pause.NewPauseWhy = "tickring", "it failed"
	pause.Change = &core.Change{ID: 302, At: pause.NewRevAt, By: "tickring", Verb: core.VerbPaused, App: "shop", Job: 6, Old: `{"a":1}`,
		New: `{"a":2}`}
	answers(t, e.Finish.Advance(ctx, []core.Advance{pause}), "ok")
	paused.Sched = paused.Sched.Moved(pause)
	if paused.Sched.PauseWhy != "it failed" {
		t.Errorf("moved to %+v", paused.Sched)
	}
	same(t, "paused", mustJob(t, e, 6), paused)
	same(t, "record and advance: both or neither", records(t, e, 6), []core.Change{*pause.Change, *resume.Change})

	wantDue(t, h, e, 0, at(1000), 10, core.DueItem{PlanAt: at(55), Job: 2}, core.DueItem{PlanAt: at(55), Job: 3},
		core.DueItem{PlanAt: at(55), Job: 4}, core.DueItem{PlanAt: at(55), Job: 6})
	wantDue(t, h, e, 3, at(1000), 10, core.DueItem{PlanAt: at(115), Job: 1, Partition: 3})
}

// records returns the changes of a job after its creation.
func records(t *testing.T, e *engine.Engine, job core.JobID) []core.Change {
	t.Helper()
	list, err := e.Manage.Changes(t.Context(), "", job, math.MaxInt64, 10)
	ok(t, err)
	return slices.DeleteFunc(list, func(c core.Change) bool { return c.Verb == core.VerbCreated })
}

func entries(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	one := core.DueItem{PlanAt: at(5), Job: 1, Run: core.NumberedRun(1, 1)}
	moved := one
	moved.PlanAt = at(50)
	two := core.DueItem{PlanAt: at(5), Job: 2, Run: core.NumberedRun(2, 1), Partition: 4}
	allNil(t, e.Finish.PutEntries(ctx, []core.DueItem{one, two}))
	list := func(job core.JobID, want ...core.DueItem) {
		t.Helper()
		eventually(t, h, func() string {
			got, err := e.Manage.Entries(ctx, job)
			ok(t, err)
			return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(core.DueItem.Less))
		})
	}
	list(1, one)
	list(2, two)
	list(3)
	allNil(t, e.Finish.PutEntries(ctx, []core.DueItem{moved}))
	allNil(t, e.Manage.RemoveEntries(ctx, []core.DueItem{one}))
	list(1, moved)
	allNil(t, e.Manage.RemoveEntries(ctx, []core.DueItem{one, moved}))
	list(1)
}

func skips(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	skip := func(first, last int, reason core.Reason) core.Skip {
		return core.Skip{Job: 1, First: at(first), Last: at(last), Count: int64(last - first + 1), Reason: reason, Rev: 100, Made: base}
	}
	a, b, c := skip(0, 10, core.ReasonMisfire), skip(20, 30, core.ReasonPaused), skip(20, 25, core.ReasonMisfire)
	other := skip(0, 100, core.ReasonMisfire)
	other.Job = 2
	allNil(t, e.Tick.PutSkips(ctx, []core.Skip{a, b, c, other}))
	read := func(from, to int, want ...core.Skip) {
		t.Helper()
		got, err := e.Manage.Skips(ctx, 1, at(from), at(to))
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
	allNil(t, e.Manage.PutSkips(ctx, []core.Skip{shorter}))
	allNil(t, e.Manage.PutSkips(ctx, []core.Skip{longer}))
	b.Last, b.Count, b.Made = longer.Last, longer.Count, longer.Made
	read(0, 100, a, c, b)
	read(35, 36, b)
}

func changes(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	of := func(app string, job core.JobID, id int64) core.Change {
		return core.Change{ID: id, At: base.Add(time.Duration(id) * time.Second), By: "ann", Verb: "paused", App: app, Job: job,
			Why: fmt.Sprint(id)}
	}
	all := []core.Change{of("a", 1, 10), of("a", 0, 20), of("b", 2, 30), of("", 0, 40), of("a", 1, 50), of("a", 3, 60)}
	createApps(t, e, "a", "b")
	all = append(all, core.Change{ID: 1, At: base, App: "a"}, core.Change{ID: 1, At: base, App: "b"})
	ok(t, e.Manage.PutChanges(ctx, []core.Change{all[3], all[0], all[4]}))
	ok(t, e.Manage.PutChanges(ctx, []core.Change{all[5], all[1], all[2]}))
	ok(t, e.Manage.PutChanges(ctx, all[:1])) // a repeat
	read := func(app string, job core.JobID, limit int, want ...int) {
		t.Helper()
		eventually(t, h, func() string {
			got, err := e.Manage.Changes(ctx, app, job, math.MaxInt64, limit)
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
			got, err := e.Manage.Changes(ctx, c.app, c.job, c.last, c.limit)
			ok(t, err)
			return cmp.Diff(c.want, got, cmpopts.EquateEmpty())
		})
	}

	// Changes without a job differ by name: two channels are deleted in one millisecond.
	mail := core.Change{ID: 95, At: base, By: "ann", Verb: core.VerbDeleted, Name: "mail", Old: "{}"}
	oncall := mail
	oncall.Name = "oncall"
	ok(t, e.Manage.PutChanges(ctx, []core.Change{mail, oncall}))
	ok(t, e.Manage.PutChanges(ctx, []core.Change{mail, oncall})) // a repeat
	eventually(t, h, func() string {
		got, err := e.Manage.Changes(ctx, "", 0, math.MaxInt64, 2)
		ok(t, err)
		return cmp.Diff([]core.Change{mail, oncall}, got, cmpopts.SortSlices(func(a, b core.Change) bool { return a.Name < b.Name }))
	})

	// Two users act in one millisecond, and a third changes the job.
	first, second, edited := of("d", 4, 70), of("d", 4, 70), of("d", 4, 70)
	first.Verb, first.New = core.VerbTriggered, `{"run":"1"}`
	second.Verb, second.New = core.VerbTriggered, `{"run":"2"}`
	ok(t, e.Manage.PutChanges(ctx, []core.Change{first, edited}))
	ok(t, e.Manage.PutChanges(ctx, []core.Change{second}))
	ok(t, e.Manage.PutChanges(ctx, []core.Change{first, second, edited})) // a repeat
	for app, job := range map[string]core.JobID{"d": 0, "": 4} {
		eventually(t, h, func() string {
			got, err := e.Manage.Changes(ctx, app, job, math.MaxInt64, 10)
			ok(t, err)
			return cmp.Diff([]core.Change{edited, first, second}, got,
				cmpopts.SortSlices(func(a, b core.Change) bool { return a.Verb+a.New < b.Verb+b.New }))
		})
	}
}

// appPauses: the store keeps the latest pauses of an app.
func appPauses(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	b := anApp
	b.Pause = core.Pause{From: base, To: base.Add(time.Hour)}
	ok(t, e.Manage.PutApp(ctx, 0, b, core.Change{ID: b.Rev, At: base, Verb: "created", App: "orders"}))
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
		ok(t, e.Manage.PutApp(ctx, seen, b, core.Change{ID: b.Rev, At: base, Verb: "paused", App: "orders"}))
		b.Past = want
		same(t, "app with its pauses", readApp(t, e, "orders"), &b)
	}
}

// appDeleted: an app that has a job cannot be deleted; with an app its executors go, and its jobs cannot be created.
func appDeleted(t *testing.T, h Harness) {
	e, ctx, ch := h.Open(t), t.Context(), core.Change{ID: 5, At: base, By: "ann", Verb: "created", App: "orders"}
	ok(t, e.Manage.PutApp(ctx, 0, anApp, ch))
	createJobs(t, e, job(1))
	refused(t, e.Manage.DeleteApp(ctx, 5, "orders", ch))
	ok(t, e.Manage.DeleteJob(ctx, 100, core.Tombstone{Job: 1, App: "orders", Name: "job-1", Rev: 101, RevAt: base}, change(job(1), 101)))
	ok(t, e.Registry.PutExecutor(ctx, core.Executor{App: "orders", Address: "http://10.0.0.1:9999/", Beat: base, Since: base}))
	ok(t, e.Manage.DeleteApp(ctx, 5, "orders", core.Change{ID: 6, At: base, Verb: "deleted", App: "orders"}))
	same(t, "deleted app", readApp(t, e, "orders"), nil)
	left, err := e.Dispatch.Executors(ctx, []string{"orders"})
	ok(t, err)
	same(t, "executors of a deleted app", left["orders"], nil)
	answers(t, e.Manage.CreateJobs(ctx, []core.Job{job(2)}, nil), "refused") // read before its app was deleted
	ok(t, e.Manage.PutApp(ctx, 0, anApp, ch))
	createJobs(t, e, job(2))
}

// globalPast: the store keeps a pause of everything when another one takes its place.
func globalPast(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	g := core.Global{Pause: core.Pause{From: base, By: "ann", Why: "freeze"}, Rev: 1}
	ok(t, e.Tick.PutGlobal(ctx, 0, g))
	g.Rev, g.Pause = 2, core.Pause{From: base.Add(time.Hour), By: "bob"}
	for range 2 {
		ok(t, e.Manage.PutGlobal(ctx, g.Rev-1, g))
		got, err := e.Dispatch.Global(ctx)
		ok(t, err)
		want := g
		want.Past = core.PauseHistory{Pauses: []core.Pause{{From: base, To: base.Add(time.Hour)}}} // it had no end
		same(t, "global", got, want)
		g.Rev++
	}
}

// renewals: a lease is renewed whatever its end is. The earlier holder renews no lease that was taken or released.
func renewals(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	a := core.Lease{Name: "partition/0", Owner: "a", Epoch: 1, Until: base}
	ok(t, e.Leases.PutLease(ctx, core.Lease{}, a))
	renewed, back := a, a
	renewed.Until, back.Owner = base.Add(time.Minute), ""
	ok(t, e.Leases.PutLease(ctx, a, renewed))
	ok(t, e.Leases.PutLease(ctx, a, renewed))
	ok(t, e.Leases.PutLease(ctx, renewed, back))
	refused(t, e.Leases.PutLease(ctx, a, renewed))
	got, err := e.Leases.Leases(ctx)
	ok(t, err)
	same(t, "released lease", got, []core.Lease{back})
	ok(t, e.Leases.PutLease(ctx, back, core.Lease{Name: a.Name, Owner: "b", Epoch: 2, Until: base}))
	refused(t, e.Leases.PutLease(ctx, a, renewed))
}

func counters(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	type span struct{ first, n int }
	var spans []span
	for _, n := range []int{1, 5, 1, 100} {
		first, err := e.Manage.NewJobIDs(ctx, n)
		ok(t, err)
		spans = append(spans, span{int(first), n})
	}
	apart := func() {
		t.Helper()
		for i, a := range spans {
			if a.first < 0 {
				t.Fatalf("number %d", a.first)
			}
			for _, b := range spans[:i] {
				if a.first < b.first+b.n && b.first < a.first+a.n {
					t.Fatalf("numbers were given twice: %+v", spans)
				}
			}
		}
	}
	apart()
	if spans[0].first < 1 {
		t.Fatalf("job number %d", spans[0].first)
	}
	spans = nil
	for _, n := range []int{1, 7, 1} {
		first, err := e.Finish.Numbers(ctx, 3, n)
		ok(t, err)
		spans = append(spans, span{int(first), n})
	}
	apart()
}

func keys(t *testing.T, h Harness) {
	e, ctx := h.Open(t), t.Context()
	put := func(job core.JobID, key string, run, want core.RunID) {
		t.Helper()
		got, err := e.Manage.PutKey(ctx, job, key, run)
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

// listTombstones: tombstones come in the order of their numbers, however many digits those
// have, and a page with fewer than the limit is the last.
func listTombstones(t *testing.T, e *engine.Engine, first core.Tombstone) {
	t.Helper()
	ctx := t.Context()
	want := []core.Tombstone{first}
	for _, id := range []core.JobID{90, 1000, 211} {
		allNil(t, e.Manage.CreateJobs(ctx, []core.Job{job(id)}, []core.Change{change(job(id), 100)}))
		stone := core.Tombstone{Job: id, App: "orders", Name: job(id).Def.Name, Rev: 200, RevAt: base.Add(time.Second)}
		ok(t, e.Manage.DeleteJob(ctx, 100, stone, change(job(id), 200)))
		want = append(want, stone)
	}
	slices.SortFunc(want, func(a, b core.Tombstone) int { return int(a.Job - b.Job) })
	for _, size := range []int{1, 2, 3, 100} {
		var got []core.Tombstone
		for after := core.JobID(0); ; {
			page, err := e.Manage.ListTombstones(ctx, after, size)
			ok(t, err)
			got = append(got, page...)
			if len(page) < size {
				break
			}
			after = page[len(page)-1].Job
		}
		same(t, "listed tombstones", got, want)
	}
}
