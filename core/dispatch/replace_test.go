package dispatch_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// killing is an executor that is busy with every job it has a run of, and gets their kills.
type killing struct {
	*limited
	w     *finish.Watchdog
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
func (k *killing) checks() {
	k.t.Helper()
	for range 3 {
		k.comes()
		due, _ := k.s.Depth(ring.KindCheck)
		if due == 0 {
			return
		}
		got := k.s.Receive(ring.KindCheck, 100)
		for i := range got {
			must(k.t, k.w.Check(k.t.Context(), got[i].Message.Check))
		}
		k.s.Ack(got...)
	}
	k.comes()
}

// ended returns the state and the reason of a run.
func (k *killing) ended(id core.RunID) string {
	r := k.s.Run(id)
	return fmt.Sprint(r.State, " ", r.Reason)
}

// late handles a run whose message arrives after newer runs.
func late(k *killing, at core.Instant) core.RunID {
	f := planned(7, at)
	k.d.Handle(k.t.Context(), []ring.Message{messageOf(f)})
	return f.Run
}

// retries closes a run as failed and returns its retry, which waits for its time.
func (k *killing) retries(first core.RunID) core.RunID {
	k.t.Helper()
	retry := core.Run{ID: core.NumberedRun(7, 9), App: "a", State: core.Planned, Cause: core.CauseRetry, Rev: 1, At: k.at, Slot: k.at + 500,
		Attempt: 2, First: first, Permit: "job/7"}
	k.s.Create(retry)
	must(k.t, k.s.Change(core.End(first, core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: time.Now(), Then: retry.ID})))
	return retry.ID
}

