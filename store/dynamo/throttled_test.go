package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// TestOneThrottledKeyFailsNoOther: of many keys one stays throttled, as on a hot partition. Each read returns the other
// values, and core.ErrThrottled for that key.
func TestOneThrottledKeyFailsNoOther(t *testing.T) {
	const n, hot = 60, 7 // in one request
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		e, ctx := f.store.Store, t.Context()
		jobs, runs, ids, runIDs := make([]core.Job, n), make([]store.RunPut, n), make([]core.JobID, n), make([]core.RunID, n)
		keys, groups, names := make([]store.Key, n), make([]store.Group, n), make([]string, n)
		type value struct{ Name string }
		table := store.Table[value]{Kind: "k", Name: func(v *value) string { return v.Name }, Version: func(*value) int64 { return 1 }}
		for i := range n {
			ids[i], runIDs[i], names[i] = core.JobID(i+1), core.PlannedRun(core.JobID(i+1), core.InstantOf(base)), fmt.Sprint(i)
			jobs[i], keys[i] = oneJob(ids[i]), table.Key(names[i])
			r := oneRun(runIDs[i])
			runs[i].Create = &r
			w, err := table.Put(nil, value{names[i]}, store.Absent)
			ok(t, err)
			groups[i].Writes = []store.Write{w}
		}
		f.create(t, jobs...)
		ok(t, e.Runs.Put(ctx, runs)...)
		ok(t, e.Records.Write(ctx, groups...)...)
		f.db.Faults = func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
			if c.Op != "BatchGetItem" {
				return fakeaws.Fault{}
			}
			return fakeaws.Fault{Part: func(i int) bool { return c.N == 1 || c.N == n && i == hot }} // the second request has only that key
		}
		judge := func(what string, i int, is bool, err error) {
			if throttled := errors.Is(err, core.ErrThrottled); !is || throttled != (i == hot) || !throttled && err != nil {
				t.Errorf("%s: key %d of %d, of which key %d is throttled: found %t, %v", what, i, n, hot, is, err)
			}
		}
		records, err := e.Records.Get(ctx, keys...)
		ok(t, err)
		values, err := table.Get(ctx, e, names...)
		ok(t, err)
		whole, err := e.Jobs.Get(ctx, store.Whole, ids)
		ok(t, err)
		planned, err := e.Jobs.Get(ctx, store.Planning, ids)
		ok(t, err)
		stored, err := e.Runs.Get(ctx, runIDs)
		ok(t, err)
		for i := range n {
			record, is := records[keys[i]]
			judge("Records.Get", i, is, record.Err)
			value, is := values[names[i]]
			judge("Table.Get", i, is, value.Err)
			j, is := whole[ids[i]]
			judge("Jobs.Get", i, is, j.Err)
			sched, is := planned[ids[i]]
			judge("Jobs.Get of planning", i, is, sched.Err)
			run, is := stored[runIDs[i]]
			judge("Runs.Get", i, is, run.Err)
		}
	})
}
