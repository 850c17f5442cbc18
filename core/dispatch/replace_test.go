package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// killing is an executor that is busy with every job it has a run of, and gets their kills.
type killing struct {
	*limited
	stuck bool // it ignores kills
	kills int
}

func (k *killing) Idle(context.Context, *core.App, string, core.JobID) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.work) == 0, nil
}

func (k *killing) Kill(_ context.Context, _ *core.App, _ string, job core.JobID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kills++; k.stuck {
		return fmt.Errorf("not now")
	}
	for id := range k.work {
		if id.Job() == job {
			delete(k.work, id)
		}
	}
	return nil
}

func (*killing) Limit(context.Context, string) (time.Duration, error) { return time.Minute, nil }

// checks handles the due checks, and then the due messages.
func (k *killing) checks(w *finish.Watchdog) {
	k.t.Helper()
	for range 3 {
		k.comes()
		due, _ := k.s.depth(ring.KindCheck)
		if due == 0 {
			return
		}
		got := k.s.receive(ring.KindCheck, 100)
		for i := range got {
			must(k.t, w.Check(k.t.Context(), got[i].Message.Check))
		}
		k.s.ack(got...)
	}
	k.comes()
}

func newReplacing(t *testing.T, jobs map[core.JobID]core.Overlap) (*killing, *finish.Watchdog) {
	k := &killing{limited: newLimited(t, jobs)}
	return k, finish.NewWatchdog(k.s.f, k, finish.WatchOptions{})
}

// late handles a run whose message arrives after newer runs.
func late(k *killing, at core.Instant) core.RunID {
	f := planned(7, at)
	k.d.Handle(k.t.Context(), []ring.Message{messageOf(f)})
	return f.Run
}

