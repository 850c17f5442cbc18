package operate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
)

// broadcast stores an open broadcast of four shards. The first is running, the second has failed
// and has a pending retry, the third has no run, and the fourth has succeeded.
func (f *fixture) broadcast() (whole core.Run, shards []core.Run) {
	f.T.Helper()
	s := spec("reindex", core.Schedule{})
	s.Def.Route = core.RouteBroadcast
	j := f.Create(s)
	at := core.InstantOf(f.Clock)
	whole = newRun(planned(j.Def.ID, at), "", at)
	whole.Rev, whole.SentAt = j.Sched.Rev, f.Clock
	whole.Spread(numbered(j.Def.ID, 10), []string{"http://10.0.0.1:9999", "http://10.0.0.2:9999",
		"http://10.0.0.3:9999", "http://10.0.0.4:9999"}, false)
	for i := range 4 {
		r := whole.ShardRun(whole.Shard.IDOf(i))
		r.State, r.Owner, r.Until, r.SentAt, r.Address = core.Running, "me", f.Clock.Add(time.Minute), f.Clock, whole.Addresses[i]
		shards = append(shards, r)
	}
	retry := shards[1]
	retry.ID, retry.State, retry.Cause, retry.Attempt, retry.Owner, retry.Address = numbered(j.Def.ID, 20), core.Planned,
		core.CauseRetry, 2, "", ""
	retry.SentAt, retry.Until = time.Time{}, time.Time{}
	shards[1].State, shards[1].Reason, shards[1].EndedAt, shards[1].Then = core.Failed, core.ReasonHandler, f.Clock, retry.ID
	shards[3].State, shards[3].EndedAt = core.Succeeded, f.Clock
	f.Put(whole, shards[0], shards[1], shards[3], retry)
	return whole, append(shards, retry)
}

func (f *fixture) states(ids ...core.RunID) (list []string) {
	found := f.Runs(ids...)
	for _, id := range ids {
		r := found[id]
		text := fmt.Sprintf("%s %s", r.State, r.Reason)
		if !r.KillAt.IsZero() {
			text += " killed by " + r.KillBy
		}
		list = append(list, text)
	}
	return list
}

// TestKillBroadcast: running shards get the kill, waiting ones are cancelled, and unclaimed ones
// cannot be claimed. The broadcast ends as killed with the last of them.
func TestKillBroadcast(t *testing.T) {
	f := newFixture(t)
	whole, shards := f.broadcast()
	res, err := f.M.KillRun(ctx, ann, whole.ID.String(), "")
	if err != nil || !res.Changed || !slices.Equal(res.Killed, []core.RunID{whole.ID, shards[0].ID}) || res.Next != "" ||
		!slices.Equal(res.Cancelled, []core.RunID{shards[4].ID}) {
		t.Errorf("%+v %v", res, err)
	}
	if want := []string{fmt.Sprintf("shop http://10.0.0.1:9999 %d", whole.ID.Job())}; !slices.Equal(f.Killer.Sent, want) {
		t.Errorf("told %v, want %v", f.Killer.Sent, want)
	}
	ids := []core.RunID{whole.ID, shards[0].ID, shards[1].ID, shards[4].ID, shards[2].ID, shards[3].ID}
	want := []string{"running  killed by ann", "running  killed by ann", "failed handler", "skipped cancelled", "skipped cancelled",
		"succeeded "}
	if got := f.states(ids...); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if err := f.E.CreateRuns(ctx, []core.Run{shards[2]})[0]; err == nil {
		t.Error("a shard was claimed after the kill")
	}
	if res, err := f.M.KillRun(ctx, ann, whole.ID.String(), ""); err != nil || len(res.Cancelled) != 0 {
		t.Errorf("asked again: %+v %v", res, err)
	}
	f.fails(shards[0].ID)
	if got := f.states(whole.ID, shards[0].ID); !slices.Equal(got, []string{"killed person killed by ann", "killed person killed by ann"}) {
		t.Errorf("in the end %q", got)
	}
}

// TestKillEndsBroadcastWhoseShardsEnded: the process that closed the last shard died before it
// closed the broadcast.
func TestKillEndsBroadcastWhoseShardsEnded(t *testing.T) {
	f := newFixture(t)
	whole, shards := f.broadcast()
	f.E.ChangeRuns(ctx, []core.RunPut{core.End(shards[0].ID, core.Run{State: core.Succeeded, EndedAt: f.Clock}),
		core.End(shards[4].ID, core.Run{State: core.Succeeded, EndedAt: f.Clock})})
	skipped := whole.ShardRun(whole.Shard.IDOf(2))
	skipped.State, skipped.Reason, skipped.EndedAt = core.Skipped, core.ReasonUndeliverable, f.Clock
	f.Put(skipped)
	check.Call(t)(f.M.KillRun(ctx, ann, whole.ID.String(), ""))
	if got := f.states(whole.ID); !slices.Equal(got, []string{"killed person killed by ann"}) {
		t.Errorf("%q", got)
	}
}

// TestKillShard: a kill of a shard ends the runs of its job at its address; the broadcast goes
// on.
func TestKillShard(t *testing.T) {
	f := newFixture(t)
	whole, shards := f.broadcast()
	res, err := f.M.KillRun(ctx, ann, shards[0].ID.String(), "")
	if err != nil || !slices.Equal(res.Killed, []core.RunID{shards[0].ID}) || len(res.Cancelled) != 0 {
		t.Errorf("%+v %v", res, err)
	}
	if got := f.states(whole.ID, shards[0].ID, shards[4].ID); !slices.Equal(got, []string{"running ", "running  killed by ann", "planned "}) {
		t.Errorf("%q", got)
	}
}

// TestRerunOfBroadcast: a rerun goes to the executors available now, or with SameAddress to the
// first ones. A single shard is rerun where it ran, with its index. A filter selects the
// broadcast without its shards.
func TestRerunOfBroadcast(t *testing.T) {
	f := newFixture(t)
	whole, shards := f.broadcast()
	check.Call(t)(f.M.KillRun(ctx, ann, whole.ID.String(), ""))
	f.fails(shards[0].ID)
	res, err := f.M.Rerun(ctx, ann, operate.RerunRequest{Filter: query.RunFilter{Job: "shop/reindex"}, DryRun: true})
	must(t, err)
	var taken []core.RunID
	for _, x := range res.Runs {
		if x.Why == nil {
			taken = append(taken, x.Of.ID)
		}
	}
	if !slices.Equal(taken, []core.RunID{whole.ID}) {
		t.Errorf("of %d runs %v are run again, want %d alone", len(res.Runs), taken, whole.ID)
	}
	again := func(q operate.RerunRequest) core.Run {
		t.Helper()
		res, err := f.M.Rerun(ctx, ann, q)
		if err != nil || len(res.Runs) != 1 {
			t.Fatalf("%+v %v", res, err)
		}
		return res.Runs[0].As
	}
	if r := again(operate.RerunRequest{Run: whole.ID.String()}); r.Addresses != nil || r.Shard != (core.Shard{}) {
		t.Errorf("%+v", r)
	}
	if r := again(operate.RerunRequest{Run: whole.ID.String(), SameAddress: true}); len(r.Addresses) != 4 || r.IsBroadcast() {
		t.Errorf("%+v", r)
	}
	if r := again(operate.RerunRequest{Run: shards[2].ID.String()}); !slices.Equal(r.Addresses, []string{"http://10.0.0.3:9999"}) ||
		r.Shard != (core.Shard{Index: 2, Total: 4}) {
		t.Errorf("%+v", r)
	}
}
