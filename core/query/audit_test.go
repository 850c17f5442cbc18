package query_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// sum returns the nonzero numbers of an audit.
func sum(c query.AuditCount) string {
	text := fmt.Sprintf("demanded %d, on time %d", c.Demanded, c.OnTime)
	if c.Worst > 0 {
		text += fmt.Sprintf(", late %d (%s)", c.Late, c.Worst)
	}
	if len(c.Skipped) > 0 {
		text += fmt.Sprintf(", skipped %v", c.Skipped)
	}
	for _, part := range []struct {
		name string
		n    int64
	}{{"pending", c.Pending}, {"unaccounted", c.Unaccounted}, {"overdue", c.Overdue}, {"out of reach", c.OutOfReach}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %d", part.name, part.n)
		}
	}
	return text
}

// audited checks the audit of the only job and of all jobs, and returns both.
func (f *fixture) audited(job core.JobID, from, to core.Instant, want string) (query.AuditReport, query.AuditSum) {
	f.T.Helper()
	r, err := f.Audit(job.String(), from, to)
	if err != nil || sum(r.AuditCount) != want {
		f.T.Errorf("%s (%v)\nwant %s, missing %v", sum(r.AuditCount), err, want, r.Missing)
	}
	all, err := f.M.AuditAll(ctx, from, to)
	if err != nil || sum(all.AuditCount) != want {
		f.T.Errorf("all: %s (%v)\nwant %s", sum(all.AuditCount), err, want)
	}
	return r, all
}

// TestAuditOfAPlan checks that runs that are still to be planned are pending. TestAuditAgainstAModel has the rest.
func TestAuditOfAPlan(t *testing.T) {
	f := newFixture(t)
	id := f.Create(spec("sweep", every(10*time.Second))).Def.ID
	at := core.InstantOf(start)
	f.PushNext(id, at+10) // as if planning had not happened
	f.Quiet()
	f.Clock = (at + 105).Time()
	f.audited(id, at, at+100, "demanded 10, on time 0, pending 10")
}

// delayed stores a run of a job with a fixed delay.
func (f *fixture) delayed(job core.JobID, at core.Instant, took time.Duration, rev int64) core.Run {
	f.T.Helper()
	r := newRun(planned(job, at), core.Succeeded, at)
	r.FixedDelay, r.SentAt, r.EndedAt, r.Rev = true, at.Time(), at.Time().Add(took), rev
	f.Put(r)
	return r
}

func TestAuditOfAFixedDelay(t *testing.T) {
	delay := core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: 10 * time.Second}}}
	f := newFixture(t)
	j := f.Create(spec("poll", delay))
	f.Quiet()
	base := core.InstantOf(start)
	chain := func(at core.Instant, took time.Duration) core.Instant {
		return core.Ceil(f.delayed(j.Def.ID, at, took, j.Sched.Rev).EndedAt).Add(10 * time.Second)
	}
	at := j.Sched.Next
	for range 5 {
		at = chain(at, 1500*time.Millisecond)
	}
	last := planned(j.Def.ID, at-12)
	f.Clock = (at + 300).Time()
	for name, c := range map[string]struct {
		next core.Instant
		tail core.RunID
		want string
	}{
		"planned":       {at, 0, "demanded 6, on time 5, pending 1"},
		"out":           {at, planned(j.Def.ID, at), "demanded 6, on time 5, pending 1"},
		"to be moved":   {at - 12, last, "demanded 6, on time 5, pending 1"},
		"stands still":  {at - 12, 0, "demanded 6, on time 5, unaccounted 1"},
		"later than to": {base + 9000, 0, "demanded 5, on time 5"},
	} {
		f.PushNext(j.Def.ID, c.next, c.tail)
		r, err := f.Audit("shop/poll", base, at+100)
		if err != nil || sum(r.AuditCount) != c.want {
			t.Errorf("%s: %s %v", name, sum(r.AuditCount), err)
		}
	}
	f.PushNext(j.Def.ID, at)
	chain(at+60, time.Second) // 60 s later than expected
	f.PushNext(j.Def.ID, at+90)
	r, err := f.Audit("shop/poll", base, at+80)
	if err != nil || r.Unaccounted != 1 || len(r.Missing) != 1 || r.Missing[0] != at {
		t.Errorf("a gap: %s %v %v", sum(r.AuditCount), r.Missing, err)
	}

	// The tick found no run of at-12, recorded it as skipped and continued; then a late message ran it anyway.
	skip := core.Skip{Job: j.Def.ID, First: at - 12, Last: at - 12, Count: 1, Reason: core.ReasonDeadline, Made: (at - 6).Time()}
	check.OK(t, f.E.PutSkips(ctx, []core.Skip{skip})[0])
	r, err = f.Audit("shop/poll", base, at+80)
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
	f.delayed(j.Def.ID, first, 80*time.Millisecond, j.Sched.Rev)
	f.Clock = first.Time().Add(-500 * time.Millisecond) // by the editor's clock; the run has ended
	f.PushNext(j.Def.ID, first+4)
	f.Save(spec("poll", every(2*time.Second)))
	f.delayed(j.Def.ID, first+4, 80*time.Millisecond, f.Job("shop/poll").Sched.Rev)
	f.PushNext(j.Def.ID, first+7, planned(j.Def.ID, first+7))
	f.Clock = (first + 300).Time()
	r, err := f.Audit("shop/poll", core.InstantOf(start), first+100)
	if err != nil || r.Unaccounted != 0 || r.OnTime != 2 {
		t.Errorf("%s %v %v", sum(r.AuditCount), r.Missing, err)
	}
}

