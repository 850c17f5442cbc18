package operate_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// TestReplanOfAllThatWaitWithANumber: each waiting run is sent again once, with any number of
// newer runs of the job and any page size.
func TestReplanOfAllThatWaitWithANumber(t *testing.T) {
	for name, c := range map[string]struct {
		waiting int
		pageFor time.Duration
	}{
		"at the bound": {budget.Again - 1, time.Minute}, "one beyond": {budget.Again, time.Minute},
		"far beyond": {3 * budget.Again, time.Minute}, "short pages": {budget.Again, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			j := f.Create(spec("sweep", every(time.Hour)))
			other := f.Create(spec("other", every(time.Hour)))
			f.Quiet()
			f.Fires()
			now := core.InstantOf(f.Clock)
			const closed = 2500
			for i := range c.waiting + closed {
				state := core.Planned
				if i >= c.waiting {
					state = core.Succeeded
				}
				f.numbered(j.Def.ID, i+1, state, now)
			}
			last, want := f.numbered(other.Def.ID, 1, core.Planned, now), int64(c.waiting)+1
			res, err := f.inAWS(f.E, c.pageFor).Replan(ctx, ann, "", now-900, 0)
			if err != nil || res.Sent != want || res.Missing != want || res.Jobs != 2 {
				t.Errorf("%+v %v, want %d of 2 jobs", res, err, want)
			}
			got := f.sent()
			for n := range c.waiting {
				if id := numbered(j.Def.ID, uint32(n+1)); got[id] != 1 {
					t.Fatalf("run %s is %d times on the ring", id, got[id])
				}
			}
			check.Equal(t, got[last], 1, "the job behind it was not checked")
		})
	}
}

// TestReplanReadsNumbersNoFurtherThanARetryCanWait: after a page of runs that are older than any
// retry can wait, no further page is read.
func TestReplanReadsNumbersNoFurtherThanARetryCanWait(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Hour)))
	f.Quiet()
	old := core.InstantOf(f.Clock.Add(-core.MaxDelay - time.Hour))
	for i := range 3000 {
		f.numbered(j.Def.ID, i+1, core.Succeeded, old)
	}
	reads := 0
	s := hook.Over(f.E, func(_ context.Context, c *hook.Call, next func() []error) []error {
		if c.Span && c.Ends[1] < c.Ends[0] { // of runs with numbers
			reads++
		}
		return next()
	})
	if _, err := f.inAWS(s, 0).Replan(ctx, ann, "", core.InstantOf(f.Clock)-900, 0); err != nil || reads != 1 {
		t.Errorf("numbers were read %d times: %v", reads, err)
	}
}

// numbered stores a run with a number.
func (f *fixture) numbered(job core.JobID, n int, state core.State, slot core.Instant) core.RunID {
	f.T.Helper()
	id := numbered(job, uint32(n))
	r := newRun(id, state, slot)
	r.Cause, r.Attempt = core.CauseRetry, 2
	f.Put(r)
	return id
}

// TestOneJobHoldsUpNoOther: heal, replan and audit name a job with an unreadable schedule, and go
// on to their end.
func TestOneJobHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.Quiet()
	bad := f.Create(spec("bad", every(10*time.Second)))
	good := f.Create(spec("good", every(10*time.Second)))
	at := core.InstantOf(start)
	f.Clock = at.Time().Add(5 * time.Second)
	f.PushNext(good.Def.ID, at+40)
	seen := bad.Sched.Rev
	bad.Sched.Rev++
	bad.Sched.Schedule.Any[0] = core.When{Kind: core.KindCron, Expr: "0 0 0 * * ?"}
	bad.Sched.Schedule.Timezone = "Mars/Olympus" // as if the time zone data had lost it
	must(t, f.E.Jobs.Put(ctx, []store.JobPut{{Update: &store.JobUpdate{Seen: seen, Job: bad}}})[0])
	named := func(what string, failed []string, err error) {
		t.Helper()
		if err != nil || len(failed) != 1 || !strings.HasPrefix(failed[0], "shop/bad: ") {
			t.Errorf("%s passed over %q: %v", what, failed, err)
		}
	}
	r, err := f.M.Replan(ctx, ann, "", at, 0)
	named("replan", r.Failed, err)
	sum, err := f.M.AuditAll(ctx, at, at+100)
	named("audit", sum.Failed, err)
	if r.Jobs != 1 || r.Sent != 3 || sum.Jobs != 1 || sum.Demanded == 0 {
		t.Errorf("of the other: %+v, %+v", r, sum)
	}
	fails(t, core.CodeInternal, "asked for alone")(f.M.Replan(ctx, ann, "shop/bad", at, 0))
	f.lost(core.Loss{From: at})
	sent, err := f.M.Heal(ctx)
	if sent != 3 || err == nil || !strings.Contains(err.Error(), "shop/bad") {
		t.Errorf("the scan sent %d: %v", sent, err)
	}
	if g, err := f.E.Global(ctx); err != nil || g.Loss.From != 0 {
		t.Errorf("the scan has not ended: %+v %v", g.Loss, err)
	}
}

