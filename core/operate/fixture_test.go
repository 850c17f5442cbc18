package operate_test

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
	"github.com/tickring/tickring/store"
)

// fixture has the use cases on SQLite in memory.
type fixture struct{ *usecasetest.Fixture }

func newFixture(t testing.TB) *fixture { return &fixture{usecasetest.New(t)} }

type faults = usecasetest.Faults

var (
	ctx, ann, start   = usecasetest.Ctx, usecasetest.Ann, usecasetest.Start
	every, spec       = usecasetest.Every, usecasetest.Spec
	fails, must       = usecasetest.Fails, check.OK
	newRun            = usecasetest.Run
	planned, numbered = core.PlannedRun, core.NumberedRun
)

// inAWS returns the use cases of a process in AWS over a store, with pages that end after a time.
func (f *fixture) inAWS(s *store.Store, pageFor time.Duration) *people.People {
	return people.New(s, nil, nil, people.Options{Plan: plan.AWS(), Ask: query.Options{Now: f.Now, PageFor: pageFor}})
}

// lost notes a loss of messages.
func (f *fixture) lost(loss core.Loss) {
	f.T.Helper()
	g, err := f.E.Global(ctx)
	must(f.T, err)
	seen := g.Rev
	g.Loss, g.Rev = loss, seen+1
	must(f.T, f.E.PutGlobal(ctx, seen, g))
}

// sent empties the delay queue and returns how often each run was in it.
func (f *fixture) sent() map[core.RunID]int {
	f.T.Helper()
	got := map[core.RunID]int{}
	for _, x := range f.Fires() {
		got[x.Run]++
	}
	return got
}
