package operate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func (f *fixture) waits(at time.Time, key string) core.Run {
	f.T.Helper()
	r, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", At: &at, Key: key})
	if err != nil || !r.Waiting {
		f.T.Fatalf("%+v %v", r, err)
	}
	return r.Run
}

func TestChangeTrigger(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", core.Schedule{}))
	run := f.waits(start.Add(24*time.Hour), "k1")
	sooner, params, addresses := start.Add(time.Hour), "other", []string{"http://10.0.0.7:9999"}
	bob := core.Actor{Name: "bob"}
	f.Clock = f.Clock.Add(time.Second)
	r, err := f.M.ChangeTrigger(ctx, bob, "shop/sweep#k1", operate.TriggerChange{At: &sooner, Params: &params, Addresses: &addresses})
	if err != nil || !r.Waiting || r.Run.ID != run.ID || r.Run.Slot != core.Ceil(sooner) || r.Run.By != "ann" || r.Run.Key != "k1" {
		t.Fatalf("%+v %v", r, err)
	}
	v, err := f.M.Run(ctx, run.ID.String())
	if err != nil || v.Run.At != core.Ceil(sooner) || *v.Run.Params != "other" || !slices.Equal(v.Run.Addresses, addresses) {
		t.Errorf("%+v %v", v.Run, err)
	}
	if e := f.entries(j.Def.ID); len(e) != 1 || e[0].PlanAt >= core.Ceil(sooner) || e[0].PlanAt < core.InstantOf(start.Add(time.Minute)) {
		t.Errorf("entries: %+v", e)
	}
	if w, err := f.M.Waiting(ctx, "shop/sweep", ""); err != nil || len(w.Runs) != 1 || w.Runs[0].Slot != core.Ceil(sooner) {
		t.Errorf("waiting: %+v %v", w, err)
	}
	again, err := f.M.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", Key: "k1"})
	if err != nil || again.Run.ID != run.ID || !again.Existing || !again.Waiting {
		t.Errorf("the same key: %+v %v", again, err)
	}

	// The user, the time, and the old and new values.
	changes, err := f.Changes("", "shop/sweep", 1)
	if err != nil || len(changes) != 1 || changes[0].Verb != core.VerbChanged || changes[0].By != "bob" || !changes[0].At.Equal(f.Clock) {
		t.Fatalf("%+v %v", changes, err)
	}
	var old, is struct {
		Run, At, Key string
		Params       *string
		Addresses    []string
	}
	if json.Unmarshal([]byte(changes[0].Old), &old) != nil || json.Unmarshal([]byte(changes[0].New), &is) != nil {
		t.Fatalf("%+v", changes[0])
	}
	if old.At != run.At.String() || old.Params != nil || is.At != r.Run.At.String() || *is.Params != "other" || len(is.Addresses) != 1 ||
		is.Run != run.ID.String() {
		t.Errorf("old %+v, new %+v", old, is)
	}

	// Equal values change nothing, and unset fields stay.
	if _, err := f.M.ChangeTrigger(ctx, bob, run.ID.String(), operate.TriggerChange{At: &sooner}); err != nil {
		t.Error(err)
	}
	f.Clock = f.Clock.Add(time.Second)
	none, long := []string{}, strings.Repeat("ä", 2000)
	if r, err = f.M.ChangeTrigger(ctx, bob, run.ID.String(), operate.TriggerChange{Addresses: &none, Params: &long}); err != nil ||
		len(r.Run.Addresses) != 0 || r.Run.Slot != core.Ceil(sooner) {
		t.Errorf("%+v %v", r, err)
	}
	if changes, err = f.Changes("", "shop/sweep", 10); err != nil || len(changes) != 4 || len(changes[0].New) > 1500 ||
		changes[0].ID <= changes[1].ID {
		t.Errorf("%d changes, %+v %v", len(changes), changes[0], err)
	}

	// A change to now sends the run and removes its entry.
	soon := f.Clock
	if r, err = f.M.ChangeTrigger(ctx, bob, run.ID.String(), operate.TriggerChange{At: &soon}); err != nil || r.Waiting ||
		r.Run.Slot != core.InstantOf(f.Clock)+1 {
		t.Errorf("%+v %v", r, err)
	}
	if e, fires := f.entries(j.Def.ID), f.Fires(); len(e) != 0 || len(fires) != 1 || fires[0].Slot != r.Run.Slot {
		t.Errorf("entries %+v, fires %+v", e, fires)
	}
	// A run on the ring can still be delayed.
	later := start.Add(48 * time.Hour)
	if r, err = f.M.ChangeTrigger(ctx, bob, run.ID.String(), operate.TriggerChange{At: &later}); err != nil || !r.Waiting ||
		len(f.entries(j.Def.ID)) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestChangeTriggerRefuses(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", core.Schedule{}))
	far, past, big, p, bad := start.Add(367*24*time.Hour), start.Add(-2*time.Minute), strings.Repeat("x", 64<<10+1), "p", []string{"10.0.0.1"}
	local := []string{"http://169.254.169.254"}
	run := f.waits(start.Add(time.Hour), "k")
	for name, c := range map[string]struct {
		ref  string
		c    operate.TriggerChange
		code core.Code
	}{
		"nothing":    {"", operate.TriggerChange{}, core.CodeInvalid},
		"far":        {"", operate.TriggerChange{At: &far}, core.CodeInvalid},
		"past":       {"", operate.TriggerChange{At: &past}, core.CodeInvalid},
		"params":     {"", operate.TriggerChange{Params: &big}, core.CodeTooLarge},
		"address":    {"", operate.TriggerChange{Addresses: &bad}, core.CodeInvalid},
		"link-local": {"", operate.TriggerChange{Addresses: &local}, core.CodeRefused},
		"no run":     {numbered(run.ID.Job(), 99).String(), operate.TriggerChange{Params: &p}, core.CodeNotFound},
		"no key":     {"shop/sweep#none", operate.TriggerChange{Params: &p}, core.CodeNotFound},
		"no ID":      {"17", operate.TriggerChange{Params: &p}, core.CodeInvalid},
	} {
		if c.ref == "" {
			c.ref = run.ID.String()
		}
		fails(t, c.code, "%s", name)(f.M.ChangeTrigger(ctx, ann, c.ref, c.c))
	}
	claimed, ended := f.waits(start.Add(time.Hour), "a"), f.waits(start.Add(time.Hour), "b")
	must(t, f.E.ChangeRuns(ctx, []core.RunPut{claimed.Take(core.Claim{Owner: "me", Until: f.Clock.Add(time.Minute)}, "http://a:1",
		f.Clock, nil)})[0])
	check.Call(t)(f.M.Cancel(ctx, ann, ended.ID.String()))
	again := retry(f, numbered(run.ID.Job(), 50), run.ID)
	sent := running(f, planned(run.ID.Job(), core.InstantOf(start)), "http://a:1")
	texts := golden.New(t)
	for what, id := range map[string]core.RunID{"claimed": claimed.ID, "ended": ended.ID, "a retry": again.ID, "running": sent.ID} {
		_, err := f.M.ChangeTrigger(ctx, ann, id.String(), operate.TriggerChange{Params: &p})
		check.Equal(t, code(err), core.CodeRefused, "%s: %v", what, err)
		texts.Equal(t, what, fmt.Sprint(err))
	}
	for id, r := range f.Runs(claimed.ID, ended.ID, again.ID, sent.ID) {
		if r.Params != nil {
			t.Errorf("run %d was changed: %+v", id, r)
		}
	}
}

// TestChangeTriggerCrashPoints: after a crash at any step, or a lost answer, the trigger has
// either all old or all new values. Its entry sends it. A repeated call completes the change.
func TestChangeTriggerCrashPoints(t *testing.T) {
	for _, ahead := range []time.Duration{time.Second, 2 * time.Hour} {
		for _, mode := range []faults{{Kill: true}, {Kill: true, After: true}, {}, {After: true}, {Err: core.ErrThrottled},
			{Err: core.ErrRefused, After: true}} {
			for at := 1; ; at++ {
				f := newFixture(t)
				j := f.Create(spec("sweep", core.Schedule{}))
				run := f.waits(start.Add(time.Hour), "order-7")
				when, params := start.Add(ahead), "other"
				change := operate.TriggerChange{At: &when, Params: &params}
				w := mode
				w.At = at
				_, err := f.Fresh(&w).ChangeTrigger(ctx, ann, run.ID.String(), change)
				what := fmt.Sprintf("ahead %s, %+v at %s", ahead, mode, w.Last)
				f.M = f.Fresh(&faults{})
				whole := func() core.Run {
					t.Helper()
					v, err := f.M.Run(ctx, run.ID.String())
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					was, is := v.Run.Slot == run.Slot && v.Run.Params == nil, v.Run.Slot == core.Ceil(when) && v.Run.Params != nil
					if was == is {
						t.Errorf("%s: half of it: %+v", what, v.Run)
					}
					entry := slices.ContainsFunc(f.entries(j.Def.ID), func(d core.DueItem) bool {
						return d.PlanAt < v.Run.Slot &&
							d.PlanAt > v.Run.Slot-60
					})
					onRing := slices.ContainsFunc(f.Fires(), func(x core.Fire) bool { return x.Run == run.ID && x.Slot == v.Run.Slot })
					if !entry && !onRing {
						t.Errorf("%s: nothing sends it at %s; entries %+v", what, v.Run.Slot, f.entries(j.Def.ID))
					}
					return v.Run
				}
				if r := whole(); err == nil && r.Slot != core.Ceil(when) {
					t.Errorf("%s: reported as changed, but it is %+v", what, r)
				}
				if _, err := f.M.ChangeTrigger(ctx, ann, run.ID.String(), change); err != nil {
					t.Errorf("%s: again: %v", what, err)
				}
				if r := whole(); r.Slot != core.Ceil(when) || *r.Params != params {
					t.Errorf("%s: %+v", what, r)
				}
				if w.Last == "" {
					break
				}
			}
		}
	}
}

// TestChangeBesideAKeyAskedAgain: a repeated request with a key sends the waiting run again and
// removes its entry, but not the entry of a concurrent change.
func TestChangeBesideAKeyAskedAgain(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", core.Schedule{}))
	run := f.waits(start.Add(time.Minute), "k")
	f.Clock = start.Add(time.Minute)
	later := start.Add(time.Hour)
	m := f.Fresh(&faults{Before: func(write string) (err error) {
		if write == "enqueue" {
			_, err = f.M.ChangeTrigger(ctx, ann, run.ID.String(), operate.TriggerChange{At: &later})
		}
		return err
	}})
	check.Call(t)(m.Trigger(ctx, ann, operate.TriggerRequest{Job: "shop/sweep", Key: "k"}))
	if e := f.entries(j.Def.ID); len(e) != 1 || e[0].PlanAt < core.InstantOf(later)-60 {
		t.Errorf("entries: %+v", e)
	}
}