// TestReplace: a newer run has the running one killed and starts when that ends. Among waiting runs the newest stays.
func TestReplace(t *testing.T) {
	replace := core.Overlap{Limit: 1, Full: core.FullReplace}
	one := map[core.JobID]core.Overlap{7: replace}
	keyed, two := replace, replace
	keyed.Key, two.Limit, two.Group = "/tenant", 2, "db"
	texts := golden.New(t)
	in := func(name string, jobs map[core.JobID]core.Overlap, test func(t *testing.T, k *killing)) {
		fixture.Bubble(t, name, func(t *testing.T) {
			k := &killing{limited: newLimited(t, jobs)}
			k.w = finish.NewWatchdog(k.s.f, k, finish.WatchOptions{})
			test(t, k)
		})
	}
	in("one", one, func(t *testing.T, k *killing) {
		first, second := k.fires(7, 1)[0], k.fires(7, 1)[0]
		if r := k.s.Run(first); r.State != core.Running || !r.Replaced() || r.KillBy != "run "+second.String() ||
			k.s.Run(second).State != core.Queued {
			t.Fatalf("%+v, the second is %s", r, k.s.Run(second).State)
		}
		k.checks()
		if is := k.ended(first); is != "killed replaced" || k.ended(second) != "running " || k.most != 1 || k.kills != 1 {
			t.Errorf("%s, the second is %s, %d at once, %d kills", is, k.ended(second), k.most, k.kills)
		}
		// A later report of its executor changes nothing.
		must(t, k.s.f.End(t.Context(), []finish.Result{{Run: first, State: core.Killed, Reason: core.ReasonPerson, Killed: true, Code: 500,
			Reported: true}})[0])
		if is := k.ended(first); is != "killed replaced" {
			t.Error(is)
		}
	})
	for state, want := range map[core.State]string{core.Failed: "killed replaced", core.Succeeded: "succeeded handler"} {
		in("its executor reports "+string(state)+" first", one, func(t *testing.T, k *killing) {
			first, second := k.fires(7, 1)[0], k.fires(7, 1)[0]
			k.ends(first, state)
			k.comes()
			if is := k.ended(first); is != want || k.ended(second) != "running " {
				t.Errorf("%s, the second is %s", is, k.ended(second))
			}
		})
	}
	in("the newest of five", one, func(t *testing.T, k *killing) {
		ids := k.fires(7, 5)
		k.checks()
		for i, want := range []string{"killed replaced", "skipped overlap", "skipped overlap", "skipped overlap", "running "} {
			if is := k.ended(ids[i]); is != want {
				t.Errorf("run %d is %s, want %s", i, is, want)
			}
		}
		if of := k.s.PermitsOf("job/7"); len(of.Holders) != 1 || len(of.Queue) != 0 || k.most != 1 {
			t.Errorf("%+v, %d at once", of, k.most)
		}
	})
	in("a run that a user gave another key", map[core.JobID]core.Overlap{7: keyed}, func(t *testing.T, k *killing) {
		trigger := func(n uint32, tenant string) core.RunID {
			params := `{"tenant":"` + tenant + `"}`
			id := core.NumberedRun(7, n)
			k.at++
			r := fixture.Trigger("a", id, k.at)
			r.Params = &params
			k.s.Create(r)
			time.Sleep(time.Second)
			k.ring(id, core.CauseAPI)
			return id
		}
		works, _, waits := trigger(1, "a"), trigger(2, "c"), trigger(3, "c")
		other := trigger(4, "b")
		k.ends(other, core.Succeeded)
		stale := k.s.PermitsOf(k.s.Run(other).Permit) // both asked for it before
		stale.V, stale.Holders, stale.Queue = stale.V+1, []core.Holder{{First: works}}, []core.RunID{waits}
		k.s.SavePermits(stale)
		newer := trigger(5, "b")
		if r := k.s.Run(newer); k.s.Run(waits).State != core.Queued || !r.State.Open() || r.MayHaveBeenSent() {
			t.Errorf("the one of another key that waits is %s, the newer %s", k.ended(waits), k.ended(newer))
		}
		stale.V, stale.Queue = stale.V+1, nil
		k.s.SavePermits(stale)
		time.Sleep(time.Minute)
		k.comes()
		if r := k.s.Run(works); r.KillBy != "" || k.s.Run(newer).State != core.Queued {
			t.Errorf("the running one with another key is killed for %q, the newer is %s", r.KillBy, k.ended(newer))
		}
		k.ends(works, core.Succeeded)
		for range 5 {
			time.Sleep(time.Minute)
			k.comes()
		}
		if is := k.ended(newer); is != "running " {
			t.Errorf("once that is over the newer is %s", is)
		}
		k.checks()
	})
	in("two of a group at once", map[core.JobID]core.Overlap{7: two, 8: two}, func(t *testing.T, k *killing) {
		a, b := k.fires(7, 1)[0], k.fires(8, 1)[0]
		c := k.fires(7, 1)[0]
		k.checks()
		if k.ended(a) != "killed replaced" || k.ended(b) != "running " || k.ended(c) != "running " || k.most > 2 {
			t.Errorf("%s, %s, %s, %d at once", k.ended(a), k.ended(b), k.ended(c), k.most)
		}
	})
	for _, waits := range []bool{false, true} {
		in(fmt.Sprintf("a late run replaces no newer run, which waits: %t", waits), one, func(t *testing.T, k *killing) {
			var first core.RunID
			if waits {
				first = k.fires(7, 1)[0]
			}
			at := k.at + 1 // of the run that arrives late
			k.at += 5
			newer := k.fires(7, 1)[0]
			old := late(k, at)
			if is := k.ended(newer); k.ended(old) != "skipped overlap" || (is == "queued ") != waits {
				t.Fatalf("%s, the newer is %s", k.ended(old), is)
			}
			texts.Equal(t, "a late run", k.s.Run(old).Message, newer.String(), "NEWER")
			k.checks()
			if is := k.ended(newer); is != "running " || k.most != 1 || waits == (k.kills == 0) || waits && k.ended(first) != "killed replaced" {
				t.Errorf("%s, %d kills, %d at once", is, k.kills, k.most)
			}
		})
	}
	in("a late run replaces no newer run in a retry", one, func(t *testing.T, k *killing) {
		at := k.at + 1
		k.at += 5
		newer := k.fires(7, 1)[0]
		retry := k.retries(newer)
		old := late(k, at)
		k.comes()
		if k.ended(old) != "skipped overlap" || k.s.Run(retry).State != core.Planned {
			t.Errorf("%s, the retry is %s", k.ended(old), k.ended(retry))
		}
	})
	in("a retry that waits", one, func(t *testing.T, k *killing) {
		first := k.fires(7, 1)[0]
		retry := k.retries(first)
		second := k.fires(7, 1)[0]
		k.comes()
		if k.ended(retry) != "killed replaced" || k.ended(second) != "running " {
			t.Errorf("%s, %s", k.ended(retry), k.ended(second))
		}
	})
	in("a holder that takes no kill", one, func(t *testing.T, k *killing) {
		k.stuck = true
		first, second := k.fires(7, 1)[0], k.fires(7, 1)[0]
		for range 60 {
			k.checks()
			time.Sleep(5 * time.Second)
			k.comes()
		}
		if k.ended(first) != "running " || k.ended(second) != "queued " || k.kills < 10 || k.kills > 80 || k.most != 1 {
			t.Fatalf("%s, %s, %d kills in five minutes, %d at once", k.ended(first), k.ended(second), k.kills, k.most)
		}
		k.stuck = false
		time.Sleep(20 * time.Second)
		k.comes()
		k.checks()
		if k.ended(first) != "killed replaced" || k.ended(second) != "running " {
			t.Errorf("%s, %s", k.ended(first), k.ended(second))
		}
	})
}
