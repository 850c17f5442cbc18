package tick_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/core/tick/partitioning"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

var must = check.OK

// world is an engine with some tickers, each called once a second.
type world struct {
	t       *testing.T
	eng     *fixture.Store
	s       *store.Store // a copy of the engine's store, which the tickers use
	tickers map[string]*tick.Ticker

	partitions int
}

func newWorld(t *testing.T, partitions int) *world {
	t.Helper()
	// No run has an ID of a time as early as the start of a bubble.
	time.Sleep(time.Until(time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC))) // fake time
	eng := fixture.New(t, memory.Options{})
	must(t, eng.PutGlobal(t.Context(), 0, core.Global{Partitions: partitions, Readable: partitions, Rev: 1}))
	s := *eng.Store
	return &world{t: t, eng: eng, s: &s, tickers: map[string]*tick.Ticker{}, partitions: partitions}
}

func (w *world) join(id string, o tick.Options) {
	o.ID = id
	if o.Plan == (plan.Options{}) {
		o.Plan = plan.Local()
	}
	w.tickers[id] = tick.New(w.s, o)
}

// pass lets a second pass and runs all tickers.
func (w *world) pass() {
	w.t.Helper()
	time.Sleep(time.Second) // fake time
	for id, t := range w.tickers {
		if _, err := t.Pass(w.t.Context()); err != nil {
			w.t.Fatalf("%s: %v", id, err)
		}
	}
}

// seed creates jobs with a schedule, all in partition 0.
func (w *world) seed(n int, when core.When) { w.seedAs(n, when, plan.Local()) }

func (w *world) seedAs(n int, when core.When, o plan.Options) {
	w.t.Helper()
	now := time.Now()
	var jobs []store.JobPut
	for i := range n {
		j := core.Job{Def: core.Def{ID: core.JobID(i + 1), App: "app", Name: fmt.Sprint("j", i), Handler: "h"}}
		j.Normalize()
		j.Sched.ID, j.Sched.App, j.Sched.Rev, j.Sched.RevAt = j.Def.ID, "app", now.UnixMilli(), now
		j.Sched.Schedule = core.Schedule{Any: []core.When{when}}
		sch, err := schedule.Compile(j.Sched.Schedule, j.Def.ID)
		must(w.t, err)
		j.Sched = plan.Start(j.Sched, sch, o)
		j.Sched.Partition = core.PartitionOf(j.Def.ID, w.partitions)
		jobs = append(jobs, store.JobPut{Create: &j, Changes: []core.Change{{ID: j.Sched.Rev, At: now, App: "app", Job: j.Def.ID}}})
	}
	w.eng.App("app")
	must(w.t, w.eng.Jobs.Put(w.t.Context(), jobs)...)
}

// ringIDs empties the delay queue and returns its runs.
func (w *world) ringIDs() []core.RunID {
	w.t.Helper()
	var ids []core.RunID
	for got := w.eng.Due(ring.KindFires); got != nil; got = w.eng.Due(ring.KindFires) {
		for _, f := range got[0].Message.Fires {
			ids = append(ids, f.Run)
		}
		w.eng.Ack(got...)
	}
	return ids
}

// TestPartitionsGrowUnderLoad: a partition above its rate for long is split, jobs move, and none misses a scheduled
// time.
func TestPartitionsGrowUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		const jobs = 60
		w.seed(jobs, core.When{Kind: core.KindEvery, Every: time.Second, Aligned: true})
		from := core.InstantOf(time.Now()) + 1
		// Each job advances about once in 5 s: 12 a second, above a rate of 5.
		w.join("a", tick.Options{Rates: partitioning.Rates{Max: 4, Advance: 5}})
		w.join("b", tick.Options{Rates: partitioning.Rates{Max: 4, Advance: 5}})
		seen := map[core.RunID]bool{}
		for range 240 {
			w.pass()
			for _, id := range w.ringIDs() {
				seen[id] = true
			}
		}
		g, err := w.eng.Global(t.Context())
		if err != nil || g.Partitions != 4 {
			t.Fatalf("partitions: %+v, %v", g, err)
		}
		to := core.InstantOf(time.Now()) - 10
		for j := range jobs {
			for at := from; at <= to; at++ {
				if !seen[core.PlannedRun(core.JobID(j+1), at)] {
					t.Fatalf("job %d has no fire at %s", j+1, at)
				}
			}
		}
		var where []int
		for p := range 4 {
			items, err := w.eng.Jobs.Due(t.Context(), p, core.Horizon, core.DueItem{}, 1000)
			must(t, err)
			where = append(where, len(items))
		}
		if slices.Contains(where, 0) || slices.Max(where) > jobs/2 {
			t.Errorf("jobs by partition: %v", where)
		}
	})
}

