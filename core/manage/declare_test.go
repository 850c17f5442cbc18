package manage_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
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

func (f *fixture) withheld() []string {
	f.T.Helper()
	a, err := f.M.App(ctx, "shop")
	check.OK(f.T, err)
	return a.Withheld
}

// TestDeclared: code creates and changes its declared job. It never overrides a user's change or
// deletion of any age, since the state does not depend on change records.
func TestDeclared(t *testing.T) {
	f := newFixture(t)
	is := func(params string, d core.Declared) {
		t.Helper()
		if j := f.Job("shop/clean"); j.Def.Params != params || j.Def.Declared != d {
			t.Errorf("params %q, declared %q, want %q and %q", j.Def.Params, j.Def.Declared, params, d)
		}
	}
	changes := func(params, want string) {
		t.Helper()
		if r := f.declare(params); r.Change != want || r.Err != nil {
			t.Errorf("declared with %s: %+v, want %s", params, r, want)
		}
	}
	texts := golden.New(t)
	left := func(params, why string) {
		t.Helper()
		r := f.declare(params)
		if r.Change != manage.Refused || core.CodeOf(r.Err) != core.CodeConflict {
			t.Errorf("declared with %s: %+v, want a conflict", params, r)
		}
		texts.Equal(t, why, fmt.Sprint(r.Err))
	}
	changes("one", manage.Created)
	changes("one", manage.Unchanged)
	changes("two", manage.Updated)
	is("two", core.DeclaredCode)

	// A pause is not a change, and neither is saving an equal job.
	check.Call(t)(f.M.Pause(ctx, ann, manage.Target{Job: "shop/clean"}, manage.PauseRequest{}))
	same := spec("clean", every(time.Hour))
	same.Def.Params = "two"
	if r := f.Save(same)[0]; r.Change != manage.Unchanged {
		t.Fatalf("%+v", r)
	}
	changes("three", manage.Updated)

	// A new schedule alone is a change.
	hers := spec("clean", every(2*time.Hour))
	hers.Def.Params = "three"
	if r := f.Save(hers)[0]; r.Change != manage.Updated {
		t.Fatalf("%+v", r)
	}
	is("three", core.DeclaredTaken)
	left("four", "changed by a user")
	f.giveBack("clean")
	is("three", core.DeclaredCode)
	if r := f.giveBack("clean"); r.Change != manage.Unchanged {
		t.Errorf("given back twice: %+v", r)
	}
	changes("four", manage.Updated)

	// A deleted job stays deleted, also if a user changed it before, or created and deleted a job
	// with this name.
	hers.Def.Params = "hers"
	f.Save(hers)
	for range 2 {
		check.Call(t)(f.M.Delete(ctx, ann, "shop/clean", nil))
		left("five", "deleted by a user")
		f.Create(hers)
		left("five", "changed by a user")
	}
	if w := f.withheld(); !slices.Equal(w, []string{"clean"}) {
		t.Errorf("withheld: %v", w)
	}
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "shop", Title: "The shop"}))
	check.Call(t)(f.M.Delete(ctx, ann, "shop/clean", nil))
	left("five", "deleted by a user")
	f.giveBack("clean")
	changes("five", manage.Created)
	if w := f.withheld(); len(w) != 0 {
		t.Errorf("suppressed after it was returned: %v", w)
	}
}

// TestGiveBack: the deletion of a job that no code declared is not suppressed. A user's job is
// returned to code on request; a job of a manifest is not.
func TestGiveBack(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("clean", every(time.Minute)))
	if r := f.declare("code's"); core.CodeOf(r.Err) != core.CodeConflict {
		t.Errorf("%+v", r)
	}
	f.giveBack("clean")
	if r := f.declare("code's"); r.Change != manage.Updated {
		t.Errorf("%+v", r)
	}
	f.Create(spec("other", every(time.Minute)))
	check.Call(t)(f.M.Delete(ctx, ann, "shop/other", nil))
	if w := f.withheld(); len(w) != 0 {
		t.Errorf("withheld: %v", w)
	}
	set := spec("listed", every(time.Minute))
	set.Def.Set = "prod"
	f.Create(set)
	for name, want := range map[string]core.Code{"other": core.CodeNotFound, "listed": core.CodeRefused} {
		if _, err := f.M.GiveBack(ctx, ann, "shop", name); core.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	fails(t, core.CodeNotFound, "no app")(f.M.GiveBack(ctx, ann, "nobody", "x"))
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

// TestMostDeclared: code cannot declare more jobs of an app than the maximum. Jobs of users do
// not count, and a deleted job makes room.
func TestMostDeclared(t *testing.T) {
	f := newFixture(t)
	make := func(name string, most int) error {
		s := spec(name, every(time.Hour))
		s.Declared, s.MostDeclared = true, most
		return f.M.Save(ctx, program, []manage.JobSpec{s})[0].Err
	}
	for i := range 3 {
		check.OK(t, f.M.Save(ctx, ann, []manage.JobSpec{spec(fmt.Sprintf("hers-%d", i), every(time.Hour))})[0].Err)
	}
	for i := range 6 {
		if err := make(fmt.Sprintf("its-%d", i), 5); (i == 5) != (core.CodeOf(err) == core.CodeTooLarge) {
			t.Errorf("job %d: %v", i, err)
		}
	}
	if err := make("its-6", 0); err != nil {
		t.Errorf("without a bound: %v", err)
	}
	for _, name := range []string{"shop/its-1", "shop/its-2"} {
		check.Call(t)(f.M.Delete(ctx, program, name, nil))
	}
	f.Clock = f.Clock.Add(time.Minute)
	if err := make("its-7", 5); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
