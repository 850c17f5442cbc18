package query_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

func sum(c query.AuditCount) string {
	text := fmt.Sprintf("demanded %d, on time %d, late %d (%s), skipped %v, pending %d, unaccounted %d",
		c.Demanded, c.OnTime, c.Late, c.Worst, c.Skipped, c.Pending, c.Unaccounted)
	if c.Overdue > 0 {
		text += fmt.Sprintf(", overdue %d", c.Overdue)
	}
	if c.OutOfReach > 0 {
		text += fmt.Sprintf(", out of reach %d", c.OutOfReach)
	}
	return text
}

func TestAudit(t *testing.T) {
	job := manage.Target{Job: "shop/sweep"}
	at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
	for name, c := range map[string]struct {
		do   func(f *fixture, j core.Job)
		want string
	}{
		"all ran, one late": {func(f *fixture, j core.Job) {
			for i := 10; i <= 100; i += 10 {
				late := 20 * time.Millisecond
				if i == 50 {
					late = 7900 * time.Millisecond
				}
				f.Ran(j.Def.ID, at(i), late)
			}
			f.Clock = at(105).Time()
		}, "demanded 10, on time 9, late 1 (7.9s), skipped map[], pending 0, unaccounted 0"},
		"one lost": {func(f *fixture, j core.Job) {
			for i := 10; i <= 100; i += 10 {
				if i != 20 { // planned when the job was created
					f.Ran(j.Def.ID, at(i), 0)
				}
			}
			f.Clock = at(105).Time()
			f.PushNext(j.Def.ID, at(110))
		}, "demanded 10, on time 9, late 0 (0s), skipped map[], pending 0, unaccounted 1"},
		"a run beats a record": {func(f *fixture, j core.Job) {
			f.Ran(j.Def.ID, at(30), 0)
			f.E.PutSkips(ctx, []core.Skip{{Job: j.Def.ID, First: at(10), Last: at(100), Count: 10, Reason: core.ReasonMisfire}})
			f.Clock = at(105).Time()
		}, "demanded 10, on time 1, late 0 (0s), skipped map[misfire:9], pending 0, unaccounted 0"},
		"paused and resumed": {func(f *fixture, j core.Job) {
			f.Ran(j.Def.ID, at(10), 0)
			f.Ran(j.Def.ID, at(20), 0)
			f.PushNext(j.Def.ID, at(30))
			f.Clock = at(25).Time()
			f.M.Pause(ctx, ann, job, manage.PauseRequest{})
			f.Clock = at(70).Time()
			f.M.Resume(ctx, ann, job, "")
			for i := 80; i <= 100; i += 10 {
				f.Ran(j.Def.ID, at(i), 0)
			}
			f.Clock = at(105).Time()
		}, "demanded 5, on time 5, late 0 (0s), skipped map[], pending 0, unaccounted 0"},
		"edited under a backlog": {func(f *fixture, j core.Job) {
			f.PushNext(j.Def.ID, at(20)) // 10 was sent and is lost
			f.Clock = at(45).Time()
			f.Save(spec("sweep", every(30*time.Second))) // 20, 30, 40 changed; then 60, 90
			f.Ran(j.Def.ID, at(60), 0)
			f.PushNext(j.Def.ID, at(90))
			f.Clock = at(200).Time()
		}, "demanded 6, on time 1, late 0 (0s), skipped map[changed:3], pending 1, unaccounted 1"},
		"deleted": {func(f *fixture, j core.Job) {
			f.Ran(j.Def.ID, at(10), 0)
			f.PushNext(j.Def.ID, at(20))
			f.Clock = at(35).Time()
			f.M.Delete(ctx, ann, "shop/sweep", nil)
			f.Clock = at(105).Time()
		}, "demanded 3, on time 1, late 0 (0s), skipped map[deleted:2], pending 0, unaccounted 0"},
		"app paused twice, everything once": {func(f *fixture, j core.Job) {
			f.Clock = at(5).Time()
			f.M.Pause(ctx, ann, manage.Target{App: "shop"}, manage.PauseRequest{}) // 10
			f.Clock = at(15).Time()
			f.M.Resume(ctx, ann, manage.Target{App: "shop"}, "")
			f.Ran(j.Def.ID, at(20), 0)
			f.Clock = at(25).Time()
			f.M.Pause(ctx, ann, manage.Target{All: true}, manage.PauseRequest{}) // 30, 40
			f.Clock = at(45).Time()
			f.M.Resume(ctx, ann, manage.Target{All: true}, "")
			f.Ran(j.Def.ID, at(50), 0)
			f.Clock = at(60).Time()
			f.M.Pause(ctx, ann, manage.Target{App: "shop"}, manage.PauseRequest{}) // from 60 on
			f.Clock = at(105).Time()
		}, "demanded 2, on time 2, late 0 (0s), skipped map[], pending 0, unaccounted 0"},
		"still in the plan": {func(f *fixture, j core.Job) { f.Clock = at(105).Time() },
			"demanded 10, on time 0, late 0 (0s), skipped map[], pending 10, unaccounted 0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			j := f.Create(spec("sweep", every(10*time.Second)))
			f.PushNext(j.Def.ID, at(10)) // as if planning had not happened
			f.Quiet()
			c.do(f, j)
			r, err := f.M.Audit(ctx, j.Def.ID.String(), at(0), at(100))
			if err != nil || sum(r.AuditCount) != c.want || r.Partial || r.Next != 0 {
				t.Errorf("%s (%v, partial %t)\nwant %s, missing %v", sum(r.AuditCount), err, r.Partial, c.want, r.Missing)
			}
			all, err := f.M.AuditAll(ctx, at(0), at(100))
			if err != nil || sum(all.AuditCount) != c.want || all.Jobs != 1 {
				t.Errorf("all: %s in %d jobs (%v)", sum(all.AuditCount), all.Jobs, err)
			}
		})
	}
}

