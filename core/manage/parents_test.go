package manage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// after returns a job without a schedule that comes after others of its app.
func after(name string, parents ...string) manage.JobSpec {
	s := spec(name, core.Schedule{})
	for _, p := range parents {
		s.Def.After = append(s.Def.After, core.Parent{Job: "shop/" + p})
	}
	return s
}

// tree returns the links between jobs, as stored in children (up) and in parents (down).
func (f *fixture) tree() (up, down []string) {
	f.T.Helper()
	list, _, err := f.E.Jobs.List(ctx, "", 0, 5000)
	check.OK(f.T, err)
	names := map[core.JobID]string{}
	for _, g := range list {
		names[g.Is.Def.ID] = g.Is.Def.Name
	}
	for _, g := range list {
		j := g.Is
		for _, p := range j.Def.After {
			check.Equal(f.T, p.Job, "shop/"+names[p.ID], "%s has the parents %+v", j.Def.Name, p)
			up = append(up, names[p.ID]+" "+j.Def.Name+" "+string(p.When))
		}
		for _, c := range j.Def.Children {
			down = append(down, j.Def.Name+" "+names[c.Job]+" "+string(c.When))
		}
	}
	slices.Sort(up)
	slices.Sort(down)
	return up, down
}

func (f *fixture) wantTree(want ...string) {
	f.T.Helper()
	up, down := f.tree()
	for i := range want {
		if strings.Count(want[i], " ") == 1 {
			want[i] += " succeeded"
		}
	}
	slices.Sort(want)
	if !slices.Equal(up, want) || !slices.Equal(down, want) {
		f.T.Errorf("children say %q, parents %q, want %q", up, down, want)
	}
}

// wantResults checks the results of specs: the change, or the code and the field of the error.
func wantResults(t testing.TB, got []manage.SaveResult, want ...string) {
	t.Helper()
	for i, r := range got {
		is := r.Change
		if e, rejected := errors.AsType[*core.Error](r.Err); rejected {
			is = fmt.Sprint(e.Code, " ", e.Field)
		}
		if is != want[i] {
			t.Errorf("%s: %s %v, want %s", r.Name, is, r.Err, want[i])
		}
	}
}

// messages returns the errors of results, a line for each.
func messages(got []manage.SaveResult) (text string) {
	for _, r := range got {
		if r.Err != nil {
			text += fmt.Sprintln(r.Name, r.Err)
		}
	}
	return text
}

func TestJobsAfterOthers(t *testing.T) {
	f, texts := newFixture(t), golden.New(t)
	rejects := func(key string, got []manage.SaveResult, want ...string) {
		t.Helper()
		wantResults(t, got, want...)
		texts.Equal(t, key, messages(got))
	}
	// In any order: a parent may be saved in the same call.
	wantResults(t, f.Save(after("c", "b", "a"), after("b", "a"), after("a")), "created", "created", "created")
	f.wantTree("a b", "b c", "a c")
	wantResults(t, f.Save(after("c", "b", "a")), "unchanged")
	s := after("c", "b")
	s.Def.After[0].When = core.UponClose
	wantResults(t, f.Save(s), "updated")
	f.wantTree("a b", "b c finished")
	rejects("bad parents", f.Save(after("d", "none"), after("e", "e"), after("f", "a", "a"), after("g", "x/y")),
		"not-found after[0].job", "invalid after[0].job", "invalid after[1].job", "invalid after[0].job")
	rejects("a circle", f.Save(after("a", "c")), "invalid after")
	rejects("a circle", f.M.Check(ctx, []manage.JobSpec{after("a", "c")}, nil), "invalid after")
	rejects("a circle of new jobs", f.Save(after("p", "q"), after("q", "p"), after("r", "p"), after("s", "a")),
		"invalid after", "invalid after", "not-found after[0].job", "created")
	f.wantTree("a b", "b c finished", "a s")
	// Parents may become children in one file.
	turned := []manage.JobSpec{after("a", "c"), after("b"), after("c", "b"), after("s")}
	wantResults(t, f.M.Check(ctx, turned, nil), "updated", "updated", "updated", "updated")
	wantResults(t, f.Save(turned...), "updated", "updated", "updated", "updated")
	f.wantTree("c a", "b c")
	// A check of a part of a file knows the other parts.
	wantResults(t, f.M.Check(ctx, []manage.JobSpec{after("n", "m", "a")}, manage.After{"shop/m": nil}), "created")
	wantResults(t, f.M.Check(ctx, []manage.JobSpec{after("n", "m", "a")}, nil), "not-found after[0].job")
	round := manage.After{"shop/a": {{Job: "shop/b"}}, "shop/c": {{Job: "shop/a"}}}
	rejects("a circle through other parts", f.M.Check(ctx, []manage.JobSpec{after("b", "c")}, round), "invalid after")
}

