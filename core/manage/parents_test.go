package manage_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
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
	list, _, err := f.E.Manage.ListJobs(ctx, "", 0, 5000)
	if err != nil {
		f.T.Fatal(err)
	}
	names := map[core.JobID]string{}
	for _, j := range list {
		names[j.Def.ID] = j.Def.Name
	}
	for _, j := range list {
		for _, p := range j.Def.After {
			if p.Job != "shop/"+names[p.ID] {
				f.T.Errorf("%s has the parents %+v", j.Def.Name, p)
			}
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

// wantResults checks the results of specs: a part of each error, or the change.
func wantResults(t *testing.T, got []manage.SaveResult, want ...string) {
	t.Helper()
	for i, r := range got {
		if r.Err == nil && r.Change != want[i] || r.Err != nil && !strings.Contains(r.Err.Error(), want[i]) {
			t.Errorf("%s: %s %v, want %s", r.Name, r.Change, r.Err, want[i])
		}
	}
}

func TestJobsAfterOthers(t *testing.T) {
	f := newFixture(t)
	// In any order: a parent may be saved in the same call.
	wantResults(t, f.Save(after("c", "b", "a"), after("b", "a"), after("a")), "created", "created", "created")
	f.wantTree("a b", "b c", "a c")
	wantResults(t, f.Save(after("c", "b", "a")), "unchanged")
	s := after("c", "b")
	s.Def.After[0].When = core.UponClose
	wantResults(t, f.Save(s), "updated")
	f.wantTree("a b", "b c finished")
	wantResults(t, f.Save(after("d", "none"), after("e", "e"), after("f", "a", "a"), after("g", "x/y")),
		"after[0].job: \"shop/none\": the job does not exist", "a job cannot be its own parent", "named twice", "")
	// A circle.
	wantResults(t, f.Save(after("a", "c")), "shop/a after shop/c after shop/b after shop/a")
	wantResults(t, f.M.Check(ctx, []manage.JobSpec{after("a", "c")}, nil), "shop/a after shop/c after shop/b after shop/a")
	wantResults(t, f.Save(after("p", "q"), after("q", "p"), after("r", "p"), after("s", "a")), "shop/p after shop/q after shop/p",
		"shop/p after shop/q after shop/p", "the job does not exist", "created")
	f.wantTree("a b", "b c finished", "a s")
	// Parents may become children in one file.
	turned := []manage.JobSpec{after("a", "c"), after("b"), after("c", "b"), after("s")}
	wantResults(t, f.M.Check(ctx, turned, nil), "updated", "updated", "updated", "updated")
	wantResults(t, f.Save(turned...), "updated", "updated", "updated", "updated")
	f.wantTree("c a", "b c")
	// A check of a part of a file knows the other parts.
	wantResults(t, f.M.Check(ctx, []manage.JobSpec{after("n", "m", "a")}, manage.After{"shop/m": nil}), "created")
	wantResults(t, f.M.Check(ctx, []manage.JobSpec{after("n", "m", "a")}, nil), "the job does not exist")
	round := manage.After{"shop/a": {{Job: "shop/b"}}, "shop/c": {{Job: "shop/a"}}}
	wantResults(t, f.M.Check(ctx, []manage.JobSpec{after("b", "c")}, round), "shop/b after shop/c after shop/a after shop/b")
}

func TestMostJobsAfterOne(t *testing.T) {
	f := newFixture(t)
	f.Create(after("a"))
	var specs []manage.JobSpec
	for i := range core.MaxChildren {
		specs = append(specs, after(fmt.Sprintf("c-%d", i), "a"))
	}
	for _, r := range f.Save(specs...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	wantResults(t, f.Save(after("more", "a"), after("c-7", "a")), "this parent already has 1000 child jobs, the maximum", "unchanged")
	var many []string
	for i := range core.MaxParents + 1 {
		many = append(many, fmt.Sprintf("c-%d", i))
	}
	wantResults(t, f.Save(after("z", many...), after("y", many[1:]...)), "at most 20 are allowed", "created")
}

// TestMostJobsBeforeOne: a job with children may have many ancestors, up to the limit of the
// search for a circle.
func TestMostJobsBeforeOne(t *testing.T) {
	f := newFixture(t)
	f.Create(after("a"))
	wantResults(t, f.Save(after("c", "a")), "created")
	for n, want := range map[int]string{bound.Before: "updated", bound.Before + 1: "more than 10000 jobs come before shop/a",
		3 * bound.Before: "more than 10000 jobs come before shop/a"} {
		all := manage.After{}
		for i := 1; i < n; i++ {
			all[fmt.Sprintf("shop/p-%d", i)] = []core.Parent{{Job: fmt.Sprintf("shop/p-%d", i+1)}}
		}
		all[fmt.Sprintf("shop/p-%d", n)] = nil
		wantResults(t, f.M.Check(t.Context(), []manage.JobSpec{after("a", "p-1")}, all), want)
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
	wantResults(t, f.Save(after("j-0", "j-999")), "j-991 after 990 more after shop/j-0")
}

// between makes a change before the first update.
type between struct {
	people.Store
	do func()
}

func (b *between) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.Store.UpdateJobs(ctx, updates)
}

// TestCircleOfTwoEdits: two edits that are valid alone close a circle together, in concurrent
// calls or in one file.
func TestCircleOfTwoEdits(t *testing.T) {
	f := newFixture(t)
	begin := []manage.JobSpec{after("a"), after("b", "a"), after("c"), after("d", "c")}
	f.Save(begin...)
	b := &between{Store: f.E.Manage, do: func() { wantResults(t, f.Save(after("a", "d")), "updated") }}
	other := f.Fresh(&faults{Store: b, Ring: f.E.Ring})
	wantResults(t, other.Save(ctx, ann, []manage.JobSpec{after("c", "b")}), "shop/c after shop/b after shop/a after shop/d after shop/c")
	f.wantTree("a b", "c d", "d a")

	f = newFixture(t)
	f.Save(begin...)
	both := []manage.JobSpec{after("c", "b"), after("a", "d")}
	wantResults(t, f.M.Check(ctx, both, nil), "a job cannot be its own parent", "a job cannot be its own parent")
	wantResults(t, f.Save(both...), "updated", "shop/a after shop/d after shop/c after shop/b after shop/a")
	f.wantTree("a b", "c d", "b c")
}

func TestDeleteBeforeOthers(t *testing.T) {
	f := newFixture(t)
	f.Save(after("a"), after("b", "a"), after("c", "a"))
	_, err := f.M.Delete(ctx, ann, "shop/a", nil)
	if core.CodeOf(err) != core.CodeConflict || !strings.Contains(err.Error(), "shop/b, shop/c") {
		t.Errorf("got %v", err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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