func TestAuditOfAFixedDelay(t *testing.T) {
	delay := core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: 10 * time.Second}}}
	f := newFixture(t)
	j := f.Create(spec("poll", delay))
	f.Quiet()
	base := core.InstantOf(start)
	chain := func(at core.Instant, took time.Duration) core.Instant {
		id := core.PlannedRun(j.Def.ID, at)
		r := core.Run{ID: id, App: "shop", State: core.Succeeded, Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1, First: id,
			FixedDelay: true, SentAt: at.Time(), EndedAt: at.Time().Add(took), Rev: j.Sched.Rev}
		if err := f.E.CreateRuns(ctx, []core.Run{r})[0]; err != nil {
			t.Fatal(err)
		}
		return core.Ceil(r.EndedAt).Add(10 * time.Second)
	}
	at := j.Sched.Next
	for range 5 {
		at = chain(at, 1500*time.Millisecond)
	}
	set := func(next core.Instant, tail core.RunID) {
		f.PushNext(j.Def.ID, next, tail)
	}
	last := core.PlannedRun(j.Def.ID, at-12)
	f.Clock = (at + 300).Time()
	for name, c := range map[string]struct {
		next core.Instant
		tail core.RunID
		want string
	}{
		"planned":       {at, 0, "demanded 6, on time 5, late 0 (0s), skipped map[], pending 1, unaccounted 0"},
		"out":           {at, core.PlannedRun(j.Def.ID, at), "demanded 6, on time 5, late 0 (0s), skipped map[], pending 1, unaccounted 0"},
		"to be moved":   {at - 12, last, "demanded 6, on time 5, late 0 (0s), skipped map[], pending 1, unaccounted 0"},
		"stands still":  {at - 12, 0, "demanded 6, on time 5, late 0 (0s), skipped map[], pending 0, unaccounted 1"},
		"later than to": {base + 9000, 0, "demanded 5, on time 5, late 0 (0s), skipped map[], pending 0, unaccounted 0"},
	} {
		set(c.next, c.tail)
		r, err := f.M.Audit(ctx, "shop/poll", base, at+100)
		if err != nil || sum(r.AuditCount) != c.want {
			t.Errorf("%s: %s %v", name, sum(r.AuditCount), err)
		}
	}
	set(at, 0)
	chain(at+60, time.Second) // 60 s later than expected
	set(at+90, 0)
	r, err := f.M.Audit(ctx, "shop/poll", base, at+80)
	if err != nil || r.Unaccounted != 1 || len(r.Missing) != 1 || r.Missing[0] != at {
		t.Errorf("a gap: %s %v %v", sum(r.AuditCount), r.Missing, err)
	}

	// The tick found no run of at-12, recorded it as skipped and continued; then a late message ran it anyway.
	skip := core.Skip{Job: j.Def.ID, First: at - 12, Last: at - 12, Count: 1, Reason: core.ReasonDeadline, Made: (at - 6).Time()}
	check.OK(t, f.E.PutSkips(ctx, []core.Skip{skip})[0])
	r, err = f.M.Audit(ctx, "shop/poll", base, at+80)
	if err != nil || r.Unaccounted != 0 {
		t.Errorf("went on from a record beside the run: %s %v %v", sum(r.AuditCount), r.Missing, err)
	}
}