// Over random edits and pauses, the audit expects the same runs as a model that checks each second.
func TestAuditAgainstAModel(t *testing.T) {
	type now struct {
		schedule time.Duration
		gone     bool
		paused   [3]bool // by target
	}
	targets := [3]manage.Target{{Job: "shop/sweep"}, {App: "shop"}, {All: true}}
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
		for range rapid.IntRange(0, 12).Draw(rt, "ops") {
			f.Clock = f.Clock.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "wait")) * time.Millisecond)
			if rapid.IntRange(0, 4).Draw(rt, "full") == 0 {
				f.Clock = core.Ceil(f.Clock).Time()
			}
			if state.gone {
				continue
			}
			var err error
			i := rapid.IntRange(0, len(targets)-1).Draw(rt, "target")
			switch op := rapid.SampledFrom([]string{"edit", "pause", "pause", "resume", "resume", "delete"}).Draw(rt, "op"); op {
			case "edit":
				state.schedule = period()
				err = f.Save(spec("sweep", every(state.schedule)))[0].Err
			case "pause":
				_, err = f.M.Pause(ctx, ann, targets[i], manage.PauseRequest{})
				state.paused[i] = true
			case "resume":
				if _, err = f.M.Resume(ctx, ann, targets[i], ""); i > 0 {
					f.Resumed()
				}
				state.paused[i] = false
			case "delete":
				if rapid.IntRange(0, 3).Draw(rt, "really") == 0 {
					_, err = f.M.Delete(ctx, ann, "shop/sweep", nil)
					state.gone = true
				}
			}
			check.OK(rt, err)
			story = append(story, moment{f.Clock, state})
		}
		from := core.InstantOf(start) + core.Instant(rapid.IntRange(-5, 40).Draw(rt, "from"))
		to := from + core.Instant(rapid.IntRange(1, 200).Draw(rt, "to"))
		f.Clock = f.Clock.Add(time.Hour)
		f.Quiet()

		next, revAt := core.Horizon, f.Clock // the first scheduled time that is not planned
		if !state.gone {
			if s := f.Job("shop/sweep").Sched; s.State == core.Started && s.Next != 0 {
				next, revAt = s.Next, s.RevAt
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
			if job == nil || job.paused[0] || job.gone || pause.paused[1] || pause.paused[2] || int64(at)%int64(job.schedule/time.Second) != 0 {
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
			case at >= next && at.Time().After(revAt):
				want.Overdue++ // not planned for an hour
			default:
				want.Unaccounted++
				missing = append(missing, at)
			}
		}
		r, err := f.Audit(j.Def.ID.String(), from, to)
		all, aerr := f.M.AuditAll(ctx, from, to)
		missing = missing[:min(len(missing), budget.Missing)]
		if err = errors.Join(err, aerr); err != nil || sum(r.AuditCount) != sum(want) || r.Partial || !slices.Equal(r.Missing, missing) ||
			sum(all.AuditCount) != sum(want) {
			rt.Fatalf("%s (%v, partial %t), all %s\nwant %s\nmissing %v, want %v\nfrom %s to %s, story %+v\nskips %+v", sum(r.AuditCount), err,
				r.Partial, sum(all.AuditCount), sum(want), r.Missing, missing, from, to, story, skips)
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
		fails(t, c.code, "%+v", c)(f.Audit(c.job, c.from, c.to))
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
		ask := query.AuditAsk{Job: j.Def.ID.String(), From: base, To: base + n}
		check.Call(t)(f.M.Lost(ctx, ask, 0, func(_ *budget.Page, reports []query.AuditReport) error {
			for i := range reports {
				total, pages = total+reports[i].Demanded, pages+1
			}
			return nil
		}))
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
		if r, err := f.Audit("shop/sweep", base+30, base+600); err != nil || r.Partial != partial {
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
		r, err := f.Audit(j.Def.ID.String(), base, base+core.Instant(n))
		if err != nil || r.Unaccounted != int64(n) || len(r.Missing) != budget.Missing {
			t.Errorf("%d are missing: %d counted, %d named, %v", n, r.Unaccounted, len(r.Missing), err)
		}
	}
}