// TestPartitionsShrink: when fewer partitions are needed, the others are read until they are empty and all tickers
// know, and then dropped.
func TestPartitionsShrink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.seed(40, core.When{Kind: core.KindEvery, Every: 2 * time.Second, Aligned: true})
		w.join("a", tick.Options{Rates: partitioning.Rates{Max: 4, ShrinkAfter: 20 * time.Second, StableFor: 10 * time.Second}})
		for range 18 {
			w.pass()
		}
		if g, err := w.eng.Global(t.Context()); err != nil || g.Partitions != 4 {
			t.Fatalf("before the need is known: %+v, %v", g, err)
		}
		seen := map[core.RunID]bool{}
		from := core.InstantOf(time.Now()) + 10
		for range 60 {
			w.pass()
			for _, id := range w.ringIDs() {
				seen[id] = true
			}
		}
		g, err := w.eng.Global(t.Context())
		if err != nil || g.Partitions != 1 || g.Readable != 1 {
			t.Errorf("after shrinking: %+v, %v", g, err)
		}
		for j := range 40 {
			for at := from + from%2; at < from+40; at += 2 {
				if !seen[core.PlannedRun(core.JobID(j+1), at)] {
					t.Fatalf("job %d has no fire at %s", j+1, at)
				}
			}
		}
	})
}

// TestOneBadJobHoldsUpNobody: a job that cannot be planned is postponed with its error, and tried again.
func TestOneBadJobHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(3, core.When{Kind: core.KindEvery, Every: time.Second, Aligned: true})
		day := "a" + strings.Repeat("é", 10) + strings.Repeat(`"`, 40) + strings.Repeat("x", 200) // an é is at the cut of the stored text
		w.eng.Edit(2, func(j *core.Job) {
			j.Sched.Rev++
			j.Sched.Schedule.Any = []core.When{{Kind: core.KindCron, Expr: "0 0 0 " + day + " * ?"}}
		})
		w.join("a", tick.Options{})
		for range 10 {
			w.pass()
		}
		byJob := map[core.JobID]int{}
		for _, id := range w.ringIDs() {
			byJob[id.Job()]++
		}
		if byJob[1] < 5 || byJob[3] < 5 || byJob[2] != 0 {
			t.Errorf("fires by job: %v", byJob)
		}
		s := w.eng.JobOf(2).Sched
		if s.PlanError == "" || s.PlanAt <= core.InstantOf(time.Now()) {
			t.Errorf("the bad job: %+v", s)
		}
		if why := s.PlanError; !utf8.ValidString(why) || len(why) < ring.MaxWhy-utf8.UTFMax || len(why) > ring.MaxWhy {
			t.Errorf("the reason has %d bytes: %q", len(why), why)
		}
	})
}

// TestClaimedTail: a run of a fixed delay was claimed before its job changed. It is sent again under the new revision
// when its owner cannot send any more: its own message is dropped, and nothing else would bring it.
func TestClaimedTail(t *testing.T) {
	for _, c := range []struct {
		name  string
		older int64         // how much older the claim's revision is than the job's
		until time.Duration // from now
		again bool
	}{
		{"before the change, its owner dead", 1, -time.Second, true},
		{"before the change, its owner alive", 1, time.Hour, false},
		{"after it, its owner dead: its message takes it over", 0, -time.Second, false},
	} {
		fixture.Bubble(t, c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.seed(1, core.When{Kind: core.KindFixedDelay, Every: time.Minute})
			at, s := core.InstantOf(time.Now()), w.eng.JobOf(1).Sched
			tail := core.PlannedRun(1, at)
			move := s.Stay()
			move.NewNext, move.NewTail, move.NewPlanAt = at, tail, at
			must(t, w.eng.Advance(t.Context(), []core.Advance{move})[0])
			claimed := core.Run{ID: tail, First: tail, App: "app", State: core.Running, Cause: core.CauseSchedule, Rev: s.Rev - c.older, At: at,
				Slot: at, Owner: "gone", Until: time.Now().Add(c.until), FixedDelay: true}
			w.eng.Create(claimed)
			w.join("a", tick.Options{})
			w.pass()
			if sent := slices.Contains(w.ringIDs(), tail); sent != c.again {
				t.Errorf("sent again: %t, want %t", sent, c.again)
			}
		})
	}
}

