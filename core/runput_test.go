package core_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/fixture"
)

// TestRunPuts checks that each write of a run fails if a field that it depends on has changed, and
// succeeds if only other fields have changed.
func TestRunPuts(t *testing.T) {
	at := time.UnixMilli(1_800_000_000_000)
	owned := core.Run{ID: 7, App: "orders", State: core.Running, Owner: "a", Until: at, Address: "http://a/", SentAt: at}
	free, shut := owned, owned
	free.State, free.Owner = core.Planned, ""
	shut.State = core.Lost
	owes := []core.Owed{{Run: 5, Kind: core.CauseParent, Slot: 9}}
	claim := core.Claim{Owner: "b", Until: at.Add(-time.Hour), Journal: core.JournalKey{Minute: 1, Nonce: "b"}}
	changes := map[string]func(*core.Run){
		"closed": func(r *core.Run) { r.State = core.Succeeded }, "state": func(r *core.Run) { r.State = core.Queued },
		"owner": func(r *core.Run) { r.Owner = "x" }, "until": func(r *core.Run) { r.Until = at.Add(time.Millisecond) },
		"address": func(r *core.Run) { r.Address = "http://x/" }, "maybe": func(r *core.Run) { r.MaybeSent = true },
		"killed": func(r *core.Run) { r.KillBy, r.KillAt = "ann", at }, "late": func(r *core.Run) { r.Late = &core.LateResult{At: at} },
		"tries": func(r *core.Run) { r.Tries = []core.Try{{Address: "x"}} }, "nothing": func(*core.Run) {},
		"owes":  func(r *core.Run) { r.Owes = []core.Owed{{Run: 9, Kind: core.CauseRetry}} },
		"place": func(r *core.Run) { r.Place = 3 }, "post-run": func(r *core.Run) { r.PostRun.Log = true },
	}
	for name, c := range map[string]struct {
		was     core.Run
		put     core.RunPut
		refuses []string
		is      func(*core.Run)
	}{
		"take": {owned, owned.Take(claim, "http://b/", at.Add(time.Hour), nil), []string{"closed", "owner", "until", "address"},
			func(r *core.Run) {
				r.Owner, r.Until, r.Journal, r.MaybeSent = "b", at.Add(time.Millisecond), claim.Journal, true
			}},
		"take a free run": {free, free.Take(claim, "http://b/", at.Add(time.Hour), nil), []string{"closed", "owner", "until", "address"},
			func(r *core.Run) {
				r.State, r.Owner, r.Until, r.Journal = core.Running, "b", at.Add(time.Millisecond), claim.Journal
			}},
		"readdress": {owned, owned.Readdress("http://b/", nil), []string{"closed", "owner", "address"},
			func(r *core.Run) { r.Address, r.Tries = "http://b/", nil }},
		"give back": {owned, owned.GiveBack(), []string{"closed", "owner"},
			func(r *core.Run) { r.State, r.Owner, r.Address = core.Planned, "", "" }},
		"skip": {free, free.SkipUnsent(core.ReasonPaused, at), []string{"closed", "owner", "until", "maybe"}, func(r *core.Run) {
			r.State, r.Reason, r.EndedAt = core.Skipped, core.ReasonPaused, at
		}},
		"wait": {free, free.Wait(), []string{"closed", "owner", "until", "maybe"}, func(r *core.Run) { r.State = core.Queued }},
		"uncounted": {free, free.Uncounted(at), []string{"closed", "owner", "until", "maybe"}, func(r *core.Run) {
			r.Permit, r.Until = "", at.Add(time.Millisecond)
		}},
		"kill":       {owned, owned.Kill("bob", at), []string{"closed"}, func(r *core.Run) { r.KillBy, r.KillAt = "bob", at }},
		"clear owed": {shut, shut.ClearOwed(), []string{"closed", "state", "owes"}, func(*core.Run) {}},
		"note late": {shut, shut.NoteLate(core.LateResult{At: at}), []string{"closed", "state", "late"},
			func(r *core.Run) { r.Late = &core.LateResult{At: core.FromMillis(core.Millis(at))} }},
		"retime": {free, free.Retime(core.Run{At: 9, Slot: 9}, at), []string{"closed", "state", "owner", "until", "maybe"}, func(r *core.Run) {
			r.At, r.Slot, r.Until, r.SentAt = 9, 9, at.Add(time.Millisecond), time.Time{}
		}},
		"take, counted, under another revision": {free, free.Take(claim, "", at, nil).Under(7, true).Counted("job/1"),
			[]string{"closed", "owner", "until", "address"}, func(r *core.Run) {
				r.State, r.Owner, r.Until, r.Journal = core.Running, "b", at.Add(time.Millisecond), claim.Journal
				r.SentRev, r.Notice, r.Permit = 7, true, "job/1"
			}},
		"draw": {shut, shut.Draw(owes), []string{"closed", "state", "owes", "place"}, func(r *core.Run) { r.Owes = owes }},
		"note children": {shut, shut.NoteChildren(core.PlaceAfter(9), nil), []string{"closed", "state", "owes", "place"},
			func(r *core.Run) { r.Place = core.PlaceAfter(9) }},
		"clear the post-run work": {shut, shut.ClearPostRun(core.PostRun{}), []string{"closed", "state", "post-run"}, func(*core.Run) {}},
		"end": {owned, core.End(7, core.Run{State: core.Succeeded, EndedAt: at}), []string{"closed"},
			func(r *core.Run) { r.State, r.EndedAt = core.Succeeded, at }},
	} {
		refuses := map[string]bool{}
		for _, what := range c.refuses {
			refuses[what] = true
		}
		for what, change := range changes {
			stored := c.was
			if change(&stored); fixture.Holds(&c.put, &stored) == refuses[what] {
				t.Errorf("%s, the run's change: %s: holds %v", name, what, refuses[what])
			}
		}
		got, want := c.was, c.was
		c.put.Apply(&got)
		if c.is(&want); !reflect.DeepEqual(got, want) {
			t.Errorf("%s makes\n%+v, want\n%+v", name, got, want)
		}
	}
	maybe := owned
	maybe.MaybeSent = true
	if p := maybe.GiveBack(); p.Set&core.RunAddress != 0 {
		t.Error("one that may have been sent was given back without its address")
	}
}