// TestAuditOfAnEditByAClockBehind checks a chain that continued with the old delay, before an edit with a slow clock.
// The time from the new delay is not expected.
func TestAuditOfAnEditByAClockBehind(t *testing.T) {
	every := func(d time.Duration) core.Schedule {
		return core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: d}}}
	}
	f := newFixture(t)
	j := f.Create(spec("poll", every(3*time.Second)))
	f.Quiet()
	first := j.Sched.Next
	old := j.Sched.Rev
	put := func(at core.Instant, rev int64) core.RunID {
		id := core.PlannedRun(j.Def.ID, at)
		r := core.Run{ID: id, App: "shop", State: core.Succeeded, Cause: core.CauseSchedule, At: at, Slot: at, Attempt: 1, First: id,
			FixedDelay: true, SentAt: at.Time(), EndedAt: at.Time().Add(80 * time.Millisecond), Rev: rev}
		if err := f.E.CreateRuns(ctx, []core.Run{r})[0]; err != nil {
			t.Fatal(err)
		}
		return id
	}
	put(first, old)
	f.Clock = first.Time().Add(-500 * time.Millisecond) // by the editor's clock; the run has ended
	f.PushNext(j.Def.ID, first+4)
	f.Save(spec("poll", every(2*time.Second)))
	rev := f.Job("shop/poll").Sched.Rev
	put(first+4, rev)
	f.PushNext(j.Def.ID, first+7, core.PlannedRun(j.Def.ID, first+7))
	f.Clock = (first + 300).Time()
	r, err := f.M.Audit(ctx, "shop/poll", core.InstantOf(start), first+100)
	if err != nil || r.Unaccounted != 0 || r.OnTime != 2 {
		t.Errorf("%s %v %v", sum(r.AuditCount), r.Missing, err)
	}
}