// TestTailWithoutRuns: a run of a fixed delay that was never stored is sent again. If retention may have deleted it,
// the job continues instead.
func TestTailWithoutRuns(t *testing.T) {
	const never, moved, again = "never sent, the tail stays", "never sent, the job goes on", "sent again"
	retry := core.NumberedRun(1, 1)
	for _, c := range []struct {
		name  string
		age   time.Duration
		first *core.Run // nil: it is not stored
		want  string
	}{
		{"young", time.Hour, nil, again},
		{"old", 31 * 24 * time.Hour, nil, moved},
		{"retry owed", 31 * 24 * time.Hour, &core.Run{Then: retry, Owes: []core.Owed{{Run: retry, Kind: core.CauseRetry}}}, never},
		{"retry forgotten", 31 * 24 * time.Hour, &core.Run{Then: retry}, moved},
	} {
		fixture.Bubble(t, c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.seed(1, core.When{Kind: core.KindFixedDelay, Every: time.Minute})
			at := core.InstantOf(time.Now().Add(time.Minute))
			tail := core.PlannedRun(1, at)
			move := w.eng.JobOf(1).Sched.Stay()
			move.NewNext, move.NewTail, move.NewPlanAt = at, tail, at.Add(10*time.Minute)
			must(t, w.eng.Advance(t.Context(), []core.Advance{move})[0])
			if c.first != nil {
				c.first.ID, c.first.First, c.first.State, c.first.EndedAt = tail, tail, core.Failed, time.Now()
				c.first.App, c.first.Cause = "app", core.CauseSchedule
				w.eng.Create(*c.first)
			}
			time.Sleep(c.age) // without passes
			w.join("a", tick.Options{})
			w.pass()
			if ids := w.ringIDs(); slices.Contains(ids, tail) != (c.want == again) {
				t.Errorf("after the first pass: sent %v", ids)
			}
			if c.first == nil && w.eng.JobOf(1).Sched.Tail != tail {
				t.Error("its message may be there, and the first pass gave it up")
			}
			for range 15 * 60 {
				w.pass()
			}
			sent := slices.Contains(w.ringIDs(), tail)
			if sent != (c.want == again) || (w.eng.JobOf(1).Sched.Tail != tail) != (c.want == moved) {
				t.Errorf("sent: %t, tail %d; want it %s", sent, w.eng.JobOf(1).Sched.Tail, c.want)
			}
			skips, err := w.eng.Skips(t.Context(), 1, at, at)
			if want := c.want == moved && c.first == nil; err != nil || (len(skips) == 1) != want {
				t.Errorf("records of its instant: %+v, %v", skips, err)
			}
		})
	}
}

// enqueued returns the messages that the tickers enqueue from now on.
func (w *world) enqueued() *[]ring.Out {
	list := &[]ring.Out{}
	w.s = hook.Over(w.s, func(_ context.Context, c *hook.Call, next func() []error) []error {
		*list = append(*list, c.Out...)
		return next()
	})
	return list
}

