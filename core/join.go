package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Bounds of Def.Within, the time window of a join.
const (
	MinWithin = time.Second
	MaxWithin = 7 * day
)

// Join records which parents have ended, for a job that runs once after all its parents. A round begins when the
// first parent ends, and leads to one run of the job. Each Join is stored in a Permits item of its own.
type Join struct {
	Round  RunID   `json:"round,omitempty"`  // ID of the run that this round leads to; 0: no round has begun
	Parent RunID   `json:"parent,omitempty"` // ID of the parent run that ended first in this round
	Begun  Instant `json:"begun,omitempty"`  // when the round began
	End    Instant `json:"end,omitempty"`    // end of the time window of the round
	Full   bool    `json:"full,omitempty"`   // all parents have ended, and the run must be created
	Over   bool    `json:"over,omitempty"`   // the time window has ended before all parents did, and the run must be skipped
	Marks  []Mark  `json:"marks,omitempty"`  // one for each parent that has ended
}

// Mark records the last end of one parent.
type Mark struct {
	Run    RunID `json:"run"`
	Drawn  RunID `json:"drawn"`            // ID of a run of the job with the join, allocated when the parent run ended
	Counts bool  `json:"counts,omitempty"` // the end belongs to the current round
	// Data is the text that the parent run passes on. It is stored here because the parent run may be removed before
	// the round ends.
	Data string `json:"data,omitempty"`
}

func (d *Def) JoinName() string { return "join/" + d.ID.String() }

// Joins reports whether the job has a join: it runs once after all of its parents.
func (d *Def) Joins() bool { return d.Within > 0 }

// Noted reports whether the end of the parent run, or the end of a later run of that parent, is recorded. drawn is
// the run ID that was allocated when the parent run ended.
func (j *Join) Noted(run, drawn RunID) bool {
	i := j.of(run.Job())
	return i >= 0 && j.Marks[i].Drawn >= drawn
}

func (j *Join) of(parent JobID) int {
	return slices.IndexFunc(j.Marks, func(m Mark) bool { return m.Run.Job() == parent })
}

// Note records the end of run, a run of a parent. The first end begins the round. When all parents have ended, the
// round is complete.
func (j *Join) Note(d *Def, run *Run, drawn RunID, now Instant) {
	if j.Round == 0 {
		j.Round, j.Parent, j.Begun, j.End = drawn, run.ID, now, now.Add(d.Within)
	}
	mark := Mark{run.ID, drawn, true, run.Data}
	if len(encoded(map[string]string{"": run.Data})) > DataMax { // too long to be passed on: see JoinedData
		mark.Data = ""
	}
	if i := j.of(run.ID.Job()); i >= 0 {
		j.Marks[i] = mark
	} else {
		j.Marks = append(j.Marks, mark)
	}
	for i := range j.Marks { // a parent that is removed and added again keeps one mark
		if m := &j.Marks[i]; !d.ComesAfter(m.Run.Job()) {
			m.Counts, m.Data = false, ""
		}
	}
	if len(j.Marks) > 2*MaxParents {
		j.Marks = slices.DeleteFunc(j.Marks, func(m Mark) bool { return !d.ComesAfter(m.Run.Job()) })
	}
	j.Full = j.Complete(d)
}

// ComesAfter reports whether parent is one of the job's parents.
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

// Lacks returns a text of less than 200 bytes for users about the parents that have not ended in the round.
func (j *Join) Lacks(d *Def) string {
	missing := j.Missing(d)
	if len(missing) == 0 { // the parents were changed
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
	return fmt.Sprintf("%s did not end as required within %s after %s", text, FormatDuration(j.End.Time().Sub(j.Begun.Time())), first)
}

// Clear ends the round. Marks keeps the ends of the parents, so that no end is recorded twice.
func (j *Join) Clear() {
	j.Round, j.Parent, j.Begun, j.End, j.Full, j.Over = 0, 0, 0, 0, false, false
	for i := range j.Marks {
		j.Marks[i].Counts, j.Marks[i].Data = false, ""
	}
}

// Clone returns a deep copy of j; nil for nil.
func (j *Join) Clone() *Join {
	if j == nil {
		return nil
	}
	n := *j
	n.Marks = slices.Clone(j.Marks)
	return &n
}

// AwaitsJoin reports whether r is the run of a join that waits until more parents end. For this run, At is when the
// first parent ended, and Slot is when the time window ends.
func (r *Run) AwaitsJoin() bool {
	return r.Cause == CauseParent && r.Attempt == 1 && r.At != r.Slot && r.State == Planned && r.Owner == "" && !r.MaybeSent
}

// JoinedData returns the text that the round passes to the run: a JSON object of at most DataMax bytes. The object
// maps the name of each parent to the data of the parent's run. Data that does not fit is replaced by an empty text.
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
	if err != nil { // impossible for strings
		return "{}"
	}
	return string(b)
}
