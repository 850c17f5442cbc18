package cost

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store/dynamo"
)

// applied is a store whose transactions take as long as in AWS, so they conflict at shared items.
type applied struct {
	m            *people.People
	transactions atomic.Int64
}

var ann = core.Actor{Name: "ann"}

func apply(t *testing.T) *applied {
	t.Helper()
	db, q := fakeaws.New(t.Errorf)
	a := &applied{}
	db.Faults = func(_ context.Context, c fakeaws.Call) fakeaws.Fault {
		if c.Op != "TransactWriteItems" {
			return fakeaws.Fault{Wait: storeTakes}
		}
		a.transactions.Add(1)
		return fakeaws.Fault{Wait: 2*storeTakes + time.Duration(c.N)*200*time.Microsecond}
	}
	s, err := dynamo.New(db, q, dynamo.Options{Names: fakeaws.Names})
	check.OK(t, err)
	e := s.Store
	a.m = wiring.New(e, wiring.Options{Plan: plan.AWS()}).People(nil, people.Options{})
	check.Call(t)(a.m.SaveApp(t.Context(), ann, manage.AppSpec{Name: "orders"}))
	return a
}

func orders(n int, of string) []manage.JobSpec {
	specs := make([]manage.JobSpec, n)
	for i := range specs {
		specs[i] = manage.JobSpec{Def: core.Def{App: "orders", Name: fmt.Sprint(of, i), Handler: "work"},
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Hour}}}}
	}
	return specs
}

// save fails the test if a save is rejected, and returns how many jobs it created.
func (a *applied) save(t *testing.T, specs []manage.JobSpec) (created int) {
	t.Helper()
	refused := 0
	var why error
	for _, r := range a.m.Save(t.Context(), ann, specs) {
		if r.Err != nil {
			refused, why = refused+1, r.Err
		}
		if r.Change == manage.Created {
			created++
		}
	}
	if refused > 0 {
		t.Errorf("%d of %d jobs are refused: %v", refused, len(specs), why)
	}
	return created
}

// TestApply: one apply creates any number of new jobs of one app, in as many concurrent transactions as necessary.
func TestApply(t *testing.T) {
	const perTransaction, perCall = 12, 1000
	for _, n := range []int{12, 13, 200, 10_000} {
		if testing.Short() && n > perCall {
			continue
		}
		t.Run(fmt.Sprint(n, " jobs"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := apply(t)
				a.transactions.Store(0)
				if created := a.save(t, orders(n, "j")); created != n {
					t.Errorf("%d of %d are made", created, n)
				}
				want := 0
				for left := n; left > 0; left -= perCall {
					want += (min(left, perCall) + perTransaction - 1) / perTransaction
				}
				check.Equal(t, int(a.transactions.Load()), want, "it took N transactions")
				check.Equal(t, a.save(t, orders(n, "j")), 0, "are made again")
			})
		})
	}
}

// TestApplyBesideOthers: while several users work in one app at the same time, no operation is throttled.
func TestApplyBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := apply(t)
		ctx := t.Context()
		a.save(t, orders(100, "old"))
		var all sync.WaitGroup
		must := func(what string, err error) {
			if err != nil && core.CodeOf(err) != core.CodeConflict {
				t.Errorf("%s: %v", what, err)
			}
		}
		var made atomic.Int64
		for _, of := range []string{"ann", "bob", "both", "both"} {
			all.Go(func() { made.Add(int64(a.save(t, orders(200, of)))) })
		}
		for i := range 50 { // as many requests of an API, a job each
			all.Go(func() { made.Add(int64(a.save(t, orders(1, fmt.Sprint("one", i, "-"))))) })
		}
		for i := range 30 {
			job := fmt.Sprint("orders/old", i)
			all.Go(func() {
				_, err := a.m.Trigger(ctx, ann, operate.TriggerRequest{Job: job})
				must("trigger", err)
			})
			all.Go(func() {
				_, err := a.m.Pause(ctx, ann, manage.Target{Job: job}, manage.PauseRequest{})
				must("pause", err)
			})
			all.Go(func() {
				_, err := a.m.Delete(ctx, ann, fmt.Sprint("orders/old", 99-i), nil)
				must("delete", err)
			})
		}
		all.Go(func() {
			_, err := a.m.Pause(ctx, ann, manage.Target{App: "orders"}, manage.PauseRequest{})
			must("pause of the app", err)
		})
		all.Go(func() {
			_, err := a.m.SaveApp(ctx, ann, manage.AppSpec{Name: "orders", Title: "new"})
			must("edit of the app", err)
		})
		all.Wait()
		check.Equal(t, made.Load(), 3*200+50, "jobs were created, want each once")
	})
}
