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

// TestOneThrottledWriteFailsNoOther: of many writes one stays throttled. The other writes are made, and the write that is
// reported as throttled is not.
func TestOneThrottledWriteFailsNoOther(t *testing.T) {
	const n, hot = 20, 7 // in one request
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		e, ctx := f.store.Store, t.Context()
		runs, groups, keys, ids := make([]store.RunPut, n), make([]store.Group, n), make([]store.Key, n), make([]core.RunID, n)
		changes := make([]store.Group, n) // of no job: one record each
		for i := range n {
			ids[i], keys[i] = core.PlannedRun(core.JobID(i+1), core.InstantOf(base)), store.Key{Kind: "k", Name: fmt.Sprint(i)}
			r := oneRun(ids[i])
			runs[i].Create = &r
			groups[i].Writes = []store.Write{{Record: store.Record{Key: keys[i], V: 1}, Was: store.Any}}
			changes[i].Changes = []core.Change{{ID: int64(i + 1), At: base, App: "orders"}}
		}
		f.db.Faults = func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
			return fakeaws.Fault{Part: func(i int) bool { return c.Write && (c.N == 1 || i == hot) }}
		}
		put, written, changed := e.Runs.Put(ctx, runs), e.Records.Write(ctx, groups...), e.Records.Write(ctx, changes...)
		stored, err := e.Runs.Get(ctx, ids)
		ok(t, err)
		records, err := e.Records.Get(ctx, keys...)
		ok(t, err)
		for i := range n {
			_, is := stored[ids[i]]
			_, has := records[keys[i]]
			for what, err := range map[string]error{"run": put[i], "record": written[i], "change record": changed[i]} {
				if throttled := errors.Is(err, core.ErrThrottled); throttled != (i == hot) || !throttled && err != nil {
					t.Errorf("%s %d of %d: %v", what, i, n, err)
				}
			}
			if is != (i != hot) || has != (i != hot) {
				t.Errorf("write %d of %d: run %t, record %t", i, n, is, has)
			}
		}
	})
}