// TestLeadTimeOfABurst: the lead time grows with the runs that a ticker has enqueued for a due time, page by page. A
// single run has almost none.
func TestLeadTimeOfABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		out := w.enqueued()
		o := plan.Local()
		o.LeadTime = plan.AWS().LeadTime
		o.LeadTime.Every, o.LeadTime.Few = 10, 1
		at := core.InstantOf(time.Now()) + 7
		var jobs []store.JobPut
		for id := core.JobID(1); id <= 26; id++ {
			next := at
			if id == 26 {
				next++ // the single run
			}
			j := core.Job{Def: core.Def{ID: id, App: "a", Name: "j" + id.String(), Handler: "h"}}
			j.Sched.Rev, j.Sched.RevAt = 1, time.Now()
			j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindAt, At: next}}}
			j.Normalize()
			sch, err := schedule.Compile(j.Sched.Schedule, id)
			must(t, err)
			j.Sched = plan.Start(j.Sched, sch, o)
			jobs = append(jobs, store.JobPut{Create: &j, Changes: []core.Change{{ID: 1, App: "a", Job: id}}})
		}
		w.eng.App("a")
		must(t, w.eng.Jobs.Put(t.Context(), jobs)...)
		tick := tick.New(w.s, tick.Options{ID: "a", Plan: o, Page: 9})
		for range 8 {
			check.Call(t)(tick.Pass(t.Context()))
			time.Sleep(time.Second) // fake time
		}
		fires, most := 0, time.Duration(0)
		for _, m := range *out {
			lead := m.Message.Slot.Time().Sub(m.NotBefore)
			if m.Message.Slot == at+1 {
				if lead != o.LeadTime.LonelyMin {
					t.Errorf("the lead time of the single one is %s", lead)
				}
				continue
			}
			fires += len(m.Message.Fires)
			if want := o.LeadTime.Of(at, fires); lead != want {
				t.Errorf("with %d fires in its slot the lead time of a message is %s, want %s", fires, lead, want)
			}
			most = max(most, lead)
		}
		if fires != 25 || most != 3*time.Second {
			t.Errorf("%d fires, the longest lead time %s", fires, most)
		}
	})
}

// TestGroupsGrow: if more jobs end their windows together than a group allows, more groups are made. No job loses a
// scheduled time or fires twice.
func TestGroupsGrow(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		fixture.Bubble(t, fmt.Sprint(partitions), func(t *testing.T) {
			w := newWorld(t, partitions)
			o := plan.AWS()
			o.Window, o.PlanAhead, o.MaxAhead, o.GroupEvery = 60*time.Second, 20*time.Second, 120*time.Second, 20
			out := w.enqueued()
			const jobs = 100
			w.seed(jobs, core.When{Kind: core.KindEvery, Every: 5 * time.Second, Aligned: true})
			for _, id := range []string{"a", "b"} {
				w.tickers[id] = tick.New(w.s, tick.Options{ID: id, Plan: o, Page: 17})
			}
			from := core.InstantOf(time.Now()) + 5
			from += 4 - (from+4)%5
			last, grew := 0, 0
			for range 400 {
				w.pass()
				g, err := w.eng.Global(t.Context())
				must(t, err)
				if g.Groups < last {
					t.Fatalf("%d groups after %d", g.Groups, last)
				}
				if g.Groups > last {
					last = g.Groups
					grew++
				}
			}
			if last < 4 || last > 10 || grew > 4 {
				t.Errorf("100 jobs came to %d groups of 20 in %d steps", last, grew)
			}
			seen := map[core.RunID]int{}
			for _, m := range *out {
				for _, f := range m.Message.Fires {
					seen[f.Run]++
				}
			}
			for j := range jobs {
				for at := from; at < core.InstantOf(time.Now()); at += 5 {
					if n := seen[core.PlannedRun(core.JobID(j+1), at)]; n != 1 {
						t.Fatalf("job %d has %d fires at %s", j+1, n, at)
					}
				}
			}
		})
	}
}

// TestFewJobsMakeNoGroups: jobs that fit into two groups need no third. On one machine there is a group for each second
// of a window.
func TestFewJobsMakeNoGroups(t *testing.T) {
	o := plan.AWS()
	for started, want := range map[int]int{0: 2, 3999: 2, 4000: 3, 19_999: 10, 10_000_000: 660} {
		if got := o.GroupsFor(started); got != want {
			t.Errorf("%d jobs make %d groups, want %d", started, got, want)
		}
	}
	if got := plan.Local().GroupsFor(1_000_000); got != 5 {
		t.Errorf("on one machine %d groups", got)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(60, core.When{Kind: core.KindEvery, Every: time.Second, Aligned: true})
		w.join("a", tick.Options{})
		for range 60 {
			w.pass()
		}
		if g, err := w.eng.Global(t.Context()); err != nil || g.Groups != 0 {
			t.Errorf("%d groups, %v", g.Groups, err)
		}
	})
}

