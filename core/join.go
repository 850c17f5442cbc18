package core

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Bounds of the time window of a join.
const (
	MinWithin = time.Second
	MaxWithin = 7 * day
)

// Join collects the ends of the parents of a job that runs after all of them. Each Join is stored in its own Permits item,
// under the rules of Permits.
type Join struct {
	Round  RunID   `json:"round,omitempty"`  // ID of the resulting run; 0: no end is recorded
	Parent RunID   `json:"parent,omitempty"` // the parent run that was recorded first
	Begun  Instant `json:"begun,omitempty"`  // when the first end was recorded
	End    Instant `json:"end,omitempty"`    // end of the window
	Full   bool    `json:"full,omitempty"`   // all parents are recorded: the run must be created
	Over   bool    `json:"over,omitempty"`   // the window is over: the run must be skipped
	Marks  []Mark  `json:"marks,omitempty"`  // one for each parent, in the order of their first ends
}

// Mark is the last recorded end of a parent.
type Mark struct {
	Run    RunID `json:"run"`
	Drawn  RunID `json:"drawn"` // ID allocated for this child when the parent run ended
	Counts bool  `json:"counts,omitempty"`
	// Data is the text that the parent run passes on, stored because that run may be removed earlier.
	Data string `json:"data,omitempty"`
}

func (d *Def) JoinName() string { return "join/" + d.ID.String() }

// Joins reports whether the job runs once after all of its parents.
func (d *Def) Joins() bool { return d.Within > 0 }

// Noted reports whether this end of a parent, or a later one of the same parent, is recorded.
func (j *Join) Noted(run, drawn RunID) bool {
	i := j.of(run.Job())
	return i >= 0 && j.Marks[i].Drawn >= drawn
}

func (j *Join) of(parent JobID) int {
	return slices.IndexFunc(j.Marks, func(m Mark) bool { return m.Run.Job() == parent })
}

// Note records the end of a parent's run. The first end begins the round, the last one completes it.
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

// Lacks returns a text of less than 200 bytes that lists the parents missing in a round.
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

// Clear ends the round. The marks stay, so that no end is recorded twice.
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

// AwaitsJoin reports whether a run waits for its other parents. Its At is the first recorded end, and its Slot is the
// end of the window.
func (r *Run) AwaitsJoin() bool {
	return r.Cause == CauseParent && r.Attempt == 1 && r.At != r.Slot && r.State == Planned && r.Owner == "" && !r.MaybeSent
}

// JoinedData returns the text that the round passes on: a JSON object from parent names to their data, at most
// DataMax bytes long. Data that does not fit is replaced by an empty text.
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
