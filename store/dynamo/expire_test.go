package dynamo_test

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/store/storetest"
)

// items returns the items of a table under one hash key.
func (f *fakes) items(t *testing.T, table, hash string, v types.AttributeValue) []map[string]types.AttributeValue {
	t.Helper()
	out, err := f.db.Query(t.Context(), &dynamodb.QueryInput{TableName: &table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:   aws.String("#h = :v"),
		ExpressionAttributeNames: map[string]string{"#h": hash}, ExpressionAttributeValues: map[string]types.AttributeValue{":v": v}})
	ok(t, err)
	return out.Items
}

// TestNothingStays: what belongs to a run has no expiry while the run is open, and expires with it: long texts, earlier
// attempts and the key. If the job keeps its runs forever, only the key expires. The job's setting at the end of a run counts,
// also in a process that read an earlier one, or that cannot read the job's secrets. A process that cannot read the job removes nothing.
func TestNothingStays(t *testing.T) {
	for name, c := range map[string]keeping{
		"30 days":                  {},
		"forever":                  {days: core.KeepForever, stay: 8},
		"raised":                   {days: 1, then: func(f *fakes) { f.Edit(1, func(j *core.Job) { j.Def.Keep.Days, j.Sched.Rev = 30, 101 }) }},
		"forever, deleted":         {days: core.KeepForever, stay: 8, then: func(f *fakes) { f.Delete(1, time.Now()) }},
		"forever, without the key": {days: core.KeepForever, stay: 8, secrets: storetest.NewBox()},
		"unknown":                  {days: 60, stay: 8, throttled: true},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { nothingStays(t, c) }) })
	}
}

// keeping has the days that a job keeps its runs, and how many items then stay forever.
type keeping struct {
	days, stay int
	then       func(*fakes)   // happens to the job before the runs end; nil: nothing
	secrets    *secretbox.Box // of the process that ends the runs
	throttled  bool           // whether reads of jobs fail
}

func nothingStays(t *testing.T, c keeping) {
	f := newFakes(t, dynamo.Options{})
	f.db.TTL = func() time.Duration { return 0 }
	ctx, job := t.Context(), oneJob(1)
	job.Def.Keep.Days, job.Def.Command = c.days, &core.Command{Line: "true", Env: map[string]string{"K": "secret"}, Hidden: []string{"K"}}
	job.Normalize()
	f.create(t, job)
	f.db.Faults = func(_ context.Context, call fakeaws.Call) (fault fakeaws.Fault) {
		if c.throttled && call.On == fakeaws.Names.Jobs {
			fault.Before = fakeaws.Throttled()
		}
		return fault
	}
	s, err := dynamo.New(f.db, f.sqs, dynamo.Options{Names: fakeaws.Names, Secrets: cmp.Or(c.secrets, f.store.Box)})
	ok(t, err)
	long := strings.Repeat("long ", 100)
	number := func(n uint32) core.RunID { return core.NumberedRun(1, n) }
	left := func() []map[string]types.AttributeValue {
		return append(f.items(t, fakeaws.Names.Runs, "job", &types.AttributeValueMemberN{Value: "1"}),
			f.items(t, fakeaws.Names.State, "of", &types.AttributeValueMemberS{Value: "key#1"})...)
	}
	first, failover, given := oneRun(number(1)), oneRun(number(3)), oneRun(number(4))
	first.Params, first.Key = &long, "k"
	failover.Tries = []core.Try{{Address: "http://10.0.0.1:9999/", Message: long}}
	given.Params, given.Owner, given.Until, given.State = &long, "", time.Time{}, core.Planned
	second := oneRun(number(2))
	second.First, second.Attempt, second.Params = first.ID, 2, &long
	_, err = s.PutKey(ctx, 1, "k", first.ID)
	ok(t, err)
	ok(t, s.CreateRuns(ctx, []core.Run{first, failover, given})...)
	owes := []core.Owed{{Run: second.ID, Kind: core.CauseRetry}}
	ok(t, s.ChangeRuns(ctx, []core.RunPut{seen(core.End(first.ID,
		core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: time.Now(), Then: second.ID, Owes: owes}), &first)})...)
	ok(t, s.CreateRuns(ctx, []core.Run{second})...)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{(&core.Run{ID: first.ID, State: core.Failed, Owes: owes}).ClearOwed()})...)
	for _, it := range left() {
		if it["expires"] != nil {
			t.Errorf("it is open, or its next attempt is, but has an expiry: %v", it)
		}
	}
	if c.then != nil {
		c.then(f)
	}
	time.Sleep(24 * time.Hour)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{given.SkipUnsent(core.ReasonPaused, time.Now())})...)
	ok(t, s.ChangeRuns(ctx, []core.RunPut{
		seen(core.End(second.ID, core.Run{State: core.Succeeded, EndedAt: time.Now()}), &second),
		seen(core.End(failover.ID, core.Run{State: core.Succeeded, Message: long, EndedAt: time.Now()}), &failover),
	})...)
	for _, it := range left() {
		if goes := c.stay == 0 || it["key"] != nil; (it["expires"] != nil) != goes {
			t.Errorf("all is over, and it expires: %t, want %t: %v", !goes, goes, it)
		}
	}
	time.Sleep(30*24*time.Hour - time.Second)
	if n := len(left()); n != 9 { // four runs, the long texts of each, and a key
		t.Errorf("%d items, want 9, a moment before their time is over", n)
	}
	for _, later := range []time.Duration{time.Second, 20 * 365 * 24 * time.Hour} {
		time.Sleep(later)
		if list := left(); len(list) != c.stay {
			t.Errorf("their time is over: %d items, want %d: %v", len(list), c.stay, list)
		}
	}
}

