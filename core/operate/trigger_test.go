package operate_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
)

func (f *fixture) entries(job core.JobID) []core.DueItem {
	f.T.Helper()
	list, err := f.E.Jobs.Entries(ctx, job)
	must(f.T, err)
	return list
}

// TestTriggerWithAKeyIsOneRun: after a crash at any step, a repeated request with the key leaves
// one run, on the ring or in the due index.
func TestTriggerWithAKeyIsOneRun(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour} {
		for _, mode := range []faults{{Kill: true}, {Kill: true, After: true}, {}, {After: true}, {Err: core.ErrThrottled},
			{Err: core.ErrRefused, After: true}} {
			for at := 1; ; at++ {
				f := newFixture(t)
				j := f.Create(spec("sweep", core.Schedule{}))
				req := operate.TriggerRequest{Job: "shop/sweep", Key: "order-7", Cause: core.CauseAPI}
				if ahead > 0 {
					when := start.Add(ahead)
					req.At = &when
				}
				w := mode
				w.At = at
				first, err := f.Fresh(&w).Trigger(ctx, ann, req)
				what := fmt.Sprintf("ahead %s, %+v at %s", ahead, mode, w.Last)
				f.M = f.Fresh(&faults{})
				second, err2 := f.M.Trigger(ctx, ann, req)
				if err2 != nil {
					t.Fatalf("%s: %v", what, err2)
				}
				if err == nil && (first.Run.ID != second.Run.ID || !second.Existing) {
					t.Errorf("%s: %d and then %d, existing %t", what, first.Run.ID, second.Run.ID, second.Existing)
				}
				page, err := f.M.Runs(ctx, query.RunFilter{Job: "shop/sweep"})
				if err != nil || len(page.Runs) != 1 || page.Runs[0].ID != second.Run.ID {
					t.Fatalf("%s: runs %+v %v", what, page.Runs, err)
				}
				entries, fires := f.entries(j.Def.ID), f.Fires()
				onRing := slices.ContainsFunc(fires, func(x core.Fire) bool { return x.Run == second.Run.ID })
				if ahead == 0 && !onRing || ahead > 0 && (len(entries) != 1 || onRing) {
					t.Errorf("%s: entries %+v, fires %+v", what, entries, fires)
				}
				if w.Last == "" {
					break
				}
			}
		}
	}
}

// running stores a run that was sent to an address.
func running(f *fixture, id core.RunID, address string) core.Run {
	r := newRun(id, core.Running, core.InstantOf(f.Clock))
	r.Cause, r.Owner, r.Until, r.Address, r.SentAt = core.CauseManual, "me", f.Clock.Add(time.Minute), address, f.Clock
	f.Put(r)
	return r
}

// retry stores a run that retries another in half a minute.
func retry(f *fixture, id, first core.RunID) core.Run {
	r := newRun(id, core.Planned, core.InstantOf(f.Clock)+30)
	r.Cause, r.Attempt, r.First = core.CauseRetry, 2, first
	f.Put(r)
	return r
}

// TestTriggerAddresses: a trigger may name executors of the app and addresses in its allow. No
// other address gets the app's token, and no other function or queue gets its runs.
func TestTriggerAddresses(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", core.Schedule{}))
	token := "shop-executors"
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "shop", Token: &token, Executors: []string{"http://fixed.example:9999/", "queue:own"},
		Allow: []string{"10.0.0.0/24", "fd00::/8"}}))
	must(t, f.E.PutExecutor(ctx, core.Executor{App: "shop", Address: "http://198.51.100.7:9999", Beat: f.Clock, Since: f.Clock}))
	waits, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", At: new(start.Add(time.Hour))})
	must(t, err)
	for address, own := range map[string]bool{
		"http://fixed.example:9999/": true, "http://fixed.example:9999": true, "http://198.51.100.7:9999/": true, "http://10.0.0.7:80": true,
		"https://[fd00::1]:443/x": true, "queue:own": true, "queue:other": false, "queue:arn:aws:sqs:eu-central-1:123456789012:own": false,
		"http://10.0.1.7:80": false, "http://198.51.100.8:9999/": false, "http://fixed.example:9998": false,
		"http://fixed.example.evil.example:9999": false, "https://fixed.example:9999": false, "http://evil.example": false,
		"http://[::ffff:10.0.1.7]": false,
	} {
		_, first := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", Addresses: []string{"http://10.0.0.1", address}})
		_, later := f.M.ChangeTrigger(ctx, ann, waits.Run.ID.String(), operate.TriggerChange{Addresses: &[]string{"http://10.0.0.1", address}})
		for _, err := range []error{first, later} {
			var e *core.Error
			if own != (err == nil) || !own && (!errors.As(err, &e) || e.Code != core.CodeRefused || e.Field != "addresses[1]") {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

// TestKillReachesEachRun: a kill of a job ends its pending retries, and its waiting and running
// runs, with any number of newer runs. A kill that misses some is partial.
func TestKillReachesEachRun(t *testing.T) {
	for name, c := range map[string]struct {
		newer   core.State
		n       uint32
		partial bool
	}{
		"ended": {core.Succeeded, 3 * budget.Killed, false}, "waiting": {core.Queued, 3 * budget.Killed, false},
		"running": {core.Running, budget.Killed - 1, false}, "one more running": {core.Running, budget.Killed, true},
		"many more running": {core.Running, 2 * budget.Killed, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			j := f.Create(spec("sweep", core.Schedule{}))
			again := retry(f, numbered(j.Def.ID, 1), planned(j.Def.ID, core.InstantOf(f.Clock)))
			list := make([]core.Run, c.n)
			for i := range list {
				r := newRun(numbered(j.Def.ID, 10+uint32(i)), c.newer, core.InstantOf(f.Clock))
				if c.newer != core.Queued {
					r.SentAt, r.Address = f.Clock.Add(time.Minute), "http://b"
				}
				if c.newer == core.Running {
					r.Owner, r.Until = "o", f.Clock.Add(time.Hour)
				}
				list[i] = r
			}
			f.Put(list...)
			sent := running(f, numbered(j.Def.ID, 2), "http://a")
			killed, partial := map[core.RunID]bool{}, false
			for next := ""; ; {
				res, err := f.M.KillJob(ctx, ann, "shop/sweep", next)
				must(t, err)
				for _, id := range res.Killed {
					killed[id] = true
				}
				if partial, next = res.Partial, res.Next; next == "" {
					break
				}
			}
			if got := f.Runs(again.ID)[again.ID]; got.Reason != core.ReasonCancelled || partial != c.partial || killed[sent.ID] == c.partial {
				t.Errorf("its retry is %s, the older running one was killed: %t, and it is partial: %t", got.State, killed[sent.ID], partial)
			}
		})
	}
}
