package store_test

import (
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// TestFence: the first planner pass binds the data to its deployment. From then on, the other deployments get errors.
func TestFence(t *testing.T) {
	ctx := t.Context()
	of := func(data store.Store, deployment string) *store.Store {
		data.Deployment = deployment
		return &data
	}
	data := memory.Open(t, memory.Options{})
	here, there := of(*data, "eu-central-1/state"), of(*data, "eu-west-1/state")
	work := func(s *store.Store, can bool) {
		t.Helper()
		errs := map[string]error{"fence": s.Fence(ctx)}
		_, errs["global"] = s.Global(ctx)
		_, errs["run numbers"] = s.RunNumbers(ctx, 1, 1)
		_, errs["job IDs"] = s.JobIDs(ctx, 1)
		_, errs["planner pass"] = s.Own(ctx)
		for what, err := range errs {
			if (err == nil) != can || !can && core.CodeOf(err) != core.CodeRefused {
				t.Errorf("%s: %v; it may: %t", what, err, can)
			}
		}
	}
	check.OK(t, there.Fence(ctx)) // unowned data, which only a planner pass binds
	work(here, true)
	g, err := data.Global(ctx)
	if err != nil || g.Holder != "eu-central-1/state" || g.Generation != 1 {
		t.Fatalf("%+v, %v", g, err)
	}
	work(here, true)
	work(there, false)
	put := func(change func(*core.Global)) {
		t.Helper()
		seen := g.Rev
		change(&g)
		g.Rev++
		check.OK(t, data.PutGlobal(ctx, seen, g))
	}
	put(func(g *core.Global) { g.Holder, g.Opening = "eu-west-1/state", true })
	work(here, false)
	work(there, false)
	put(func(g *core.Global) { g.Opening = false })
	work(here, false)
	work(there, true)
	put(func(g *core.Global) { g.Holder = core.Nobody })
	work(here, false)
	work(there, false)
	// The data of a local file is never bound to a deployment.
	file := memory.Open(t, memory.Options{})
	work(file, true)
	if g, err := file.Global(ctx); err != nil || g.Holder != "" {
		t.Errorf("%+v, %v", g, err)
	}
}
