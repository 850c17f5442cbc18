package engine_test

import (
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/engine/memory"
)

// The first tick binds the data to its deployment, and from then on all that
// must not act elsewhere is refused there.
func TestFenced(t *testing.T) {
	ctx := t.Context()
	data := memory.Open(memory.Options{})
	here, there := engine.Fenced(data, "eu-central-1/state"), engine.Fenced(data, "eu-west-1/state")
	all := func(e *engine.Engine) map[string]error {
		errs := map[string]error{}
		_, errs["dispatch"] = e.Dispatch.Global(ctx)
		_, errs["finish"] = e.Finish.Global(ctx)
		_, errs["manage"] = e.Manage.Global(ctx)
		_, errs["numbers of a retry"] = e.Finish.Numbers(ctx, 1, 1)
		_, errs["numbers of a trigger"] = e.Manage.Numbers(ctx, 1, 1)
		_, errs["numbers of jobs"] = e.Manage.NewJobIDs(ctx, 1)
		_, errs["tick"] = e.Tick.Global(ctx)
		return errs
	}
	work := func(e *engine.Engine, can bool) {
		t.Helper()
		for what, err := range all(e) {
			if (err == nil) != can || !can && core.CodeOf(err) != core.CodeRefused {
				t.Errorf("%s: %v; it may: %t", what, err, can)
			}
		}
	}
	work(here, true) // nobody's, and bound by its tick at the latest
	g, err := data.Tick.Global(ctx)
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
		if err := data.Manage.PutGlobal(ctx, seen, g); err != nil {
			t.Fatal(err)
		}
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
	// Data of a file is nobody's for ever.
	file := memory.Open(memory.Options{})
	work(engine.Fenced(file, ""), true)
	if g, err := file.Tick.Global(ctx); err != nil || g.Holder != "" {
		t.Errorf("%+v, %v", g, err)
	}
}
