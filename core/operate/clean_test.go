package operate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
)

// hourly stores a job that ran each hour.
func (f *fixture) hourly(name string, hours int) core.Job {
	f.T.Helper()
	j := f.Create(spec(name, every(time.Hour)))
	f.Fires()
	f.Quiet()
	at := core.InstantOf(f.Clock)/3600*3600 + 3600
	for range hours {
		f.Clock = at.Time().Add(20 * time.Millisecond)
		f.Ran(j.Def.ID, at, 0)
		at += 3600
	}
	f.PushNext(j.Def.ID, at)
	f.Clock = f.Clock.Add(time.Minute)
	return j
}

// cleaned runs all pages of a clean-up and returns the sums.
func (f *fixture) cleaned(q operate.CleanRequest) (cleaned, held int64) {
	f.T.Helper()
	for range 1000 {
		res, err := f.M.Clean(ctx, ann, q)
		if err != nil || res.Failed != nil {
			f.T.Fatalf("%+v: %v", q, err)
		}
		cleaned, held = cleaned+res.Cleaned, held+res.Held
		if q.After = res.Next; q.After == "" {
			return cleaned, held
		}
	}
	f.T.Fatal("it has no end")
	return 0, 0
}

// left returns how many runs of a job are stored.
func (f *fixture) left(job core.JobID) int {
	f.T.Helper()
	first, last := core.RunRange(job, 0, core.Horizon)
	list, err := f.E.Runs.Span(ctx, first, last, 10000)
	must(f.T, err)
	low, high := core.NumberedRange(job)
	more, err := f.E.Runs.Span(ctx, low, high, 10000)
	must(f.T, err)
	return len(list) + len(more)
}

// succeeded returns a run with a number that was sent at once and succeeded.
func (f *fixture) succeeded(job core.JobID, n uint32) core.Run {
	r := newRun(numbered(job, n), core.Succeeded, core.InstantOf(f.Clock))
	r.SentAt, r.EndedAt, r.Address = f.Clock, f.Clock.Add(time.Second), "a"
	return r
}

// TestCleanFails: runs deleted before a failure are reported, and a repeated call goes on.
func TestCleanFails(t *testing.T) {
	f := newFixture(t)
	j := f.hourly("sweep", 300)
	f.Faults.At = f.Faults.N + 150
	res, err := f.M.Clean(ctx, ann, operate.CleanRequest{Job: "shop/sweep"})
	if err != nil || res.Failed == nil || res.Cleaned == 0 || res.Next == "" || int(res.Cleaned) != 300-f.left(j.Def.ID) {
		t.Fatalf("%+v, %v; %d left", res, err, f.left(j.Def.ID))
	}
	f.Faults.At = 0
	c, _ := f.cleaned(operate.CleanRequest{Job: "shop/sweep", After: res.Next})
	if left := f.left(j.Def.ID); left != 24 || c+res.Cleaned != 276 {
		t.Errorf("%d and %d went, %d left", res.Cleaned, c, left)
	}
}

// TestCleanKeepsTheLastSuccess: if a job pauses after failures, its last success stays. This is
// the latest end among the newest successes.
func TestCleanKeepsTheLastSuccess(t *testing.T) {
	for n, stays := range map[int]bool{budget.Successes: true, budget.Successes + 1: false, 3 * budget.Successes: false} {
		f := newFixture(t)
		s := spec("sweep", every(time.Hour))
		s.Def.PauseAfter = 3
		j := f.Create(s)
		f.Fires()
		f.Clock = f.Clock.Add(time.Hour)
		list := make([]core.Run, n)
		for i := range list {
			list[i] = f.succeeded(j.Def.ID, uint32(i+1))
			list[i].PauseAfter, list[i].Rev = true, j.Sched.Rev
		}
		list[0].EndedAt = f.Clock.Add(time.Minute)
		f.Put(list...)
		f.Clock = f.Clock.Add(48 * time.Hour)
		cleaned, held := f.cleaned(operate.CleanRequest{Job: "shop/sweep"})
		found := f.Runs(list[0].ID)
		if int(cleaned) != n-1 || held != 1 || (len(found) == 1) != stays {
			t.Errorf("of %d: %d went, %d stay, the one that ended last: %t", n, cleaned, held, len(found) == 1)
		}
	}
}