// Over random edits and pauses, the audit expects the same runs as a model that checks each second.
func TestAuditAgainstAModel(t *testing.T) {
	type now struct {
		schedule     time.Duration
		paused, gone bool
		app, all     bool
	}
	rapid.Check(t, func(rt *rapid.T) {
		f := newFixture(t)
		period := func() time.Duration {
			return time.Duration(rapid.SampledFrom([]int{1, 2, 3, 7, 10}).Draw(rt, "period")) * time.Second
		}
		type moment struct {
			at time.Time // applies after it for jobs, from it on for pauses
			now
		}
		first := period()
		j := f.Create(spec("sweep", every(first)))
		f.Fires()
		state := now{schedule: first}
		story := []moment{{f.Clock, state}}
		target := manage.Target{Job: "shop/sweep"}
		ops := rapid.IntRange(0, 12).Draw(rt, "ops")
		check := func(err error) {
			check.OK(rt, err)
		}
		for range ops {
			f.Clock = f.Clock.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "wait")) * time.Millisecond)
			if rapid.IntRange(0, 4).Draw(rt, "full") == 0 {
				f.Clock = core.Ceil(f.Clock).Time()
			}
			if state.gone {
				continue
			}
			switch rapid.SampledFrom([]string{"edit", "pause", "resume", "pause app", "resume app", "pause all", "resume all", "delete"}).Draw(rt,
				"op") {
			case "edit":
				state.schedule = period()
				check(f.Save(spec("sweep", every(state.schedule)))[0].Err)
			case "pause":
				_, err := f.M.Pause(ctx, ann, target, manage.PauseRequest{})
				check(err)
				state.paused = true
			case "resume":
				_, err := f.M.Resume(ctx, ann, target, "")
				check(err)
				state.paused = false
			case "pause app":
				_, err := f.M.Pause(ctx, ann, manage.Target{App: "shop"}, manage.PauseRequest{})
				check(err)
				state.app = true
			case "resume app":
				_, err := f.M.Resume(ctx, ann, manage.Target{App: "shop"}, "")
				check(err)
				f.Resumed()
				state.app = false
			case "pause all":
				_, err := f.M.Pause(ctx, ann, manage.Target{All: true}, manage.PauseRequest{})
				check(err)
				state.all = true
			case "resume all":
				_, err := f.M.Resume(ctx, ann, manage.Target{All: true}, "")
				check(err)
				f.Resumed()
				state.all = false
			case "delete":
				if rapid.IntRange(0, 3).Draw(rt, "really") != 0 {
					break
				}
				_, err := f.M.Delete(ctx, ann, "shop/sweep", nil)
				check(err)
				state.gone = true
			}
			story = append(story, moment{f.Clock, state})
		}
		from := core.InstantOf(start) + core.Instant(rapid.IntRange(-5, 40).Draw(rt, "from"))
		to := from + core.Instant(rapid.IntRange(1, 200).Draw(rt, "to"))
		f.Clock = f.Clock.Add(time.Hour)
		f.Quiet()

		planned, revAt := core.Horizon, f.Clock // the first scheduled time that is not planned
		if !state.gone {
			if s := f.Job("shop/sweep").Sched; s.State == core.Started && s.Next != 0 {
				planned, revAt = s.Next, s.RevAt
			}
		}
		skips := f.Skips(j.Def.ID)
		want := query.AuditCount{}
		var missing []core.Instant
		for at := from + 1; at <= to; at++ {
			// The job as of the last change before at, the pauses as of the last change up to at.
			var job, pause *now
			for i := range story {
				if story[i].at.Before(at.Time()) {
					job = &story[i].now
				}
				if !story[i].at.After(at.Time()) {
					pause = &story[i].now
				}
			}
			if job == nil || job.paused || job.gone || pause.app || pause.all || int64(at)%int64(job.schedule/time.Second) != 0 {
				continue
			}
			want.Demanded++
			covered := core.Reason("")
			for _, s := range skips {
				if s.Covers(at) {
					covered = s.Reason
				}
			}
			switch fate := rapid.IntRange(0, 2).Draw(rt, "fate"); {
			case fate == 0:
				f.Ran(j.Def.ID, at, 0)
				want.OnTime++
			case fate == 1:
				f.Ran(j.Def.ID, at, 3*time.Second)
				want.Late++
				want.Worst = 3 * time.Second
			case covered != "":
				if want.Skipped == nil {
					want.Skipped = map[core.Reason]int64{}
				}
				want.Skipped[covered]++
			case at >= planned && at.Time().After(revAt):
				want.Overdue++ // not planned for an hour
			default:
				want.Unaccounted++
				missing = append(missing, at)
			}
		}
		r, err := f.M.Audit(ctx, j.Def.ID.String(), from, to)
		if err != nil || sum(r.AuditCount) != sum(want) || r.Partial || !maps.Equal(r.Skipped, want.Skipped) {
			rt.Fatalf("%s (%v, partial %t)\nwant %s\nmissing %v, want %v\nfrom %s to %s, story %+v\nskips %+v", sum(r.AuditCount), err, r.Partial,
				sum(want),
				r.Missing, missing, from, to, story, skips)
		}
	})
}

