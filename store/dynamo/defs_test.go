package dynamo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// TestDefinitionOfTheRevision: a definition is read once for each revision and is never returned with the sched item of
// another revision. The next read sees a change by another process.
func TestDefinitionOfTheRevision(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	s, err := dynamo.New(f.db, f.sqs, dynamo.Options{Names: fakeaws.Names})
	ok(t, err)
	another := &fixture.Store{Store: s.Store, T: t}
	j := oneJob(1)
	f.create(t, j)
	read := func(what string, units float64) core.Job {
		t.Helper()
		f.db.Units()
		found := f.JobOf(1)
		check.Equal(t, f.db.Units().Read, units, "%s: read units", what)
		return found
	}
	change := func(change func(*core.Job)) { another.Edit(1, func(j *core.Job) { change(j); j.Sched.Rev++ }) }
	read("first", 1.5)
	read("again", 1)
	change(func(j *core.Job) { j.Def.Params = "another" })
	if got := read("its definition was changed", 1.5); got.Def.Params != "another" || got.Sched.Rev != 101 {
		t.Errorf("params %q with revision %d", got.Def.Params, got.Sched.Rev)
	}
	change(func(j *core.Job) { j.Sched.State = core.Paused })
	if got := read("it was paused", 1); got.Sched.State != core.Paused || got.Sched.Rev != 102 || got.Def.Params != "another" {
		t.Errorf("%s with revision %d and params %q", got.Sched.State, got.Sched.Rev, got.Def.Params)
	}
	another.Delete(1, base)
	check.Equal(t, f.JobOf(1).Def.ID, 0, "of a job that was deleted")
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
		if found := (&fixture.Store{Store: s.Store, T: t}).JobOf(1); found.Def.Params != params || found.Sched.Rev != rev {
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
	check.Equal(t, first, jobs*(1+ofDef/2), "units of the first read")
	if out := (again - jobs) / (ofDef / 2); out < 0.05*jobs || out > 0.5*jobs {
		t.Errorf("of %d definitions %g were read again", jobs, out)
	}
}
