package query_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"pgregory.net/rapid"
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

// behind stores a running run of a job, and a run that waits for its slot.
func (f *fixture) behind(job core.JobID, at core.Instant, change func(works *core.Run)) {
	f.T.Helper()
	works, waits := newRun(planned(job, at+10), core.Running, at+10), newRun(planned(job, at+20), core.Queued, at+20)
	works.Permit, waits.Permit = "job/"+job.String(), "job/"+job.String()
	works.SentAt, works.Address, works.Owner, works.Until = works.At.Time(), "http://a", "o", works.At.Time().Add(30*time.Second)
	if change != nil {
		change(&works)
	}
	f.Put(works, waits)
	item := core.Permits{Name: waits.Permit, V: 1, Limit: 1, Holders: []core.Holder{{First: works.ID}}, Queue: []core.RunID{waits.ID}}
	check.OK(f.T, f.E.PutPermits(ctx, []core.Permits{item})[0])
}

// TestAuditOfManyJobsThatWait audits several jobs in parallel, each with waiting runs whose limits are read. The race
// detector finds unlocked maps.
func TestAuditOfManyJobsThatWait(t *testing.T) {
	f := newFixture(t)
	at := core.InstantOf(start)
	for i := range 8 {
		j := f.Create(spec(fmt.Sprint("sweep", i), every(10*time.Second)))
		f.PushNext(j.Def.ID, at+20)
		f.behind(j.Def.ID, at, nil)
	}
	f.Quiet()
	f.Clock = start.Add(2 * time.Hour)
	all, err := f.M.AuditAll(ctx, at, at+20)
	if err != nil || all.Demanded != 16 || all.Pending != 8 || all.Overdue != 0 {
		t.Errorf("%+v (%v)", all.AuditCount, err)
	}
}