func TestAuditRefuses(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", every(time.Minute)))
	for _, c := range []struct {
		job      string
		from, to core.Instant
		code     core.Code
	}{{"shop/sweep", 1800000000, 1800000000, core.CodeInvalid}, {"shop/sweep", 5, 1800000000, core.CodeInvalid},
		{"shop/none", 1800000000, 1800000001, core.CodeNotFound}, {"77", 1800000000, 1800000001, core.CodeNotFound}} {
		if _, err := f.M.Audit(ctx, c.job, c.from, c.to); code(err) != c.code {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A long span is reported in pages.
func TestAuditGoesOn(t *testing.T) {
	for n, want := range map[core.Instant]int{budget.Demanded: 1, budget.Demanded + 1: 2, 5 * budget.Demanded / 2: 3} {
		f := newFixture(t)
		j := f.Create(spec("sweep", every(time.Second)))
		base := core.InstantOf(start)
		f.Quiet()
		f.Clock = f.Clock.Add(6 * 24 * time.Hour)
		var total int64
		pages := 0
		for from := base; from != 0; pages++ {
			r, err := f.M.Audit(ctx, j.Def.ID.String(), from, base+n)
			check.OK(t, err)
			total += r.Demanded
			from = r.Next
		}
		if total != int64(n) || pages > want || pages < want-1 { // a full page can be the last one
			t.Errorf("%d of %d instants in %d pages, want %d", total, n, pages, want)
		}
	}
}

// TestAuditBehindManyChanges checks that an audit reads the newest change records of a job, and reports if there were
// more.
func TestAuditBehindManyChanges(t *testing.T) {
	for between, partial := range map[int]bool{budget.History - 2: false, budget.History - 1: true, 3 * budget.History: true} {
		f := newFixture(t)
		f.Clock = f.Clock.Add(time.Minute)
		s := spec("sweep", every(time.Hour))
		j := f.Create(s)
		list := make([]core.Change, between)
		for i := range list {
			at := f.Clock.Add(time.Duration(i+1) * time.Millisecond)
			list[i] = core.Change{ID: core.Millis(at), At: at, App: "shop", Job: j.Def.ID, Verb: core.VerbTriggered, By: "ann"}
		}
		check.OK(t, f.E.PutChanges(ctx, list))
		f.Clock = f.Clock.Add(time.Hour)
		s.Def.Title = "changed"
		f.Save(s)
		base := core.InstantOf(start)
		if r, err := f.M.Audit(ctx, "shop/sweep", base+30, base+600); err != nil || r.Partial != partial {
			t.Errorf("%d records between: partial %t, %v", between, r.Partial, err)
		}
	}
}

// TestAuditNamesSomeAndCountsAll checks that a report counts all missing scheduled times, and lists some.
func TestAuditNamesSomeAndCountsAll(t *testing.T) {
	for _, n := range []int{budget.Missing, budget.Missing + 1, 10 * budget.Missing} {
		f := newFixture(t)
		j := f.Create(spec("sweep", every(time.Second)))
		base := core.InstantOf(start)
		f.Fires()
		f.Quiet()
		f.PushNext(j.Def.ID, base+core.Instant(n)+2)
		f.Clock = f.Clock.Add(3 * time.Hour)
		r, err := f.M.Audit(ctx, j.Def.ID.String(), base, base+core.Instant(n))
		if err != nil || r.Unaccounted != int64(n) || len(r.Missing) != budget.Missing {
			t.Errorf("%d are missing: %d counted, %d named, %v", n, r.Unaccounted, len(r.Missing), err)
		}
	}
}
