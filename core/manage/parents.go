package manage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// After maps the app/name of jobs to their parents.
type After map[string][]core.Parent

// levels returns savings in the order in which they are stored: parents before children. Jobs
// that would come after themselves are rejected.
func levels(todo []*saving) [][]*saving {
	if !slices.ContainsFunc(todo, func(s *saving) bool { return len(s.job.Def.After) > 0 }) {
		return [][]*saving{todo}
	}
	of := make(map[string]*saving, len(todo))
	names := make([]string, len(todo))
	for i, s := range todo {
		names[i] = s.job.Name()
		of[names[i]] = s
	}
	after := func(name string) (list []string) {
		for _, p := range of[name].job.Def.After {
			if of[p.Job] != nil {
				list = append(list, p.Job)
			}
		}
		return list
	}
	var order []string
	for {
		var circle []string
		if order, circle = core.InOrder(names, after); circle == nil {
			break
		}
		for _, name := range circle {
			of[name].refuse(afterItself(circle))
			delete(of, name)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return of[name] == nil })
	}
	level := map[string]int{}
	var out [][]*saving
	for _, name := range order {
		n := 0
		for _, p := range after(name) {
			n = max(n, level[p]+1)
		}
		if level[name] = n; n == len(out) {
			out = append(out, nil)
		}
		out[n] = append(out[n], of[name])
	}
	return out
}

// afterItself returns the error for a circle of jobs, each of which comes after the next.
func afterItself(circle []string) error {
	most := min(len(circle), 10)
	names := core.JobNames{Names: circle[:most], More: len(circle) - most, Between: " after "}
	return core.Invalid("after", "", "the parent jobs form a cycle: %s after %s", names, circle[0])
}

// before finds the IDs of the parents of a part's jobs. It returns the jobs whose parents all
// exist. In a check, the jobs in beside count as existing.
func (m *Manage) before(ctx context.Context, part []*saving, beside After) ([]*saving, error) {
	byApp := map[string][]string{}
	for _, s := range part {
		for _, p := range s.job.Def.After {
			if app, name, _ := strings.Cut(p.Job, "/"); !slices.Contains(byApp[app], name) {
				byApp[app] = append(byApp[app], name)
			}
		}
	}
	if len(byApp) == 0 {
		return part, nil
	}
	numbers := map[string]core.JobID{}
	for app, names := range byApp {
		for some := range slices.Chunk(names, budget.AtOnce) {
			found, err := m.store.Jobs.Named(ctx, app, some)
			if err != nil {
				return nil, core.Retryable(err)
			}
			for name, id := range found {
				numbers[app+"/"+name] = id
			}
		}
	}
	jobs, err := m.read(ctx, slices.Collect(maps.Values(numbers)))
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(part), func(s *saving) bool {
		for i := range s.job.Def.After {
			p := &s.job.Def.After[i]
			p.ID = numbers[p.Job]
			_, made := beside[p.Job]
			parent, is := jobs[p.ID]
			field := fmt.Sprintf("after[%d].job", i)
			switch {
			case p.ID == 0 && made:
			case p.ID == 0:
				s.refuse(&core.Error{Code: core.CodeNotFound, Field: field, Value: p.Job, Reason: core.Say("the job does not exist")})
				return true
			case !is:
				s.refuse(core.Invalid(field, p.Job, "the parent job cannot be read"))
				return true
			case len(parent.Def.Children) >= core.MaxChildren && !slices.ContainsFunc(parent.Def.Children,
				func(c core.Child) bool { return s.old != nil && c.Job == s.old.Def.ID }):
				s.refuse(core.Invalid(field, p.Job, "this parent already has %d child jobs, the maximum", core.MaxChildren))
				return true
			}
		}
		return false
	}), nil
}

