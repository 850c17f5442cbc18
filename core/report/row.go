package report

import (
	"cmp"
	"slices"

	"github.com/tickring/tickring/core"
)

// A Row counts the runs that began in one time span. A Row is about one job, about one app if Job is 0, or about all apps if
// App is empty.
type Row struct {
	At   core.Instant `json:"-"` // start of the span
	App  string       `json:",omitempty"`
	Job  core.JobID   `json:",omitempty"`
	Open int64        `json:",omitempty"` // number of runs that have not ended
	Ends []End        `json:",omitempty"` // sorted by state and reason; an End without runs is omitted
	// Unsettled has the open runs that are checked again, in the stored row of a job and hour.
	Unsettled []core.RunID `json:",omitempty"`
}

// An End counts the runs of a Row that ended in one state with one reason.
type End struct {
	State  core.State
	Reason core.Reason `json:",omitempty"`
	N      int64
	// Took has the times from send to end, for runs that were sent. Late has the times from due time to send, for runs whose
	// lateness is known.
	Took, Late Histogram `json:",omitzero"`
}

// Runs returns the number of ended runs in the row.
func (r *Row) Runs() (n int64) {
	for i := range r.Ends {
		n += r.Ends[i].N
	}
	return n
}

func (r *Row) end(state core.State, reason core.Reason) *End {
	i, is := slices.BinarySearchFunc(r.Ends, End{State: state, Reason: reason}, func(a, b End) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	})
	if !is {
		r.Ends = slices.Insert(r.Ends, i, End{State: state, Reason: reason})
	}
	return &r.Ends[i]
}

// add adds a run.
func (r *Row) add(run *core.Run) {
	if !run.State.Open() {
		r.count(run)
		return
	}
	r.Open++
	if len(r.Unsettled) < mostOpen {
		r.Unsettled = append(r.Unsettled, run.ID)
	}
}

// count adds a run that has ended.
func (r *Row) count(run *core.Run) {
	e := r.end(run.State, run.Reason)
	e.N++
	if run.Sent() && run.EndedAt.After(run.SentAt) {
		e.Took.Add(run.EndedAt.Sub(run.SentAt))
	}
	if run.HasLateness() {
		e.Late.Add(run.Lateness())
	}
}

// Merge adds the counts of o to r. The subject of o must be the subject of r, or a part of it.
func (r *Row) Merge(o *Row) {
	r.Open += o.Open
	for i := range o.Ends {
		e := r.end(o.Ends[i].State, o.Ends[i].Reason)
		e.N += o.Ends[i].N
		e.Took.Merge(o.Ends[i].Took)
		e.Late.Merge(o.Ends[i].Late)
	}
}

// Times returns the durations and the lateness of all runs in the row.
func (r *Row) Times() (took, late Histogram) {
	for i := range r.Ends {
		took.Merge(r.Ends[i].Took)
		late.Merge(r.Ends[i].Late)
	}
	return took, late
}

// Ended returns the number of runs in the row that ended in one of the given states.
func (r *Row) Ended(states ...core.State) (n int64) {
	for i := range r.Ends {
		if slices.Contains(states, r.Ends[i].State) {
			n += r.Ends[i].N
		}
	}
	return n
}

type place struct {
	at  core.Instant
	app string
	job core.JobID
}

// table sums rows.
type table map[place]*Row

func (t table) row(p place) *Row {
	r := t[p]
	if r == nil {
		r = &Row{At: p.at, App: p.app, Job: p.job}
		t[p] = r
	}
	return r
}

func (t table) add(p place, r *Row) { t.row(p).Merge(r) }

// count adds the runs of a span that begins at a time.
func (t table) count(at core.Instant, runs []core.Run) {
	for i := range runs {
		t.row(place{at: at, app: runs[i].App, job: runs[i].ID.Job()}).add(&runs[i])
	}
}

// rows returns all rows by span, app and job.
func (t table) rows() []Row {
	list := make([]Row, 0, len(t))
	for _, r := range t {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.App, b.App), cmp.Compare(a.Job, b.Job))
	})
	return list
}
