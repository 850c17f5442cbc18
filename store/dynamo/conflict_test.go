package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// transactionsTake delays each transaction, so that they overlap.
func transactionsTake(d time.Duration) fakeaws.Faults {
	return always(fakeaws.Fault{Wait: d}, "TransactWriteItems")
}

func (f *fakes) app(t *testing.T) core.App {
	t.Helper()
	found, err := f.store.Apps(t.Context(), "orders")
	ok(t, err, found["orders"].Err)
	return found["orders"].Is
}

// TestManyJobsOfOneApp: no two transactions of one call share an item, for created, changed, deleted and resumed jobs.
func TestManyJobsOfOneApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		s, ctx := f.store, t.Context()
		f.create(t) // the app
		f.db.Faults = transactionsTake(20 * time.Millisecond)
		const n, perTransaction = 500, 12
		jobs, changes, updates := make([]core.Job, n), make([]core.Change, n), make([]store.JobPut, n)
		moves, ends := make([]core.Advance, n), make([]store.JobPut, n)
		for i := range jobs {
			jobs[i] = oneJob(core.JobID(i + 1))
			changes[i] = core.Change{ID: 100, App: "orders", Job: jobs[i].Def.ID}
			updates[i] = update(100, jobs[i], core.Change{ID: 101, App: "orders", Job: jobs[i].Def.ID})
			updates[i].Update.Job.Sched.Rev, updates[i].Update.Job.Def.Title = 101, "new"
			moves[i] = updates[i].Update.Job.Sched.Stay()
			moves[i].NewRev = 102
			ends[i] = store.JobPut{Advance: &moves[i], Changes: []core.Change{{ID: 102, App: "orders", Job: jobs[i].Def.ID}}}
		}
		transactions := func(what string, want int, do func()) {
			f.db.Units()
			do()
			check.Equal(t, f.db.Units().Requests["TransactWriteItems"], want, "%s: transactions, of which some met", what)
		}
		transactions("making", (n+perTransaction-1)/perTransaction, func() { ok(t, createJobs(ctx, s, jobs, changes)...) })
		transactions("changing", n, func() { ok(t, updateJobs(ctx, s, updates...)...) })
		transactions("ends of pauses", n, func() { ok(t, s.Store.Jobs.Put(ctx, ends)...) })
		transactions("triggers", n, func() {
			var all sync.WaitGroup
			for i := range jobs {
				all.Go(func() {
					run := oneRun(core.NumberedRun(jobs[i].Def.ID, 1))
					entry := core.DueItem{PlanAt: 1, Job: run.ID.Job(), Run: run.ID}
					check.NoError(t, s.Store.Runs.Put(ctx, []store.RunPut{{Create: &run, Enter: &entry}})[0])
					check.NoError(t, s.PutChanges(ctx, []core.Change{{ID: 103, App: "orders", Job: jobs[i].Def.ID}}))
				})
			}
			all.Wait()
		})
		transactions("deleting", n, func() {
			var all sync.WaitGroup
			for i := range jobs {
				all.Go(func() {
					stone := core.Tombstone{Job: jobs[i].Def.ID, App: "orders", Name: jobs[i].Def.Name, Rev: 104}
					check.NoError(t, deleteJob(ctx, s, 102, stone, core.Change{ID: 104, App: "orders", Job: stone.Job}))
				})
			}
			all.Wait()
		})
	})
}

// TestJobsOfManyApps: a transaction has room for jobs each of which is of an app
// of its own.
func TestJobsOfManyApps(t *testing.T) {
	f := newFakes(t, dynamo.Options{})
	jobs, changes := make([]core.Job, 50), make([]core.Change, 50)
	for i := range jobs {
		jobs[i] = oneJob(core.JobID(i + 1))
		app := fmt.Sprint("app-", i)
		jobs[i].Def.App, jobs[i].Sched.App, changes[i] = app, app, core.Change{ID: 100, App: app, Job: jobs[i].Def.ID}
		ok(t, f.store.PutApp(t.Context(), 0, core.App{Name: app, Rev: 1}, core.Change{ID: 1, App: app}))
	}
	ok(t, createJobs(t.Context(), f.store, jobs, changes)...)
}

