package core

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ParentCondition selects the results of a parent run after which a child job runs. The result of the parent's last
// attempt counts.
type ParentCondition string

const (
	UponSuccess ParentCondition = "succeeded"
	UponFailure ParentCondition = "failed"   // the last attempt failed or timed out, or was lost and the parent retries lost runs
	UponClose   ParentCondition = "finished" // any result, except that the first attempt was skipped
)

var Upons = []ParentCondition{UponSuccess, UponFailure, UponClose}

// MaxParents and MaxChildren are the maximum numbers of parents and children of one job.
const (
	MaxParents  = 20
	MaxChildren = 1000
)

type Parent struct {
	Job  string          `json:"job"` // the parent job, as app/name
	ID   JobID           `json:"id"`
	When ParentCondition `json:"when"`
}

// Child is a job that runs after another job. The definition of the parent lists its children.
type Child struct {
	Job  JobID           `json:"job"`
	When ParentCondition `json:"when"`
}

// Link is a change to a parent's list of children. A Link is needed if a change of the child job adds, removes or
// changes one of the job's parents.
type Link struct {
	Parent JobID
	Child  JobID
	When   ParentCondition // empty: the child is removed from the list
}

// Links returns the changes to the parents' lists of children when the parents of the child job change. The
// parameters was and is have the old and the new parents.
func Links(child JobID, was, is []Parent) (list []Link) {
	for _, p := range was {
		if !slices.ContainsFunc(is, func(o Parent) bool { return o.ID == p.ID }) {
			list = append(list, Link{Parent: p.ID, Child: child})
		}
	}
	for _, p := range is {
		if !slices.ContainsFunc(was, func(o Parent) bool { return o.ID == p.ID && o.When == p.When }) {
			list = append(list, Link{p.ID, child, p.When})
		}
	}
	return list
}

// Linked returns the list of children, ordered by job ID, with the change l applied. It returns false if a child must
// be added but the list already has MaxChildren entries.
func Linked(list []Child, l Link) ([]Child, bool) {
	at, is := slices.BinarySearchFunc(list, l.Child, func(c Child, job JobID) int { return int(c.Job) - int(job) })
	list = slices.Clone(list)
	switch {
	case is && l.When == "":
		return slices.Delete(list, at, at+1), true
	case is:
		list[at].When = l.When
		return list, true
	case l.When == "":
		return list, true
	case len(list) >= MaxChildren:
		return list, false
	}
	return slices.Insert(list, at, Child{l.Child, l.When}), true
}

// FirstPlace returns the initial Run.Place of a run of the job: 1 if the job has children, else 0.
func (d *Def) FirstPlace() int64 {
	if len(d.Children) == 0 {
		return 0
	}
	return 1
}

// PlaceAfter returns the Run.Place of a parent run after the run of this child was created.
func PlaceAfter(child JobID) int64 { return int64(child) + 1 }

// ChildrenAfter returns the children that must run after the end of r and for which no run was created, ordered by
// job ID.
func (d *Def) ChildrenAfter(r *Run) (list []Child) {
	for _, c := range d.Children {
		if PlaceAfter(c.Job) > r.Place && c.When.Matches(r, d.Retry.On) {
			list = append(list, c)
		}
	}
	return list
}

// Matches reports whether a child with this condition runs after r, the last attempt of a parent's retry chain. The
// parameter on lists the states after which the parent is retried.
func (w ParentCondition) Matches(r *Run, on []State) bool {
	switch w {
	case UponSuccess:
		return r.State == Succeeded
	case UponFailure:
		return r.FailedForGood() && (r.State != Lost || slices.Contains(on, Lost))
	}
	return w == UponClose
}

// OwesChildren reports whether child runs may still have to be created after r. It returns false unless r is the
// closed last attempt of a retry chain and r.Place is not 0. It also returns false if the first attempt was skipped.
func (r *Run) OwesChildren() bool {
	return r.Place != 0 && !r.State.Open() && r.Then == 0 && (r.State != Skipped || r.Attempt > 1)
}

// OwesBefore reports whether r owes a retry, or a pause of its job. They come before all other follow-ups.
func (r *Run) OwesBefore() bool { return len(r.Owes) > 0 && r.Owes[0].Kind != CauseParent }

func (r *Run) Owing() bool {
	return !r.State.Open() && (len(r.Owes) > 0 || r.OwesChildren() || r.OwesPostRun() != PostRun{})
}

// Draw returns a RunPut that stores the next child runs in the closed run r, as pending follow-ups with allocated IDs.
// Draw is step C1 of docs/internals/follow-ups.md.
func (r *Run) Draw(owes []Owed) RunPut {
	return RunPut{ID: r.ID, If: RunState | RunPlace | RunOwes, Was: *r, Set: RunOwes, To: Run{Owes: owes}}
}

// NoteChildren returns a RunPut that records that all pending follow-ups exist, except those in the parameter left. The
// parameter place is the new Run.Place, or 0 if no child needs a run. NoteChildren is step F4 of
// docs/internals/follow-ups.md.
func (r *Run) NoteChildren(place int64, left []Owed) RunPut {
	return RunPut{ID: r.ID, If: RunState | RunPlace | RunOwes, Was: *r, Set: RunOwes | RunPlace, To: Run{Place: place, Owes: left}}
}

func (d *Def) validateAfter() error {
	if err := cmp.Or(
		atMost("after", len(d.After), "jobs", MaxParents),
		when(d.Within != 0 && len(d.After) == 0,
			Invalid("within", FormatDuration(d.Within), "a join (within) needs at least one parent job")),
		when(d.Within != 0, bounded("within", d.Within, MinWithin, MaxWithin)),
	); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, p := range d.After {
		field := fmt.Sprintf("after[%d]", i)
		app, name, is := strings.Cut(p.Job, "/")
		if !is {
			return Invalid(field+".job", p.Job, "write a job as APP/NAME")
		}
		if err := cmp.Or(
			CheckAppName(field+".job", app),
			CheckName(field+".job", name),
			oneOf(field+".when", p.When, Upons),
			when(p.Job == d.App+"/"+d.Name, Invalid(field+".job", p.Job, "a job cannot be its own parent")),
			when(seen[p.Job], Invalid(field+".job", p.Job, "named twice: `when: finished` covers success and failure")),
		); err != nil {
			return err
		}
		seen[p.Job] = true
	}
	return nil
}

// InOrder sorts keys so that each key comes after its dependencies, which the function `after` returns. Otherwise,
// InOrder keeps the order of keys. If dependencies form a cycle, the result circle lists one cycle: each key depends on
// the next key, and the last key depends on the first key.
func InOrder[K comparable](keys []K, after func(K) []K) (order, circle []K) {
	const under, done = 1, 2
	state := make(map[K]int8, len(keys))
	for _, k := range keys {
		state[k] = 0
	}
	type step struct {
		key  K
		rest []K
	}
	for _, k := range keys {
		if state[k] != 0 {
			continue
		}
		state[k] = under
		path := []step{{k, after(k)}}
		for len(path) > 0 {
			top := &path[len(path)-1]
			if len(top.rest) == 0 {
				state[top.key] = done
				order, path = append(order, top.key), path[:len(path)-1]
				continue
			}
			next := top.rest[0]
			top.rest = top.rest[1:]
			switch is, known := state[next]; {
			case !known || is == done:
			case is == under:
				from := slices.IndexFunc(path, func(s step) bool { return s.key == next })
				for _, s := range path[from:] {
					circle = append(circle, s.key)
				}
				return nil, circle
			default:
				state[next] = under
				path = append(path, step{next, after(next)})
			}
		}
	}
	return order, nil
}