// TestUnreadableJobHoldsUpNoOther: the list, audit, replan and heal name the job and go on, even
// if it is the only job.
func TestUnreadableJobHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.Quiet()
	bad := f.Create(spec("bad", every(10*time.Second)))
	good := f.Create(spec("good", every(10*time.Second)))
	at := core.InstantOf(start)
	f.Clock = at.Time().Add(5 * time.Second)
	f.PushNext(good.Def.ID, at+40)
	for _, jobs := range [][]core.JobID{{bad.Def.ID}, {bad.Def.ID, good.Def.ID}} {
		m := f.Fresh(&faults{Bad: jobs})
		whole := 2 - len(jobs)
		named := func(what string, failed []string, err error) {
			t.Helper()
			if err != nil || len(failed) != len(jobs) || !strings.HasPrefix(failed[0], "job "+bad.Def.ID.String()) ||
				!strings.Contains(failed[0], "no JSON") {
				t.Errorf("%s passed over %q: %v", what, failed, err)
			}
		}
		page, err := m.Jobs(ctx, query.JobFilter{})
		if why := page.Failed[bad.Def.ID]; err != nil || len(page.Failed) != len(jobs) || why == nil ||
			!strings.Contains(why.Error(), "no JSON") || len(page.Jobs) != whole {
			t.Errorf("listed: %+v, %v, %v", page.Jobs, page.Failed, err)
		}
		sum, err := m.AuditAll(ctx, at, at+100)
		named("audit", sum.Failed, err)
		r, err := m.Replan(ctx, ann, "", at, 0)
		if named("replan", r.Failed, err); r.Jobs != whole || sum.Jobs != whole || r.Sent != int64(3*whole) {
			t.Errorf("replan: %+v, audit: %+v", r, sum)
		}
		fails(t, core.CodeRefused, "its app is deleted")(m.DeleteApp(ctx, ann, "shop"))
	}
}

// TestHealReachesRunsThatWait: a purge deletes the messages of runs that wait for an executor or
// a permit, for minutes or months. It also deletes the message of a trigger behind many newer
// runs. Heal sends each of them again, once.
func TestHealReachesRunsThatWait(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Minute)))
	f.Fires()
	f.Quiet()
	now := core.InstantOf(f.Clock)/600*600 + 100*86400
	f.Clock = now.Time()
	wanted := map[core.RunID]int{numbered(j.Def.ID, 1): 1}
	runs := []core.Run{newRun(numbered(j.Def.ID, 1), core.Queued, now-30*86400)}
	for n := range uint32(2500) {
		runs = append(runs, newRun(numbered(j.Def.ID, n+2), core.Succeeded, now-20*86400))
	}
	for _, waited := range []core.Instant{600, 1800, 86400, 99 * 86400} {
		id := planned(j.Def.ID, now-waited)
		runs, wanted[id] = append(runs, newRun(id, core.Queued, now-waited)), 1
	}
	for i := range runs {
		runs[i].Rev = j.Sched.Rev
	}
	f.Put(runs...)
	f.PushNext(j.Def.ID, now+600)
	f.lost(core.Loss{From: now - 60 - 895}) // as lossdetect.Note does for another job
	late, cancel := context.WithTimeout(ctx, 0)
	defer cancel()
	if sent, err := f.M.Heal(late); sent != 0 || err != nil {
		t.Errorf("without time %d are sent: %v", sent, err)
	}
	check.Call(t)(f.M.Heal(ctx))
	got := f.sent()
	maps.DeleteFunc(got, func(id core.RunID, _ int) bool { return wanted[id] == 0 })
	if !maps.Equal(got, wanted) {
		t.Errorf("the scan sends %v again, want %v", got, wanted)
	}
}