func TestMostJobsAfterOne(t *testing.T) {
	f := newFixture(t)
	f.Create(after("a"))
	var specs []manage.JobSpec
	for i := range core.MaxChildren {
		specs = append(specs, after(fmt.Sprintf("c-%d", i), "a"))
	}
	for _, r := range f.Save(specs...) {
		check.OK(t, r.Err)
	}
	more := f.Save(after("more", "a"), after("c-7", "a"))
	wantResults(t, more, "invalid after[0].job", "unchanged")
	var many []string
	for i := range core.MaxParents + 1 {
		many = append(many, fmt.Sprintf("c-%d", i))
	}
	parents := f.Save(after("z", many...), after("y", many[1:]...))
	wantResults(t, parents, "invalid after", "created")
	golden.New(t).Equal(t, "maxima", messages(append(more, parents...)))
}

// TestMostJobsBeforeOne: a job with children may have many ancestors, up to the limit of the
// search for a circle.
func TestMostJobsBeforeOne(t *testing.T) {
	f := newFixture(t)
	f.Create(after("a"))
	wantResults(t, f.Save(after("c", "a")), "created")
	texts := golden.New(t)
	for n, want := range map[int]string{budget.Before: "updated", budget.Before + 1: "too-large ", 3 * budget.Before: "too-large "} {
		all := manage.After{}
		for i := 1; i < n; i++ {
			all[fmt.Sprintf("shop/p-%d", i)] = []core.Parent{{Job: fmt.Sprintf("shop/p-%d", i+1)}}
		}
		all[fmt.Sprintf("shop/p-%d", n)] = nil
		got := f.M.Check(t.Context(), []manage.JobSpec{after("a", "p-1")}, all)
		wantResults(t, got, want)
		if want != "updated" {
			texts.Equal(t, "too many", messages(got))
		}
	}
}

// TestLongChain: one file saves a chain of a thousand jobs, and its last job cannot come before
// its first.
func TestLongChain(t *testing.T) {
	f := newFixture(t)
	specs := []manage.JobSpec{after("j-0")}
	for i := 1; i < 1000; i++ {
		specs = append(specs, after(fmt.Sprintf("j-%d", i), fmt.Sprintf("j-%d", i-1)))
	}
	slices.Reverse(specs)
	for _, r := range f.Save(specs...) {
		if r.Change != manage.Created {
			t.Fatal(r.Name, r.Err)
		}
	}
	circle := f.Save(after("j-0", "j-999"))
	wantResults(t, circle, "invalid after")
	golden.New(t).Equal(t, "a circle", messages(circle))
}

// before calls do before the first write with a name.
func before(name string, do func()) func(string) error {
	once := sync.OnceFunc(do)
	return func(write string) error {
		if write == name {
			once()
		}
		return nil
	}
}

// TestCircleOfTwoEdits: two edits that are valid alone close a circle together, in concurrent
// calls or in one file.
func TestCircleOfTwoEdits(t *testing.T) {
	f := newFixture(t)
	begin := []manage.JobSpec{after("a"), after("b", "a"), after("c"), after("d", "c")}
	f.Save(begin...)
	other := f.Fresh(&faults{Before: before("update job", func() { wantResults(t, f.Save(after("a", "d")), "updated") })})
	concurrent := other.Save(ctx, ann, []manage.JobSpec{after("c", "b")})
	wantResults(t, concurrent, "invalid after")
	f.wantTree("a b", "c d", "d a")

	f = newFixture(t)
	f.Save(begin...)
	both := []manage.JobSpec{after("c", "b"), after("a", "d")}
	checked := f.M.Check(ctx, both, nil)
	wantResults(t, checked, "invalid after", "invalid after")
	saved := f.Save(both...)
	wantResults(t, saved, "updated", "invalid after")
	golden.New(t).Equal(t, "circles", messages(slices.Concat(concurrent, checked, saved)))
	f.wantTree("a b", "c d", "b c")
}

func TestDeleteBeforeOthers(t *testing.T) {
	f := newFixture(t)
	f.Save(after("a"), after("b", "a"), after("c", "a"))
	_, err := f.M.Delete(ctx, ann, "shop/a", nil)
	check.Equal(t, core.CodeOf(err), core.CodeConflict, "got %v", err)
	golden.New(t).Equal(t, "a parent", fmt.Sprint(err))
	f.wantTree("a b", "a c")
	for _, name := range []string{"b", "c", "a"} {
		if _, err := f.M.Delete(ctx, ann, "shop/"+name, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestPruneAfterOthers: children are deleted before their parents.
func TestPruneAfterOthers(t *testing.T) {
	for _, dry := range []bool{true, false} {
		f := newFixture(t)
		var specs []manage.JobSpec
		for _, s := range []manage.JobSpec{after("a"), after("b", "a"), after("c", "b", "a"), after("stays"), after("kept", "stays")} {
			s.Def.Set = "mine"
			specs = append(specs, s)
		}
		f.Save(append(specs, after("other", "stays"))...)
		stay := map[string]core.Notify{"shop/kept": {}}
		res, err := f.M.Prune(context.Background(), ann, manage.PruneRequest{Set: "mine", Stay: stay, DryRun: dry})
		check.OK(t, err)
		var gone []string
		for _, r := range res.Jobs {
			gone = append(gone, fmt.Sprint(r.Name, " ", r.Change))
		}
		want := []string{"c deleted", "b deleted", "a deleted", "stays refused"}
		if !slices.Equal(gone, want) {
			t.Errorf("dry %v: %q, want %q", dry, gone, want)
		}
	}
}
