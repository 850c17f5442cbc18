package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Bounds of the window of a join.
const (
	MinWithin = time.Second
	MaxWithin = 7 * day
)

// Join is what a job that comes after all of its parents has noted of their ends. It
// stands in an item of permits of its own, and is written as those are.
type Join struct {
	Round  RunID   `json:"round,omitempty"`  // the run that comes of it; 0: no end is noted yet
	Parent RunID   `json:"parent,omitempty"` // the one that was noted first
	Begun  Instant `json:"begun,omitempty"`  // when the first end was noted
	End    Instant `json:"end,omitempty"`    // of its window
	Full   bool    `json:"full,omitempty"`   // nothing is missing: the run is to be made
	Over   bool    `json:"over,omitempty"`   // the window is: the run is to be skipped
	Marks  []Mark  `json:"marks,omitempty"`  // one of each parent, in the order in which they were first noted
}

// Mark is the last end of a parent that was noted.
type Mark struct {
	Run    RunID `json:"run"`
	Drawn  RunID `json:"drawn"` // for this child, when that run owed it
	Counts bool  `json:"counts,omitempty"`
	// Data is the text that the run hands on. The run may be removed before the round is full.
	Data string `json:"data,omitempty"`
}

func (d *Def) JoinName() string { return "join/" + d.ID.String() }

// Joins reports whether a job comes once after all of its parents.
func (d *Def) Joins() bool { return d.Within > 0 }

// Noted reports whether the end of a parent's run, or a later one of that parent, is noted.
func (j *Join) Noted(run, drawn RunID) bool {
	i := j.of(run.Job())
	return i >= 0 && j.Marks[i].Drawn >= drawn
}

func (j *Join) of(parent JobID) int {
	return slices.IndexFunc(j.Marks, func(m Mark) bool { return m.Run.Job() == parent })
}

// Note records the end of a parent's run. The first one of a round begins the round, the last one fills it.
func (j *Join) Note(d *Def, run *Run, drawn RunID, now Instant) {
	if j.Round == 0 {
		j.Round, j.Parent, j.Begun, j.End = drawn, run.ID, now, now.Add(d.Within)
	}
	mark := Mark{run.ID, drawn, true, run.Data}
	if len(encoded(map[string]string{"": run.Data})) > DataMax { // it is never handed on: see JoinedData
		mark.Data = ""
	}
	if i := j.of(run.ID.Job()); i >= 0 {
		j.Marks[i] = mark
	} else {
		j.Marks = append(j.Marks, mark)
	}
	for i := range j.Marks { // one that is a parent again is not to be noted twice
		if m := &j.Marks[i]; !d.ComesAfter(m.Run.Job()) {
			m.Counts, m.Data = false, ""
		}
	}
	if len(j.Marks) > 2*MaxParents {
		j.Marks = slices.DeleteFunc(j.Marks, func(m Mark) bool { return !d.ComesAfter(m.Run.Job()) })
	}
	j.Full = j.Complete(d)
}

// ComesAfter reports whether a job is one of its parents.
func (d *Def) ComesAfter(parent JobID) bool {
	return slices.ContainsFunc(d.After, func(p Parent) bool { return p.ID == parent })
}

func (j *Join) Complete(d *Def) bool { return d.Joins() && len(j.Missing(d)) == 0 }

func (j *Join) Missing(d *Def) (names []string) {
	for _, p := range d.After {
		if i := j.of(p.ID); i < 0 || !j.Marks[i].Counts {
			names = append(names, p.Job)
		}
	}
	return names
}

// Lacks says of a round that is over what it lacks, in less than 200 bytes.
func (j *Join) Lacks(d *Def) string {
	missing := j.Missing(d)
	if len(missing) == 0 { // its parents are others by now
		return ""
	}
	clip := func(name string) string {
		if len(name) <= 60 {
			return name
		}
		return name[:57] + "…"
	}
	text, first := clip(missing[0]), "run "+j.Parent.String()
	if n := len(missing) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	for _, p := range d.After {
		if p.ID == j.Parent.Job() {
			first = clip(p.Job)
		}
	}
	return fmt.Sprintf("%s had not ended as asked within %s of %s", text, j.End.Time().Sub(j.Begun.Time()), first)
}

// Clear ends the round. What was noted stays, so that it is not noted again.
func (j *Join) Clear() {
	j.Round, j.Parent, j.Begun, j.End, j.Full, j.Over = 0, 0, 0, 0, false, false
	for i := range j.Marks {
		j.Marks[i].Counts, j.Marks[i].Data = false, ""
	}
}

// Clone is j, of its own; nil of nil.
func (j *Join) Clone() *Join {
	if j == nil {
		return nil
	}
	n := *j
	n.Marks = slices.Clone(j.Marks)
	return &n
}

// AwaitsJoin reports whether a run waits for the rest of its parents: its instant is the
// first end that was noted, its slot the end of the window.
func (r *Run) AwaitsJoin() bool {
	return r.Cause == CauseParent && r.Attempt == 1 && r.At != r.Slot && r.State == Planned && r.Owner == "" && !r.MaybeSent
}

// JoinedData returns the text that the round hands on: an object with the data of each parent by the
// parent's name, at most DataMax bytes long. Data that does not fit is replaced by an empty text.
func (j *Join) JoinedData(d *Def) string {
	data := make(map[string]string, len(d.After))
	for _, p := range d.After {
		data[p.Job] = ""
	}
	text := encoded(data)
	for _, p := range d.After {
		i := j.of(p.ID)
		if i < 0 || !j.Marks[i].Counts {
			continue
		}
		data[p.Job] = j.Marks[i].Data
		if longer := encoded(data); len(longer) <= DataMax {
			text = longer
		} else {
			data[p.Job] = ""
		}
	}
	return text
}

func encoded(data map[string]string) string {
	b, err := json.Marshal(data)
	if err != nil { // of texts there is none
		return "{}"
	}
	return string(b)
}
