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

// TestReplace: a newer run has the running one killed and starts when that ends. Among waiting runs the newest stays.
func TestReplace(t *testing.T) {
	replace := core.Overlap{Limit: 1, Full: core.FullReplace}
	one := map[core.JobID]core.Overlap{7: replace}
	keyed := replace
	keyed.Key = "/tenant"
	in := func(name string, jobs map[core.JobID]core.Overlap, test func(t *testing.T, k *killing)) {
		fixture.Bubble(t, name, func(t *testing.T) {
			k := &killing{limited: newLimited(t, jobs)}
			k.w = finish.NewWatchdog(k.s.f, k, finish.WatchOptions{})
			test(t, k)
		})
	}
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
