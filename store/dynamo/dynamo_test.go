package dynamo_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/store/storetest"
)

// visibility is in whole seconds, as SQS has it.
const visibility = time.Second

// fakes are an engine's clients and its store over them.
type fakes struct {
	*fixture.Store
	db    *fakeaws.DynamoDB
	sqs   *fakeaws.SQS
	store *dynamo.Store
}

func newFakes(t testing.TB, o dynamo.Options) *fakes {
	t.Helper()
	f := &fakes{}
	f.db, f.sqs = fakeaws.New(t.Errorf)
	if o.Names == (dynamo.Names{}) {
		o.Names = fakeaws.Names
	}
	if o.Visibility == 0 {
		o.Visibility = visibility
	}
	o.Secrets = storetest.NewBox()
	var err error
	if f.store, err = dynamo.New(f.db, f.sqs, o); err != nil {
		t.Fatal(err)
	}
	f.Store = &fixture.Store{Store: f.store.Store, T: t}
	fakeaws.Receive(f.store, f.sqs, o)
	return f
}

// accounts are AWS behaviors under which every promise of an engine holds, because callers do not notice them. Duplicate
// and lost answers, which callers notice, are tested in internal/testkit/sim.
var accounts = []struct {
	name string
	has  fakeaws.Account
}{
	{"fine", fakeaws.Account{}},
	{"short pages and receipts", fakeaws.Account{Short: 1}},
	{"a part of each batch is refused", fakeaws.Account{Refused: 0.6}},
	{"the index is up to a second behind", fakeaws.Account{Lag: time.Second}},
	{"requests overtake each other", fakeaws.Account{Slow: 1, SlowFor: time.Millisecond, Torn: 1}},
	{"all of it", fakeaws.Account{Short: 0.3, Refused: 0.3, Conflict: 0.1, Slow: 0.3, SlowFor: time.Millisecond, Torn: 0.3,
		Lag: time.Second, TTL: 48 * time.Hour, Capacity: 1, Spent: 0.1}},
}

// TestEngine runs storetest over the fakes in each account, each case in a bubble of its own.
func TestEngine(t *testing.T) {
	for n, a := range accounts {
		of := map[*store.Store]*fakes{}
		damage := func(t *testing.T, s *store.Store, job core.JobID) {
			of[s].damage(t, &fakeaws.Names.Jobs, "Schedule", map[string]types.AttributeValue{
				"id": &types.AttributeValueMemberS{Value: "job#" + job.String()}, "part": &types.AttributeValueMemberS{Value: "sched"}})
		}
		setOwes := func(t *testing.T, s *store.Store, run core.RunID, text string) {
			of[s].set(t, &fakeaws.Names.Runs, "Owes", text, map[string]types.AttributeValue{
				"job": &types.AttributeValueMemberN{Value: run.Job().String()}, "run": &types.AttributeValueMemberN{Value: run.String()}})
		}
		h := storetest.Harness{Visibility: visibility, Coarse: time.Second, Expires: true, Patience: 5 * time.Second,
			Wait:   func(_ *store.Store, d time.Duration) { time.Sleep(d) },
			Damage: damage, SetOwes: setOwes, TakeLetters: func(ctx context.Context, s *store.Store) error {
				_, err := s.Records.(*dynamo.Store).TakeLetters(ctx, func(context.Context, *core.Letter) error { return nil })
				return err
			}, Open: func(t *testing.T) *store.Store {
				// The runs of RunPuts, all of one job, fill its partition for seconds.
				f := newFakes(t, dynamo.Options{Insist: time.Minute})
				if a.has.Use(f.db, f.sqs, uint64(n)); f.db.TTL == nil {
					f.db.TTL = func() time.Duration { return 0 } // an item is removed the moment it expires
				}
				of[f.Store.Store] = f
				return f.Store.Store
			}}
		t.Run(a.name, func(t *testing.T) {
			for _, c := range storetest.Cases {
				t.Run(c.Name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { c.Run(t, h) })
				})
			}
		})
	}
}

// damage makes a field of an item unreadable.
func (f *fakes) damage(t *testing.T, table *string, field string, key map[string]types.AttributeValue) {
	t.Helper()
	f.set(t, table, field, "{", key)
}

// set replaces a field of an item.
func (f *fakes) set(t *testing.T, table *string, field, text string, key map[string]types.AttributeValue) {
	t.Helper()
	faults := f.db.Faults
	f.db.Faults = nil
	defer func() { f.db.Faults = faults }()
	_, err := f.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: table, Key: key,
		UpdateExpression: aws.String("SET #s = :s"), ExpressionAttributeNames: map[string]string{"#s": field},
		ExpressionAttributeValues: map[string]types.AttributeValue{":s": &types.AttributeValueMemberS{Value: text}}})
	check.OK(t, err)
}

// always injects a fault into each request of these operations.
func always(fault fakeaws.Fault, ops ...string) fakeaws.Faults {
	return func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
		for _, op := range ops {
			if op == c.Op {
				return fault
			}
		}
		return fakeaws.Fault{}
	}
}

func createJobs(ctx context.Context, s *dynamo.Store, jobs []core.Job, changes []core.Change) []error {
	puts := make([]store.JobPut, len(jobs))
	for i := range jobs {
		if puts[i].Create = &jobs[i]; i < len(changes) {
			puts[i].Changes = changes[i : i+1]
		}
	}
	return updateJobs(ctx, s, puts...)
}

func update(seen int64, j core.Job, c core.Change) store.JobPut {
	return store.JobPut{Update: &store.JobUpdate{Seen: seen, Job: j}, Changes: []core.Change{c}}
}

func updateJobs(ctx context.Context, s *dynamo.Store, puts ...store.JobPut) []error {
	return s.Store.Jobs.Put(ctx, puts)
}

func deleteJob(ctx context.Context, s *dynamo.Store, seen int64, t core.Tombstone, c core.Change) error {
	return updateJobs(ctx, s, store.JobPut{Delete: &store.JobDelete{Seen: seen, Tombstone: t}, Changes: []core.Change{c}})[0]
}

func getJobs(ctx context.Context, s *dynamo.Store, part store.Part, ids []core.JobID) (map[core.JobID]*core.Job, error) {
	return store.Complete(s.Store.Jobs.Get(ctx, part, ids))
}

func listJobs(ctx context.Context, s *dynamo.Store, app string, after core.JobID, limit int) (list []core.Job, next core.JobID, err error) {
	page, next, err := s.Store.Jobs.List(ctx, app, after, limit)
	for _, g := range page {
		list, err = append(list, *g.Is), errors.Join(err, g.Err)
	}
	return list, next, err
}