// TestCleanGoesOnWithItsOwn: a forged start of a page cannot select more runs.
func TestCleanGoesOnWithItsOwn(t *testing.T) {
	f := newFixture(t)
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "pay"}))
	s := spec("ledger", every(time.Hour))
	s.Def.App = "pay"
	f.Create(s)
	old := func(app string, job core.JobID) {
		t.Helper()
		for n := range uint32(3) {
			r := f.succeeded(job, n+1)
			r.App = app
			f.Put(r)
		}
	}
	pay := f.Job("pay/ledger").Def.ID
	shop := f.Create(spec("sweep", every(time.Hour))).Def.ID
	gone := f.Create(spec("gone", every(time.Hour))).Def.ID
	f.Fires()
	old("pay", pay)
	old("shop", shop)
	old("shop", gone)
	f.Clock = f.Clock.Add(48 * time.Hour)
	f.Delete("shop/gone")
	low, high := core.NumberedRange(pay)
	within := fmt.Sprintf("%d-%d", low-1, high)
	for _, q := range []operate.CleanRequest{{App: "shop"}, {Job: "shop/sweep"}} {
		for _, after := range []string{fmt.Sprintf("%d.1.", pay), fmt.Sprintf("%d.0.%s", pay, within), fmt.Sprintf("%d.7.%s", pay, within),
			fmt.Sprintf("%d.0.%s", shop, within), fmt.Sprintf("%d.1.", gone), fmt.Sprintf("%d.1.", 77)} {
			for _, q.DryRun = range []bool{true, false} {
				q.After = after
				res, err := f.M.Clean(ctx, ann, q)
				if q.Job != "" && core.CodeOf(err) != core.CodeInvalid || q.App != "" && err != nil && core.CodeOf(err) != core.CodeInvalid ||
					q.DryRun && res.Cleaned+res.Held > 3 {
					t.Errorf("%+v: %+v, %v", q, res, err)
				}
			}
			if upTo, err := f.E.Cleaned(ctx, pay); err != nil || f.left(pay) != 3 || f.left(gone) != 3 || upTo != 0 {
				t.Fatalf("%+v: %d of pay are left, %d of the deleted app; cleaned up to %s, %v", q, f.left(pay), f.left(gone), upTo, err)
			}
		}
	}
	if c, h := f.cleaned(operate.CleanRequest{Job: "pay/ledger"}); c != 3 || h != 0 {
		t.Errorf("%d cleaned, %d held", c, h)
	}
}

// TestCleanIsWrittenDown: a record names the user, the job and how many runs were deleted, also
// for a deleted job or after the caller disconnected. A dry run leaves no record.
func TestCleanIsWrittenDown(t *testing.T) {
	f := newFixture(t)
	f.hourly("sweep", 30)
	other := f.hourly("other", 30)
	f.Clock = f.Clock.Add(24 * time.Hour)
	cleaned := func(q query.ChangeFilter) (says string) {
		t.Helper()
		q.Verb = core.VerbCleaned
		page, err := f.M.Changes(ctx, q)
		must(t, err)
		for _, c := range page.Changes {
			says += fmt.Sprintf("%s %s/%s %s;", c.By, c.App, c.Name, c.New)
		}
		return says
	}
	f.cleaned(operate.CleanRequest{App: "shop", DryRun: true})
	check.Equal(t, cleaned(query.ChangeFilter{}), "", "of a dry run")
	f.cleaned(operate.CleanRequest{App: "shop", Keep: 25})
	check.Equal(t, cleaned(query.ChangeFilter{Job: "shop/sweep"}), `ann shop/sweep {"cleaned":5};`)
	f.Clock = f.Clock.Add(24 * time.Hour)
	f.Delete("shop/other")
	at, leave := context.WithCancel(ctx)
	m := f.Fresh(&faults{Store: hook.Over(f.E, func(_ context.Context, c *hook.Call, next func() []error) []error {
		if c.PutRun != nil {
			defer leave() // the caller, once a run is deleted
		}
		return next()
	})})
	if res, err := m.Clean(at, ann, operate.CleanRequest{Job: other.Def.ID.String()}); err != nil || res.Cleaned != 1 || res.Failed == nil {
		t.Fatalf("%+v, %v", res, err)
	}
	want := `ann shop/other {"cleaned":1};ann shop/other {"cleaned":5};`
	check.Equal(t, cleaned(query.ChangeFilter{Job: "shop/other"}), want)
}
