package dynamo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// TestDefinitionOfTheRevision: a definition is read once for each revision and is never returned with the sched item of
// another revision. The next read sees a change by another process.
func TestDefinitionOfTheRevision(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	ctx := t.Context()
	another, err := dynamo.New(f.db, f.sqs, dynamo.Options{Names: fakeaws.Names})
	ok(t, err)
	j := oneJob(1)
	f.create(t, j)
	read := func(what string, units float64) core.Job {
		t.Helper()
		f.db.Units()
		found, err := getJobs(ctx, f.store, store.Whole, []core.JobID{1})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if u := f.db.Units(); u.Read != units {
			t.Errorf("%s: %g read units, want %g", what, u.Read, units)
		}
		return *found[1]
	}
	change := func(to core.Job) {
		t.Helper()
		found, err := getJobs(ctx, another, store.Whole, []core.JobID{1})
		ok(t, err)
		seen := found[1].Sched.Rev
		to.Sched.Rev = seen + 1
		ok(t, updateJobs(ctx, another, update(seen, to, core.Change{ID: to.Sched.Rev, App: "orders", Job: 1}))...)
	}
	read("first", 1.5)
	read("again", 1)
	j.Def.Params = "another"
	change(j)
	if got := read("its definition was changed", 1.5); got.Def.Params != "another" || got.Sched.Rev != 101 {
		t.Errorf("params %q with revision %d", got.Def.Params, got.Sched.Rev)
	}
	j.Sched.State = core.Paused
	change(j)
	if got := read("it was paused", 1); got.Sched.State != core.Paused || got.Sched.Rev != 102 || got.Def.Params != "another" {
		t.Errorf("%s with revision %d and params %q", got.Sched.State, got.Sched.Rev, got.Def.Params)
	}
	ok(t, deleteJob(ctx, another, 102, core.Tombstone{Job: 1, App: "orders", Name: j.Def.Name, Rev: 103, RevAt: base},
		core.Change{ID: 103, App: "orders", Job: 1}))
	found, err := getJobs(ctx, f.store, store.Whole, []core.JobID{1})
	if ok(t, err); len(found) > 0 {
		t.Errorf("of a job that was deleted: %v", found)
	}
}

// older is a DynamoDB whose eventually consistent reads always return the answer of the first one.
type older struct {
	*fakeaws.DynamoDB
	was *dynamodb.BatchGetItemOutput
}

func (o *older) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (
	*dynamodb.BatchGetItemOutput, error,
) {
	weak := in.RequestItems[fakeaws.Names.Jobs].ConsistentRead == nil
	if weak && o.was != nil {
		return o.was, nil
	}
	out, err := o.DynamoDB.BatchGetItem(ctx, in)
	if weak {
		o.was = out
	}
	return out, err
}

// TestAnOlderDefinitionIsReadAgain: the first read of a definition may return an older state than the schedule, which names a
// newer revision.
func TestAnOlderDefinitionIsReadAgain(t *testing.T) {
	f, db := newFakes(t, dynamo.Options{}), &older{}
	db.DynamoDB = f.db
	j := oneJob(1)
	f.create(t, j)
	for n, params := range []string{"", "new"} {
		rev := int64(100 + 100*n)
		if j.Def.Params, j.Sched.Rev = params, rev; n > 0 {
			ok(t, updateJobs(t.Context(), f.store, update(100, j, core.Change{ID: 200, App: "orders", Job: 1}))...)
		}
		s, err := dynamo.New(db, f.sqs, dynamo.Options{Names: fakeaws.Names})
		ok(t, err)
		found, err := getJobs(t.Context(), s, store.Whole, []core.JobID{1})
		if ok(t, err); found[1] == nil || found[1].Def.Params != params || found[1].Sched.Rev != rev {
			t.Fatalf("found %+v", found)
		}
	}
}

// TestDefinitionsAreBounded: the cache has a limit, and evicted definitions are read again.
func TestDefinitionsAreBounded(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	ctx := t.Context()
	const jobs, size = 600, 60 << 10 // together more than 32 MB
	var list []core.Job
	var ids []core.JobID
	for i := range jobs {
		j := oneJob(core.JobID(i + 1))
		j.Def.Name, j.Def.Params = fmt.Sprint("job-", i), strings.Repeat("p", size)
		list, ids = append(list, j), append(ids, j.Def.ID)
	}
	f.create(t, list...)
	read := func() float64 {
		f.db.Units()
		found, err := getJobs(ctx, f.store, store.Whole, ids)
		if ok(t, err); len(found) != jobs {
			t.Fatalf("%d found", len(found))
		}
		return f.db.Units().Read
	}
	const ofDef = 16 // units of a definition of 60 KB
	first, again := read(), read()
	if first != jobs*(1+ofDef/2) {
		t.Errorf("the first read: %g units", first)
	}
	if out := (again - jobs) / (ofDef / 2); out < 0.05*jobs || out > 0.5*jobs {
		t.Errorf("of %d definitions %g were read again", jobs, out)
	}
}
