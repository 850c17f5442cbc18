package dynamo_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
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
			if a.name != "all of it" {
				check.Long(t)
			}
			for _, c := range storetest.Cases {
				fixture.Bubble(t, c.Name, func(t *testing.T) { c.Run(t, h) })
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

// TestLetterThatCannotBeRecorded: a dead-letter message that cannot be recorded does not delay others.
func TestLetterThatCannotBeRecorded(t *testing.T) {
	db, queues := fakeaws.New(t.Errorf)
	s, err := dynamo.New(db, queues, dynamo.Options{Names: fakeaws.Names})
	check.OK(t, err)
	for _, reason := range []string{"one", "two", "three"} {
		check.OK(t, s.BuryRaw(t.Context(), "{}", reason))
	}
	refused := errors.New("throttled")
	var asked atomic.Int64
	_, err = s.TakeLetters(t.Context(), func(context.Context, *core.Letter) error {
		if asked.Add(1) == 1 {
			return refused
		}
		return nil
	})
	if !errors.Is(err, refused) || asked.Load() != 3 {
		t.Errorf("%d letters of three were recorded: %v", asked.Load(), err)
	}
}

func TestCopiedTablesHideSecrets(t *testing.T) {
	db, queues := fakeaws.New(t.Errorf)
	storetest.Secrets(t, func(box *secretbox.Box) *store.Store {
		s, err := dynamo.New(db, queues, dynamo.Options{Names: fakeaws.Names, Secrets: box})
		check.OK(t, err)
		return s.Store
	}, db.Dump)
}

// TestBlank: a store is blank until it has an app, without which no job is created, or a channel.
func TestBlank(t *testing.T) {
	for what, put := range map[string]func(context.Context, *dynamo.Store) error{
		"an app": func(ctx context.Context, s *dynamo.Store) error {
			return s.PutApp(ctx, 0, core.App{Name: "orders", Rev: 1}, core.Change{ID: 1, App: "orders"})
		},
		"a channel": func(ctx context.Context, s *dynamo.Store) error {
			return s.PutChannel(ctx, 0, core.Channel{Name: "team", Rev: 1}, core.Change{ID: 1})
		},
	} {
		s, ctx := newFakes(t, dynamo.Options{}).store, t.Context()
		if err := createJobs(ctx, s, []core.Job{oneJob(1)}, []core.Change{{ID: 1, App: "orders", Job: 1}})[0]; !errors.Is(err, core.ErrRefused) {
			t.Errorf("a job without an app: %v", err)
		}
		before, err := s.Blank(ctx)
		ok(t, err, put(ctx, s))
		if after, err := s.Blank(ctx); !before || after || err != nil {
			t.Errorf("%s: %t before, %t after, %v", what, before, after, err)
		}
	}
}

// TestNoRunWaitsWithoutNote: a run whose record cannot be stored does not wait. A leftover record names no run, and the
// next reader removes it.
func TestNoRunWaitsWithoutNote(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, ctx := f.store, t.Context()
	queued := func(n uint32) core.Run {
		r := oneRun(core.NumberedRun(1, n))
		r.State, r.Owner, r.Until, r.Address, r.SentAt, r.Journal = core.Queued, "", time.Time{}, "", time.Time{}, core.JournalKey{}
		return r
	}
	f.db.Faults = always(fakeaws.Fault{Before: fakeaws.Throttled()}, "PutItem")
	refused := queued(1)
	if err := s.CreateRuns(ctx, []core.Run{refused})[0]; err == nil {
		t.Error("a run waits without a note")
	}
	f.db.Faults = nil
	check.Equal(t, f.Run(refused.ID).ID, 0, "it is stored")
	run := queued(2)
	ok(t, s.CreateRuns(ctx, []core.Run{run})...)
	f.db.Faults = always(fakeaws.Fault{Before: fakeaws.Throttled()}, "DeleteItem")
	ok(t, s.ChangeRuns(ctx, []core.RunPut{run.SkipUnsent(core.ReasonCancelled, base)})...)
	f.db.Faults = nil
	notes := func() int {
		return len(f.items(t, fakeaws.Names.State, "of", &types.AttributeValueMemberS{Value: "waiting/1"}))
	}
	before := notes()
	list, err := s.WaitingRuns(ctx, 1, core.NumberedRun(1, core.MaxNumber), 10)
	ok(t, err)
	if after := notes(); len(list) != 0 || before != 1 || after != 0 {
		t.Errorf("of a run that ended: %+v waits, %d notes, %d afterwards", list, before, after)
	}
}
