package report

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// MaxBuckets is the maximum number of buckets in a Shape.
const MaxBuckets = 120

const (
	minute = 60
	day    = 24 * hour
	// mostFine is the longest span with buckets below an hour, which are counted from runs.
	mostFine = 6 * hour
)

// widths are the possible bucket widths; from an hour on they use reports.
var widths = []core.Instant{10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour,
	6 * hour, 12 * hour, day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day}

// A ShapeQuestion selects the runs of a Shape.
type ShapeQuestion struct {
	From, To core.Instant // range of times at which runs began, extended to whole buckets
	Buckets  int          // maximum number of buckets; 0: MaxBuckets
	Each     Each
	App      string
	Job      core.JobID
	// Sees reports whether the caller may see an app. Runs of other apps are not counted. nil: all apps.
	Sees func(app string) bool
	// For is the time limit for counting runs without a report. Default: 1.5 times LiveFor.
	For time.Duration
}

// A Shape counts runs over time. A Shape has one row for each bucket in which a run began. All buckets have the length Width,
// in seconds.
type Shape struct {
	From, To, Width core.Instant
	Rows            []Row // sorted by bucket, app and job
	// CountedFrom and CountedTo limit the time that was counted; buckets outside are incomplete.
	CountedFrom, CountedTo core.Instant
}

// Shape counts runs in buckets of equal width. Shape uses the shortest width that needs no more than q.Buckets buckets. Widths
// of an hour or more use the reports. For shorter widths, Shape counts the runs themselves, newest first, until the time
// limit.
func (r *Reports) Shape(ctx context.Context, q ShapeQuestion) (Shape, error) {
	switch {
	case q.Buckets == 0:
		q.Buckets = MaxBuckets
	case q.Buckets < 0 || q.Buckets > MaxBuckets:
		return Shape{}, core.Invalid("buckets", fmt.Sprint(q.Buckets), "allowed values: 1 to %d", MaxBuckets)
	}
	if q.From >= q.To {
		return Shape{}, core.Invalid("from", q.From.String(), "must be earlier than the end of the period (`to`), %s", q.To.String())
	}
	if q.For == 0 {
		q.For = r.o.LiveFor * 3 / 2
	}
	width := core.Instant(0)
	for _, w := range widths {
		if n := (q.To - q.From + w - 1) / w; n < core.Instant(q.Buckets) || n == 1 { // one more if the span begins inside a bucket
			if w >= hour || q.To-q.From <= mostFine {
				width = w
				break
			}
		}
	}
	switch {
	case width == 0:
		return Shape{}, core.Invalid("from", q.From.String(), "the time range exceeds %d years", MaxYears)
	case width < hour:
		return r.fine(ctx, &q, width)
	}
	return r.coarse(ctx, &q, width)
}

// coarse takes its rows from the reports.
func (r *Reports) coarse(ctx context.Context, q *ShapeQuestion, width core.Instant) (Shape, error) {
	a, err := r.Answer(ctx, Question{From: q.From, To: q.To, Each: q.Each, App: q.App, Job: q.Job, Sees: q.Sees, ByDay: width >= day})
	if err != nil {
		return Shape{}, err
	}
	if a.Since == 0 { // no reports
		return r.fine(ctx, q, width)
	}
	t, slack := table{}, core.Instant(0)
	if width >= day {
		slack = 2 * hour // a day of 23 hours
	}
	for i := range a.Rows {
		row := a.Rows[i]
		t.add(place{a.From + (row.At-a.From+slack)/width*width, row.App, row.Job}, &row)
	}
	return Shape{From: a.From, To: a.To, Width: width, Rows: t.rows(), CountedFrom: max(a.From, min(a.Since, a.Until)),
		CountedTo: a.Until}, nil
}

// fine counts runs by their first send, or by their end if they were not sent.
func (r *Reports) fine(ctx context.Context, q *ShapeQuestion, width core.Instant) (Shape, error) {
	unit := max(width, minute) // the shorter ones are parts of a minute
	chunk := unit * max(1, (q.To-q.From)/(8*unit))
	from, to := q.From/unit*unit, (q.To+minute-1)/minute*minute
	s := Shape{From: from, To: to, Width: width, CountedFrom: to, CountedTo: to}
	soon, cancel := context.WithTimeout(ctx, q.For)
	defer cancel()
	t := table{}
	for begin := from + (to-1-from)/chunk*chunk; begin >= from; begin -= chunk {
		end := min(begin+chunk, to)
		part := table{}
		until, err := r.s.Runs.Began(soon, begin, end, 0, func(runs []core.Run) {
			for i := range runs {
				part.place(q, &runs[i], func(at core.Instant) core.Instant {
					return from + (min(max(at, begin), end-1)-from)/width*width
				})
			}
		})
		switch {
		case ctx.Err() != nil:
			return Shape{}, ctx.Err()
		case soon.Err() != nil || until != 0:
			begin = from // this part is incomplete
		case err != nil:
			return Shape{}, fmt.Errorf("read the runs of a span: %w", err)
		default:
			for p, row := range part {
				t.add(p, row)
			}
			s.CountedFrom = begin
		}
		if len(t) > MaxRows {
			return Shape{}, core.Errorf(core.CodeTooLarge, "the report has more than %d rows: choose a shorter time range, "+
				"one app, or one row per day", MaxRows)
		}
	}
	s.Rows = t.rows()
	return s, nil
}

// place counts a run that matches the question.
func (t table) place(q *ShapeQuestion, run *core.Run, bucket func(core.Instant) core.Instant) {
	if q.Sees != nil && !q.Sees(run.App) || q.App != "" && run.App != q.App || q.Job != 0 && run.ID.Job() != q.Job {
		return
	}
	at := run.Slot
	if run.Sent() || run.State.Open() && !run.SentAt.IsZero() {
		at = core.InstantOf(run.SentAt)
	} else if !run.State.Open() {
		at = core.InstantOf(run.EndedAt)
	}
	p := place{at: bucket(at)}
	switch q.Each {
	case EachJob:
		p.app, p.job = run.App, run.ID.Job()
	case EachApp:
		p.app = run.App
	}
	if row := t.row(p); run.State.Open() {
		row.Open++
	} else {
		row.count(run)
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
