package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParentCondition selects the ends of a parent's retry chain after which a child runs.
type ParentCondition string

const (
	UponSuccess ParentCondition = "succeeded"
	UponFailure ParentCondition = "failed"   // a failure: not killed by a user, not skipped
	UponClose   ParentCondition = "finished" // any end except a skip
)

var Upons = []ParentCondition{UponSuccess, UponFailure, UponClose}

// Bounds for parents and children.
const (
	MaxParents  = 20
	MaxChildren = 1000
)

type Parent struct {
	Job  string          `json:"job"` // app/name
	ID   JobID           `json:"id"`
	When ParentCondition `json:"when"`
}

// Child is an entry in the definition of a parent: a job that runs after it.
type Child struct {
	Job  JobID           `json:"job"`
	When ParentCondition `json:"when"`
}

// Link is a change to the list of children of a parent, caused by a change of a job's After.
type Link struct {
	Parent JobID
	Child  JobID
	When   ParentCondition // empty: the parent is removed
}

// Links returns the changes to the child lists of the parents when the After of child is changed: was is the old list of
// parents, is the new list.
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

// Linked returns a list of children with a link applied, ordered by number; false if the list is
// full.
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

// FirstPlace returns the initial Run.Place of a run of the job.
func (d *Def) FirstPlace() int64 {
	if len(d.Children) == 0 {
		return 0
	}
	return 1
}

// PlaceAfter returns the place after the run of this child was created.
func PlaceAfter(child JobID) int64 { return int64(child) + 1 }

// ChildrenAfter returns the children that still need a run after the end of r, ordered by number.
func (d *Def) ChildrenAfter(r *Run) (list []Child) {
	for _, c := range d.Children {
		if PlaceAfter(c.Job) > r.Place && c.When.Matches(r, d.Retry.On) {
			list = append(list, c)
		}
	}
	return list
}

// Matches reports whether the child runs after the end of r, the last attempt of its retry chain. on lists the states that
// the job retries.
func (w ParentCondition) Matches(r *Run, on []State) bool {
	switch w {
	case UponSuccess:
		return r.State == Succeeded
	case UponFailure:
		return r.FailedForGood() && (r.State != Lost || slices.Contains(on, Lost))
	}
	return w == UponClose
}

// OwesChildren reports whether child runs must be created after r: r is the closed last attempt of its chain, the chain was
// not skipped as a whole, and children remain.
func (r *Run) OwesChildren() bool {
	return r.Place != 0 && !r.State.Open() && r.Then == 0 && (r.State != Skipped || r.Attempt > 1)
}

func (r *Run) Owing() bool {
	return !r.State.Open() && (len(r.Owes) > 0 || r.OwesChildren() || r.OwesPostRun() != PostRun{})
}

// Draw is step C1 of the protocol: a closed run gets the next children as pending follow-ups, with their allocated IDs.
func (r *Run) Draw(owes []Owed) RunPut {
	return RunPut{ID: r.ID, If: RunState | RunPlace | RunOwes, Was: *r, Set: RunOwes, To: Run{Owes: owes}}
}

// NoteChildren is step F4 of the protocol for children: all follow-ups except left exist. place is the next place, or 0 if
// no child remains.
func (r *Run) NoteChildren(place int64, left []Owed) RunPut {
	return RunPut{ID: r.ID, If: RunState | RunPlace | RunOwes, Was: *r, Set: RunOwes | RunPlace, To: Run{Place: place, Owes: left}}
}

func (d *Def) validateAfter() error {
	if len(d.After) > MaxParents {
		return Invalid("after", strconv.Itoa(len(d.After))+" jobs", "at most %d are allowed", MaxParents)
	}
	if d.Within != 0 {
		if len(d.After) == 0 {
			return Invalid("within", FormatDuration(d.Within), "a join (within) needs at least one parent job")
		}
		if err := bounded("within", d.Within, MinWithin, MaxWithin); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for i, p := range d.After {
		field := fmt.Sprintf("after[%d]", i)
		app, name, is := strings.Cut(p.Job, "/")
		if !is {
			return Invalid(field+".job", p.Job, "write a job as APP/NAME")
		}
		if err := CheckAppName(field+".job", app); err != nil {
			return err
		}
		if err := CheckName(field+".job", name); err != nil {
			return err
		}
		if err := oneOf(field+".when", p.When, Upons); err != nil {
			return err
		}
		switch {
		case p.Job == d.App+"/"+d.Name:
			return Invalid(field+".job", p.Job, "a job cannot be its own parent")
		case seen[p.Job]:
			return Invalid(field+".job", p.Job, "named twice: `when: finished` covers success and failure")
		}
		seen[p.Job] = true
	}
	return nil
}

// InOrder sorts keys so that each key follows the keys that it depends on, and otherwise keeps the order. If this is
// impossible, circle is a dependency cycle: each key depends on the next, the last on the first.
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