// TestPeopleMeet: if many users change one job or app at the same moment, one succeeds and the others get a conflict. No
// request reports throttling.
func TestPeopleMeet(t *testing.T) {
	for what, change := range map[string]func(context.Context, *fakes, int) error{
		"a job": func(ctx context.Context, f *fakes, i int) error {
			j := oneJob(1)
			j.Sched.Rev = int64(200 + i)
			return updateJobs(ctx, f.store, update(100, j, core.Change{ID: j.Sched.Rev, App: "orders", Job: 1}))[0]
		},
		"an app": func(ctx context.Context, f *fakes, i int) error {
			return f.store.PutApp(ctx, 1, core.App{Name: "orders", Rev: int64(2 + i)}, core.Change{ID: int64(2 + i), App: "orders"})
		},
		"a new job": func(ctx context.Context, f *fakes, i int) error {
			j := oneJob(core.JobID(2 + i))
			j.Def.Name = "one"
			return createJobs(ctx, f.store, []core.Job{j}, nil)[0]
		},
	} {
		fixture.Bubble(t, what, func(t *testing.T) {
			f := newFakes(t, dynamo.Options{Insist: time.Minute}) // this many rarely finish within a second
			f.create(t, oneJob(1))
			f.db.Faults = transactionsTake(20 * time.Millisecond)
			errs := make([]error, 10)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { errs[i] = change(t.Context(), f, i) })
			}
			all.Wait()
			done := 0
			for _, err := range errs {
				switch {
				case err == nil:
					done++
				case !errors.Is(err, core.ErrRefused):
					t.Error(err)
				}
			}
			check.Equal(t, done, 1, "of them changed it")
		})
	}
}

// TestTriesEnd: a locked item is retried for a limited time and at most as long as the caller waits. The client has
// already retried a request that was throttled as a whole.
func TestTriesEnd(t *testing.T) {
	met := &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
	for _, c := range []struct {
		answer        error
		insist, waits time.Duration
		most          time.Duration
		least         int // tries
	}{{met, 0, time.Hour, time.Second, 4}, {met, time.Nanosecond, time.Hour, 0, 1}, {met, time.Hour, 10 * time.Second, 10 * time.Second, 20},
		{fakeaws.Throttled(), 0, time.Hour, 0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakes(t, dynamo.Options{Insist: c.insist})
			f.create(t, oneJob(1))
			asked := 0
			f.db.Faults = func(_ context.Context, call fakeaws.Call) fakeaws.Fault {
				if call.Op != "TransactWriteItems" {
					return fakeaws.Fault{}
				}
				asked++
				return fakeaws.Fault{Before: c.answer}
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.waits)
			defer cancel()
			began := time.Now()
			err := f.store.PutApp(ctx, 1, core.App{Name: "orders", Rev: 2}, core.Change{ID: 2, App: "orders"})
			if !errors.Is(err, core.ErrThrottled) {
				t.Errorf("it answers %v", err)
			}
			if took := time.Since(began); took > c.most || asked < c.least || asked > 1 && c.least == 1 {
				t.Errorf("%v: asked %d times within %s", c.answer, asked, took)
			}
		})
	}
}

// process is one call of the store that stops before a request of its own.
type process struct {
	at, n   int
	reached chan struct{} // closed when it stops, or ends before it would
	goOn    chan struct{}
	over    chan struct{}
	err     error
}

type processKey struct{}

func (p *process) run(ctx context.Context, do func(context.Context) error) {
	p.reached, p.goOn, p.over = make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(p.over)
		p.err = do(context.WithValue(ctx, processKey{}, p))
		if p.n < p.at {
			close(p.reached)
		}
	}()
	<-p.reached
}