// read reads jobs and omits deleted and unreadable ones.
func (m *Manage) read(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, error) {
	jobs := make(map[core.JobID]*core.Job, len(ids))
	for some := range slices.Chunk(ids, budget.AtOnce) {
		found, _, err := store.Split(m.store.Jobs.Get(ctx, store.Whole, some))
		if err != nil {
			return nil, core.Retryable(err)
		}
		maps.Copy(jobs, found)
	}
	return jobs, nil
}

// circle rejects a job that would come after itself. It follows the parents in toBe, or else the stored ones.
func (m *Manage) circle(ctx context.Context, job *core.Job, toBe After) error {
	name := job.Name()
	via := map[string]string{} // the job that led to each
	var level []core.Parent
	take := func(from string, list []core.Parent) (ends bool) {
		for _, p := range list {
			if _, is := via[p.Job]; !is {
				via[p.Job] = from
				level = append(level, p)
			}
			ends = ends || p.Job == name
		}
		return ends
	}
	ends := take(name, job.Def.After)
	for !ends && len(level) > 0 {
		if len(via) > budget.Before {
			return core.Errorf(core.CodeTooLarge, "`after`: %s has more than %d direct and indirect parent jobs: remove "+
				"parents from `after`",
				name, budget.Before)
		}
		now := level
		level = nil
		var ids []core.JobID
		for _, p := range now {
			if list, is := toBe[p.Job]; is {
				ends = ends || take(p.Job, list)
			} else if p.ID != 0 {
				ids = append(ids, p.ID)
			}
		}
		jobs, err := m.read(ctx, ids)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			ends = ends || take(j.Name(), j.Def.After)
		}
	}
	if !ends {
		return nil
	}
	list := []string{}
	for at := via[name]; at != name; at = via[at] {
		list = append(list, at)
	}
	slices.Reverse(list)
	return afterItself(append([]string{name}, list...))
}

// edges checks the updates that add a parent to a job with children, in order, as if the earlier ones were stored. It rejects
// updates that would close a circle. Each gets its own Edges value, so after a failed one the later ones conflict.
func (m *Manage) edges(ctx context.Context, edits []*edit, of []*saving, toBe After) ([]*edit, []*saving, error) {
	var n int64
	keptEdits, kept := edits[:0:0], of[:0:0]
	for i, e := range edits {
		adds := e.old != nil && len(e.old.Def.Children) > 0 && slices.ContainsFunc(
			core.Links(e.old.Def.ID, e.old.Def.After, e.want.Def.After), func(l core.Link) bool { return l.When != "" })
		if adds {
			if n == 0 {
				var err error
				if n, err = m.store.Edges(ctx); err != nil {
					return nil, nil, core.Retryable(err)
				}
				toBe = maps.Clone(toBe)
				if toBe == nil {
					toBe = After{}
				}
			}
			switch err := m.circle(ctx, &e.want, toBe); {
			case core.CodeOf(err) == core.CodeInvalid, core.CodeOf(err) == core.CodeTooLarge:
				of[i].refuse(err)
				continue
			case err != nil:
				return nil, nil, err
			}
			toBe[e.want.Name()] = e.want.Def.After
			e.edges = n
			n++
		}
		keptEdits, kept = append(keptEdits, e), append(kept, of[i])
	}
	return keptEdits, kept, nil
}

// comesBefore rejects the deletion of a job that has children.
func (m *Manage) comesBefore(ctx context.Context, d *core.Def) error {
	if len(d.Children) == 0 {
		return nil
	}
	const most = 5
	var ids []core.JobID
	for _, c := range d.Children[:min(len(d.Children), most)] {
		ids = append(ids, c.Job)
	}
	jobs, err := m.read(ctx, ids)
	if err != nil {
		return err
	}
	var names []string
	for _, j := range jobs {
		names = append(names, j.Name())
	}
	slices.Sort(names)
	return core.Errorf(core.CodeConflict, "%s/%s is the parent of other jobs (%s): change or delete these jobs first", d.App, d.Name,
		core.JobNames{Names: names, More: len(d.Children) - len(names), Between: ", "})
}
