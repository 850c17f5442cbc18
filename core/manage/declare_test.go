package manage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
)

var program = core.Actor{Name: "code-of-shop"}

// declare declares shop/clean as code and returns the result.
func (f *fixture) declare(params string) manage.SaveResult {
	f.T.Helper()
	s := spec("clean", every(time.Hour))
	s.Def.Params, s.Def.Set, s.Declared = params, "code-of-shop", true
	return f.M.Save(ctx, program, []manage.JobSpec{s})[0]
}

func (f *fixture) giveBack(name string) manage.SaveResult {
	f.T.Helper()
	r, err := f.M.GiveBack(ctx, ann, "shop", name)
	check.OK(f.T, err)
	return r
}

// TestWithheldIsBounded: the list of suppressed jobs is limited, and never drops an entry
// silently.
func TestWithheldIsBounded(t *testing.T) {
	f := newFixture(t)
	f.declare("one")
	app, err := f.M.App(ctx, "shop")
	check.OK(t, err)
	full := app
	full.Rev++
	for i := range core.MaxWithheld {
		full.Withheld = append(full.Withheld, fmt.Sprintf("gone-%d", i))
	}
	check.OK(t, f.E.PutApp(ctx, app.Rev, full, core.Change{ID: full.Rev, App: "shop"}))
	if _, err := f.M.Delete(ctx, ann, "shop/clean", nil); core.CodeOf(err) != core.CodeTooLarge || !strings.Contains(err.Error(), "gone-0") {
		t.Errorf("deleted: %v", err)
	}
	f.Job("shop/clean")
	f.giveBack("gone-0")
	if res, err := f.M.Delete(ctx, ann, "shop/clean", nil); err != nil || !res.Withheld {
		t.Errorf("suppressed is reported: %t, %v", res.Withheld, err)
	}
	f.Create(spec("by-hand", every(time.Minute)))
	if res, err := f.M.Delete(ctx, ann, "shop/by-hand", nil); err != nil || res.Withheld {
		t.Errorf("a job that no code declared is suppressed: %t, %v", res.Withheld, err)
	}
}

// TestWithheldFirst: a deletion suppresses the job first. After a crash in between, the job still
// exists, so code cannot create a deleted one again.
func TestWithheldFirst(t *testing.T) {
	f := newFixture(t)
	f.declare("one")
	m := f.Fresh(&faults{At: 1, Kill: true})
	if _, err := m.Delete(ctx, ann, "shop/clean", nil); err == nil || f.Faults.Last != "put app" {
		t.Errorf("the first write was %s, %v", f.Faults.Last, err)
	}
	f.M = f.Fresh(&faults{})
	f.Job("shop/clean")
}