// TestEntryOfATriggerPutOff: a stale due index shows an old entry of a trigger. The run is sent at its new entry, which
// stays until then.
func TestEntryOfATriggerPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		now := core.InstantOf(time.Now())
		w.eng.App("one")
		w.eng.Job(core.Job{Def: core.Def{ID: 7, App: "one", Name: "j", Handler: "h"}})
		lead := -plan.Local().PlanAhead
		run := fixture.Trigger("one", core.NumberedRun(7, 1), now.Add(time.Minute))
		old := core.DueItem{PlanAt: now, Job: 7, Run: run.ID}
		must(t, w.eng.Runs.Put(t.Context(),
			[]store.RunPut{{Create: &run, Enter: &core.DueItem{PlanAt: run.Slot.Add(lead), Job: 7, Run: run.ID}}})...)
		w.eng.Enter(t.Context(), []core.DueItem{old})
		w.join("a", tick.Options{})
		depth := func() int { return w.eng.Messages(ring.KindFires) }
		for range 30 {
			w.pass()
		}
		if entries, _ := w.eng.Jobs.Entries(t.Context(), 7); depth() != 0 || len(entries) != 2 {
			t.Errorf("%d messages, entries %+v", depth(), entries)
		}
		for range 31 {
			w.pass()
		}
		if entries, _ := w.eng.Jobs.Entries(t.Context(), 7); depth() == 0 || len(entries) != 0 {
			t.Errorf("%d messages, entries %+v", depth(), entries)
		}
	})
}

// TestRepeatedRetryComesOnTheSlowLane checks that repeated retries use the slow queue, also from the due index.
func TestRepeatedRetryComesOnTheSlowLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lane := range []bool{true, false} {
			w := newWorld(t, 1)
			w.seed(1, core.When{Kind: core.KindEvery, Every: time.Hour})
			now := core.InstantOf(time.Now())
			var runs []core.Run
			var entries []core.DueItem
			for attempt := 2; attempt <= 5; attempt++ {
				r := core.Run{ID: core.NumberedRun(1, uint32(attempt)), App: "app", State: core.Planned, Cause: core.CauseRetry, Rev: 1, At: now,
					Slot: now, Attempt: attempt, First: core.PlannedRun(1, now)}
				runs, entries = append(runs, r), append(entries, core.DueItem{PlanAt: now, Job: 1, Run: r.ID})
			}
			must(t, append(w.eng.CreateRuns(t.Context(), runs), w.eng.Enter(t.Context(), entries)...)...)
			o := plan.Local()
			o.SlowLane = lane
			w.join("a", tick.Options{Plan: o})
			w.pass()
			fast, _ := w.eng.Depth(ring.KindFires)
			slow, _ := w.eng.Depth(ring.KindSlow)
			if want := map[bool]int{true: 2}[lane]; slow != want || fast != 4-want {
				t.Errorf("a slow lane: %t: %d on the fast lane, %d on the slow one", lane, fast, slow)
			}
		}
	})
}

// TestResumedIntoAPartitionThatIsRead: a paused job is in no partition of the due index, so the number of partitions
// may shrink below its own.
func TestResumedIntoAPartitionThatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann, target, o := core.Actor{Name: "ann"}, manage.Target{Job: "shop/j"}, plan.Local()
		w := newWorld(t, 32)
		end := finish.New(w.eng.Store, finish.Options{Plan: o})
		m := people.New(w.eng.Store, end, nil, people.Options{Plan: o})
		check.Call(t)(m.SaveApp(t.Context(), ann, manage.AppSpec{Name: "shop"}))
		job := manage.JobSpec{Def: core.Def{App: "shop", Name: "j", Handler: "h"},
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute, Aligned: true}}}}
		check.OK(t, m.Save(t.Context(), ann, []manage.JobSpec{job})[0].Err)
		if w.eng.JobOf(1).Sched.Partition == 0 {
			t.Fatal("it is in the first partition anyway")
		}
		check.Call(t)(m.Pause(t.Context(), ann, target, manage.PauseRequest{}))
		g, err := w.eng.Global(t.Context())
		must(t, err)
		seen := g.Rev
		g.Partitions, g.Readable, g.Rev = 1, 1, seen+1
		must(t, w.eng.PutGlobal(t.Context(), seen, g))
		check.Call(t)(m.Resume(t.Context(), ann, target, ""))
		w.join("t", tick.Options{})
		time.Sleep(2 * time.Minute) // fake time
		before := w.eng.JobOf(1).Sched.Next
		w.pass()
		if after := w.eng.JobOf(1).Sched.Next; after == before {
			t.Errorf("it stands still at %s in partition %d", after, w.eng.JobOf(1).Sched.Partition)
		}
	})
}