func (p *process) asks() {
	if p.n++; p.n == p.at {
		close(p.reached)
		<-p.goOn
	}
}

// TestAppDeletedWhileAJobIsMade: either side stops before any of its requests, briefly or longer than a mark counts. No
// job is ever left without its app, and every answer is true.
func TestAppDeletedWhileAJobIsMade(t *testing.T) {
	const most = 9 // requests of either, and one more
	both := 0
	for _, stopped := range []time.Duration{0, time.Minute} {
		for _, makerFirst := range []bool{true, false} {
			for i := 1; i <= most; i++ {
				for k := 1; k <= most; k++ {
					synctest.Test(t, func(t *testing.T) {
						f := newFakes(t, dynamo.Options{})
						f.create(t) // the app
						f.db.Faults = func(ctx context.Context, _ fakeaws.Call) fakeaws.Fault {
							if p, is := ctx.Value(processKey{}).(*process); is {
								p.asks()
							}
							return fakeaws.Fault{}
						}
						maker, deleter := &process{at: i}, &process{at: k}
						made := func(ctx context.Context) error {
							return createJobs(ctx, f.store, []core.Job{oneJob(1)}, []core.Change{{ID: 100, App: "orders", Job: 1}})[0]
						}
						deleted := func(ctx context.Context) error {
							return f.store.DeleteApp(ctx, 1, "orders", core.Change{ID: 2, App: "orders"})
						}
						first, second, firstCall, secondCall := maker, deleter, made, deleted
						if !makerFirst {
							first, second, firstCall, secondCall = deleter, maker, deleted, made
						}
						first.run(t.Context(), firstCall)
						time.Sleep(stopped)
						second.run(t.Context(), secondCall)
						time.Sleep(stopped)
						close(first.goOn)
						<-first.over
						close(second.goOn)
						<-second.over
						job, app := f.JobOf(1).Def.ID != 0, f.app(t).Rev != 0
						if job && !app || job != (maker.err == nil) || app == (deleter.err == nil) {
							t.Errorf("stopped for %s before request %d of the maker (first: %v) and %d of the deleter: job %v, %v; app %v, %v",
								stopped, i, makerFirst, k, job, maker.err, app, deleter.err)
						}
						if maker.n >= i && deleter.n >= k {
							both++
						}
					})
				}
			}
		}
	}
	if both < 80 {
		t.Errorf("only %d times both were stopped", both)
	}
}

// TestMarkOfADeadDeleter: an app whose deletion died accepts jobs once its mark has expired, and none before. Without jobs it can be
// deleted, even if it has more executors than a transaction has actions.
func TestMarkOfADeadDeleter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakes(t, dynamo.Options{})
		f.create(t)
		ctx, die := context.WithCancel(t.Context())
		f.db.Faults = func(ctx context.Context, c fakeaws.Call) fakeaws.Fault {
			if c.Op == "Query" {
				die()
			}
			return fakeaws.Fault{}
		}
		if err := f.store.DeleteApp(ctx, 1, "orders", core.Change{ID: 2, App: "orders"}); err == nil {
			t.Fatal("it did not die")
		}
		f.db.Faults = nil
		if err := createJobs(t.Context(), f.store, []core.Job{oneJob(1)}, nil)[0]; !errors.Is(err, core.ErrRefused) {
			t.Errorf("in an app that is being deleted: %v", err)
		}
		time.Sleep(31 * time.Second)
		ok(t, createJobs(t.Context(), f.store, []core.Job{oneJob(1)}, nil)...)
		f.Delete(1, time.Now())
		for i := range items.ActionsPerTransact + 1 {
			ok(t, f.store.PutExecutor(t.Context(), core.Executor{App: "orders", Address: fmt.Sprintf("http://10.0.0.1:%d/", 1+i), Beat: time.Now()}))
		}
		ok(t, f.store.DeleteApp(t.Context(), 1, "orders", core.Change{ID: 2, App: "orders"}))
		check.Equal(t, f.app(t).Rev, 0, "of the deleted app")
	})
}