// TestReplace: a newer run has the running one killed and starts when that ends. Among waiting runs the newest stays.
func TestReplace(t *testing.T) {
	replace := core.Overlap{Limit: 1, Full: core.FullReplace}
	end := func(k *killing, id core.RunID) string {
		r := k.s.run(id)
		return fmt.Sprint(r.State, " ", r.Reason)
	}
	texts := golden.New(t)
	t.Run("one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			first := k.fires(7, 1)[0]
			second := k.fires(7, 1)[0]
			if r := k.s.run(first); r.State != core.Running || !r.Replaced() || r.KillBy != "run "+second.String() ||
				k.s.run(second).State != core.Queued {
				t.Fatalf("%+v, the second is %s", r, k.s.run(second).State)
			}
			k.checks(w)
			if is := end(k, first); is != "killed replaced" || k.s.run(second).State != core.Running || k.most != 1 || k.kills != 1 {
				t.Errorf("%s, the second is %s, %d at once, %d kills", is, k.s.run(second).State, k.most, k.kills)
			}
			// A later report of its executor changes nothing.
			must(t, k.s.f.End(t.Context(), []finish.Result{{Run: first, State: core.Killed, Reason: core.ReasonPerson, Killed: true, Code: 500,
				Reported: true}})[0])
			if is := end(k, first); is != "killed replaced" {
				t.Error(is)
			}
		})
	})
	t.Run("its executor reports the kill first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, _ := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			first, second := k.fires(7, 1)[0], k.fires(7, 1)[0]
			k.ends(first, core.Failed)
			k.comes()
			if is := end(k, first); is != "killed replaced" || k.s.run(second).State != core.Running {
				t.Errorf("%s, the second is %s", is, k.s.run(second).State)
			}
		})
	})
	t.Run("it succeeds before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, _ := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			first, second := k.fires(7, 1)[0], k.fires(7, 1)[0]
			k.ends(first, core.Succeeded)
			k.comes()
			if is := end(k, first); is != "succeeded handler" || k.s.run(second).State != core.Running {
				t.Errorf("%s, the second is %s", is, k.s.run(second).State)
			}
		})
	})
	t.Run("a person kills it too", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			first, second := k.fires(7, 1)[0], k.fires(7, 1)[0]
			r := k.s.run(first)
			must(t, k.s.change(r.Kill("ann", time.Now())))
			k.checks(w)
			k.ends(first, core.Failed)
			k.comes()
			if is := end(k, first); is != "killed person" || k.s.run(second).State != core.Running {
				t.Errorf("%s, the second is %s", is, k.s.run(second).State)
			}
		})
	})
	t.Run("the newest of five", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			ids := k.fires(7, 5)
			k.checks(w)
			for i, want := range []string{"killed replaced", "skipped overlap", "skipped overlap", "skipped overlap", "running "} {
				if is := end(k, ids[i]); is != want {
					t.Errorf("run %d is %s, want %s", i, is, want)
				}
			}
			p, err := k.s.Permits(t.Context(), []string{"job/7"})
			must(t, err)
			if of := p["job/7"]; len(of.Holders) != 1 || len(of.Queue) != 0 || k.most != 1 {
				t.Errorf("%+v, %d at once", of, k.most)
			}
		})
	})
	t.Run("a run that a user gave another key", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o := replace
			o.Key = "/tenant"
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: o})
			trigger := func(n uint32, tenant string) core.RunID {
				params := `{"tenant":"` + tenant + `"}`
				id := core.NumberedRun(7, n)
				k.at++
				r := core.Run{ID: id, App: "a", State: core.Planned, Cause: core.CauseAPI, Rev: 1, At: k.at, Slot: k.at, Attempt: 1, First: id,
					Params: &params}
				k.s.create(r)
				time.Sleep(time.Second)
				k.ring(id, core.CauseAPI)
				return id
			}
			works, _, waits := trigger(1, "a"), trigger(2, "c"), trigger(3, "c")
			other := trigger(4, "b")
			k.ends(other, core.Succeeded)
			name := k.s.run(other).Permit
			p, err := k.s.Permits(t.Context(), []string{name})
			must(t, err)
			stale := p[name] // both asked for it before
			stale.V, stale.Holders, stale.Queue = stale.V+1, []core.Holder{{First: works}}, []core.RunID{waits}
			k.s.putPermits(stale)
			newer := trigger(5, "b")
			if r := k.s.run(newer); k.s.run(waits).State != core.Queued || !r.State.Open() || r.MayHaveBeenSent() {
				t.Errorf("the one of another key that waits is %s, the newer %s", end(k, waits), end(k, newer))
			}
			stale.V, stale.Queue = stale.V+1, nil
			k.s.putPermits(stale)
			time.Sleep(time.Minute)
			k.comes()
			if r := k.s.run(works); r.KillBy != "" || k.s.run(newer).State != core.Queued {
				t.Errorf("the running one with another key is killed for %q, the newer is %s", r.KillBy, end(k, newer))
			}
			k.ends(works, core.Succeeded)
			for range 5 {
				time.Sleep(time.Minute)
				k.comes()
			}
			if is := end(k, newer); is != "running " {
				t.Errorf("once that is over the newer is %s", is)
			}
			k.checks(w)
		})
	})
	t.Run("two of a group at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			two := core.Overlap{Limit: 2, Group: "db", Full: core.FullReplace}
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: two, 8: two})
			a, b := k.fires(7, 1)[0], k.fires(8, 1)[0]
			c := k.fires(7, 1)[0]
			k.checks(w)
			if end(k, a) != "killed replaced" || end(k, b) != "running " || end(k, c) != "running " || k.most > 2 {
				t.Errorf("%s, %s, %s, %d at once", end(k, a), end(k, b), end(k, c), k.most)
			}
		})
	})
	t.Run("a late run replaces no newer run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			at := k.at + 1 // of the run that arrives late
			k.at += 5
			newer := k.fires(7, 1)[0]
			old := late(k, at)
			k.checks(w)
			if end(k, old) != "skipped overlap" || end(k, newer) != "running " || k.kills != 0 {
				t.Errorf("%s, %s, %d kills", end(k, old), end(k, newer), k.kills)
			}
			texts.Equal(t, "a late run", k.s.run(old).Message, newer.String(), "NEWER")
		})
	})
	t.Run("a late run replaces no newer run in a retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, _ := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			at := k.at + 1
			k.at += 5
			newer := k.fires(7, 1)[0]
			retry := core.Run{ID: core.NumberedRun(7, 9), App: "a", State: core.Planned, Cause: core.CauseRetry, Rev: 1, At: k.at, Slot: k.at + 500,
				Attempt: 2, First: newer, Permit: "job/7"}
			k.s.create(retry)
			closed := core.End(newer, core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: time.Now(), Then: retry.ID})
			must(t, k.s.change(closed))
			old := late(k, at)
			k.comes()
			if end(k, old) != "skipped overlap" || k.s.run(retry.ID).State != core.Planned {
				t.Errorf("%s, the retry is %s", end(k, old), end(k, retry.ID))
			}
		})
	})
	t.Run("a late run leaves a newer run waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			first := k.fires(7, 1)[0]
			at := k.at + 1
			k.at += 5
			newer := k.fires(7, 1)[0]
			old := late(k, at)
			if end(k, old) != "skipped overlap" || k.s.run(newer).State != core.Queued {
				t.Fatalf("%s, the newer is %s", end(k, old), end(k, newer))
			}
			texts.Equal(t, "a late run", k.s.run(old).Message, newer.String(), "NEWER")
			k.checks(w)
			if end(k, first) != "killed replaced" || end(k, newer) != "running " || k.most != 1 {
				t.Errorf("%s, %s, %d at once", end(k, first), end(k, newer), k.most)
			}
		})
	})
	t.Run("a retry that waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, _ := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			first := k.fires(7, 1)[0]
			retry := core.Run{ID: core.NumberedRun(7, 9), App: "a", State: core.Planned, Cause: core.CauseRetry, Rev: 1, At: k.at, Slot: k.at + 500,
				Attempt: 2, First: first, Permit: "job/7"}
			k.s.create(retry)
			closed := core.End(first, core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: time.Now(), Then: retry.ID})
			must(t, k.s.change(closed))
			second := k.fires(7, 1)[0]
			k.comes()
			if end(k, retry.ID) != "killed replaced" || end(k, second) != "running " {
				t.Errorf("%s, %s", end(k, retry.ID), end(k, second))
			}
		})
	})
	t.Run("a holder that takes no kill", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k, w := newReplacing(t, map[core.JobID]core.Overlap{7: replace})
			k.stuck = true
			first, second := k.fires(7, 1)[0], k.fires(7, 1)[0]
			for range 60 {
				k.checks(w)
				time.Sleep(5 * time.Second)
				k.comes()
			}
			if end(k, first) != "running " || end(k, second) != "queued " || k.kills < 10 || k.kills > 80 || k.most != 1 {
				t.Fatalf("%s, %s, %d kills in five minutes, %d at once", end(k, first), end(k, second), k.kills, k.most)
			}
			k.stuck = false
			time.Sleep(20 * time.Second)
			k.comes()
			k.checks(w)
			if end(k, first) != "killed replaced" || end(k, second) != "running " {
				t.Errorf("%s, %s", end(k, first), end(k, second))
			}
		})
	})
}
