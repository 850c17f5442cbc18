package operate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// ended stores a failed run of a job.
func (f *fixture) ended(job core.Job, at core.Instant) core.Run {
	f.T.Helper()
	r := newRun(planned(job.Def.ID, at), core.Failed, at)
	r.Reason, r.Rev = core.ReasonHandler, job.Sched.Rev
	r.SentAt, r.EndedAt, r.Address = at.Time(), at.Time().Add(time.Second), "http://10.0.0.1:9999"
	f.Put(r)
	return r
}

// TestRerunGoesOn: each call covers some runs and the next continues, until each was covered
// once.
func TestRerunGoesOn(t *testing.T) {
	for n, want := range map[int]int{budget.Reran: 1, budget.Reran + 1: 2, 3 * budget.Reran: 3} {
		f := newFixture(t)
		j := f.Create(spec("sweep", every(time.Hour)))
		f.Clock = f.Clock.Add(time.Hour)
		for i := range n {
			f.ended(j, core.InstantOf(f.Clock)-3000+core.Instant(i))
		}
		looked, pages := 0, 0
		for filter := (query.RunFilter{Job: "shop/sweep", Failed: true}); ; {
			res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Filter: filter, DryRun: true})
			if err != nil || len(res.Runs) > budget.Reran {
				t.Fatalf("%d in one call, %v", len(res.Runs), err)
			}
			looked += len(res.Runs)
			pages++
			if filter.After = res.Next; res.Next == "" {
				break
			}
		}
		if looked != n || pages != want {
			t.Errorf("%d of %d runs in %d calls, want %d", looked, n, pages, want)
		}
	}
}

// TestRerunBehindManyRequests: only the newest requests for a job are read for earlier reruns. A
// run that ended before them is skipped; a later one is rerun.
func TestRerunBehindManyRequests(t *testing.T) {
	const read = budget.RerunPages * query.MaxPage
	texts := golden.New(t)
	for between, why := range map[int]string{read - 1: "already rerun", read: "too old", 3 * read: "too old"} {
		f := newFixture(t)
		j := f.Create(spec("sweep", every(time.Hour)))
		f.Clock = f.Clock.Add(time.Hour)
		old := f.ended(j, core.InstantOf(f.Clock)-1000)
		check.Call(t)(f.M.Rerun(ctx, ann, operate.RerunRequest{Run: old.ID.String()}))
		list := make([]core.Change, between)
		for i := range list {
			at := f.Clock.Add(time.Duration(i+1) * time.Second)
			list[i] = core.Change{ID: core.Millis(at), At: at, App: "shop", Job: j.Def.ID, Verb: core.VerbTriggered, By: "ann"}
		}
		must(t, f.E.PutChanges(ctx, list))
		f.Clock = f.Clock.Add(48 * time.Hour)
		f.ended(j, core.InstantOf(f.Clock)-1000)
		res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Filter: query.RunFilter{Job: "shop/sweep", Failed: true}, DryRun: true})
		if err != nil || len(res.Runs) != 2 {
			t.Fatalf("%+v, %v", res, err)
		}
		for _, x := range res.Runs {
			if x.Of.ID == old.ID {
				texts.Equal(t, why, fmt.Sprint(x.Why))
			} else if x.Why != nil {
				t.Errorf("%d records between, run %d: %v", between, x.Of.ID, x.Why)
			}
		}
	}
}
