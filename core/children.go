package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Upon is after which ends of a parent's chain a job comes.
type Upon string

const (
	UponSuccess Upon = "succeeded"
	UponFailure Upon = "failed" // as a retry sees it: not killed by a person, not skipped
	UponClose   Upon = "closed" // any but a skip
)

var Upons = []Upon{UponSuccess, UponFailure, UponClose}

// Bounds of the jobs that come after one another.
const (
	MaxParents  = 20
	MaxChildren = 1000
)

type Parent struct {
	Job  string `json:"job"` // app/name
	ID   JobID  `json:"id"`
	When Upon   `json:"when"`
}

// Child is a job that comes after another, as that one's definition lists it.
type Child struct {
	Job  JobID `json:"job"`
	When Upon  `json:"when"`
}

// Link is what the change of a job's After makes of the list of one of its parents.
type Link struct {
	Parent JobID
	Child  JobID
	When   Upon // empty: it comes after it no more
}

// Links are those of a job that comes after what was and is now.
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

// Linked is a list of children, in the order of their numbers, after a link; false where
// it has no room for one more.
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

// FirstPlace is what a run of the job says from when it is made: see Run.Place.
func (d *Def) FirstPlace() int64 {
	if len(d.Children) == 0 {
		return 0
	}
	return 1
}

// PlaceAfter is the place where that child was the last that was made.
func PlaceAfter(child JobID) int64 { return int64(child) + 1 }

// ChildrenAfter are those of a run's job, in the order of their numbers, that come after
// its end and lie behind its place.
func (d *Def) ChildrenAfter(r *Run) (list []Child) {
	for _, c := range d.Children {
		if PlaceAfter(c.Job) > r.Place && c.When.Meets(r, d.Retry.On) {
			list = append(list, c)
		}
	}
	return list
}

// Meets reports whether the end of r, the last attempt of its chain, is one after which
// the child comes; on are the ends that its job tries again.
func (w Upon) Meets(r *Run, on []State) bool {
	switch w {
	case UponSuccess:
		return r.State == Succeeded
	case UponFailure:
		return r.FailedForGood() && (r.State != Lost || slices.Contains(on, Lost))
	}
	return w == UponClose
}

// OwesChildren reports whether children are to be made of the end of r: it is the last
// attempt of its chain, has ended otherwise than by a skip of all of it, and a place is left.
func (r *Run) OwesChildren() bool {
	return r.Place != 0 && !r.State.Open() && r.Then == 0 && (r.State != Skipped || r.Attempt > 1)
}

func (r *Run) Owing() bool {
	return !r.State.Open() && (len(r.Owes) > 0 || r.OwesChildren() || r.OwesAside() != Aside{})
}

// Draw is C1 of the protocol: a closed run as read owes the next children, by the IDs
// that were drawn for them.
func (r *Run) Draw(owes []Owed) RunPut {
	return RunPut{ID: r.ID, If: RunState | RunPlace | RunOwes, Was: *r, Set: RunOwes, To: Run{Owes: owes}}
}

// NoteChildren is F4 of children: what was owed is made, but for what is left. The place is
// another, 0 where no child is behind it.
func (r *Run) NoteChildren(place int64, left []Owed) RunPut {
	return RunPut{ID: r.ID, If: RunState | RunPlace | RunOwes, Was: *r, Set: RunOwes | RunPlace, To: Run{Place: place, Owes: left}}
}

func (d *Def) validateAfter() error {
	if len(d.After) > MaxParents {
		return Invalid("after", strconv.Itoa(len(d.After))+" jobs", "at most %d are allowed", MaxParents)
	}
	if d.Within != 0 {
		if len(d.After) == 0 {
			return Invalid("within", d.Within.String(), "a join (within) needs at least one parent job")
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
			return Invalid(field+".job", p.Job, "named twice: when: closed covers success and failure")
		}
		seen[p.Job] = true
	}
	return nil
}

// InOrder puts keys in an order in which each stands behind those of them that it comes
// after, else as they were. Where there is none, circle is one of those that prevent it,
// each coming after the next, the last after the first.
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