// TestShardsStayUntilTheirBroadcastEnds: one shard of a broadcast takes long and has two attempts. The shard that ended
// first still exists, so the broadcast succeeds; then all of them are removed.
func TestShardsStayUntilTheirBroadcastEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		f.db.TTL = func() time.Duration { return 0 }
		s, ctx := f.store, t.Context()
		ok(t, s.PutGlobal(ctx, 0, core.Global{Partitions: 1, Readable: 1, Rev: 1}))
		job := oneJob(1)
		job.Def.Keep.Days, job.Def.Route, job.Def.Retry = 7, core.RouteBroadcast, core.Retry{Max: 1, On: []core.State{core.Failed}}
		f.create(t, job)
		fin := finish.New(s.Store, finish.Options{})
		whole := oneRun(core.PlannedRun(1, core.InstantOf(time.Now())))
		whole.SentAt, whole.Retries = time.Now(), 1
		n, err := s.RunNumbers(ctx, 1, 2)
		ok(t, err)
		whole.Spread(core.NumberedRun(1, n), []string{"http://10.0.0.1:1/", "http://10.0.0.2:1/"}, false)
		list := []core.Run{whole}
		for i := range whole.Addresses {
			r := whole.ShardRun(whole.Shard.IDOf(i))
			r.State, r.Owner, r.Until, r.Address, r.SentAt = core.Running, "x", time.Now().Add(30*time.Second), whole.Addresses[i], time.Now()
			list = append(list, r)
		}
		ok(t, s.CreateRuns(ctx, list)...)
		ok(t, fin.End(ctx, []finish.Result{{Run: list[1].ID, State: core.Succeeded, Reported: true},
			{Run: list[2].ID, State: core.Failed, Reason: core.ReasonHandler, Reported: true}})...)
		time.Sleep(20 * 24 * time.Hour)
		again := f.Run(list[2].ID).Then
		ok(t, s.ChangeRuns(ctx, []core.RunPut{(&core.Run{ID: again, State: core.Planned}).Take(
			core.Claim{Owner: "y", Until: time.Now().Add(time.Minute)}, "http://10.0.0.2:1/", time.Now(), nil)})...)
		ok(t, fin.End(ctx, []finish.Result{{Run: again, State: core.Succeeded, Reported: true}})...)
		if got := f.Run(whole.ID); got.State != core.Succeeded {
			t.Errorf("its shards have succeeded, and it is %s: %s (%s)", got.State, got.Reason, got.Message)
		}
		time.Sleep(16 * 24 * time.Hour)
		if left := f.items(t, fakeaws.Names.Runs, "job", &types.AttributeValueMemberN{Value: "1"}); len(left) > 0 {
			t.Errorf("their time is over: %v", left)
		}
	})
}

// TestPutBackThroughAnOutage: a requeued message that comes due while no process receives is listed until the queue was
// seen empty. If two messages wait with one due time, the later one counts.
func TestPutBackThroughAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		slot := core.InstantOf(time.Now().Add(-4 * time.Hour))
		named := func(want bool) {
			t.Helper()
			got, err := f.store.Oldest(t.Context())
			ok(t, err)
			if got.PutBack(slot, slot) != want {
				t.Fatalf("the slot is named: %t, want %t", !want, want)
			}
		}
		for i, wait := range []time.Duration{30 * time.Minute, time.Minute} {
			m := ring.Message{Kind: ring.KindFires, Slot: slot,
				Fires: []core.Fire{{Run: core.NumberedRun(1, uint32(i+1)), Slot: slot, Cause: core.CauseRetry}}}
			f.Enqueue(time.Now().Add(wait), m)
		}
		time.Sleep(10 * time.Minute)
		f.Ack(f.Receive(ring.KindFires, 1)...)
		named(true) // the other message waits
		time.Sleep(6 * time.Hour)
		named(true) // and no process receives it
		f.Ack(f.Receive(ring.KindFires, 1)...)
		named(false)
	})
}
