package report

import (
	"cmp"
	"context"
	"fmt"

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
func (r *Reports) Shape(ctx context.Context, q Question) (Shape, error) {
	switch {
	case q.Buckets == 0:
		q.Buckets = MaxBuckets
	case q.Buckets < 0 || q.Buckets > MaxBuckets:
		return Shape{}, core.Invalid("buckets", fmt.Sprint(q.Buckets), "allowed values: 1 to %d", MaxBuckets)
	}
	if q.From >= q.To {
		return Shape{}, core.Invalid("from", q.From.String(), "must be earlier than the end of the period (`to`), %s", q.To.String())
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
	q.ByDay = width >= day
	a, err := r.Answer(ctx, q)
	if err != nil {
		return Shape{}, err
	}
	if a.Since == 0 { // no reports
		return r.fine(ctx, &q, width)
	}
	t, slack := table{}, core.Instant(0)
	if q.ByDay {
		slack = 2 * hour // a day of 23 hours
	}
	for i := range a.Rows {
		row := &a.Rows[i]
		t.add(place{a.From + (row.At-a.From+slack)/width*width, row.App, row.Job}, row)
	}
	return Shape{From: a.From, To: a.To, Width: width, Rows: t.rows(), CountedFrom: max(a.From, min(a.Since, a.Until)),
		CountedTo: a.Until}, nil
}

// fine counts runs by their first send, or by their end if they were not sent.
func (r *Reports) fine(ctx context.Context, q *Question, width core.Instant) (Shape, error) {
	unit := max(width, minute) // the shorter ones are parts of a minute
	chunk := unit * max(1, (q.To-q.From)/(8*unit))
	from, to := q.From/unit*unit, (q.To+minute-1)/minute*minute
	s := Shape{From: from, To: to, Width: width, CountedFrom: to, CountedTo: to}
	soon, cancel := context.WithTimeout(ctx, cmp.Or(q.For, r.o.LiveFor*3/2))
	defer cancel()
	t := table{}
	for begin := from + (to-1-from)/chunk*chunk; begin >= from; begin -= chunk {
		end, part := min(begin+chunk, to), table{}
		whole, err := r.began(ctx, soon, begin, end, func(runs []core.Run) {
			for i := range runs {
				run := &runs[i]
				bucket := from + (min(max(moment(run), begin), end-1)-from)/width*width
				if p, is := q.place(bucket, run.App, run.ID.Job()); is {
					part.row(p).add(run)
				}
			}
		})
		if err != nil {
			return Shape{}, err
		}
		if !whole {
			break
		}
		for p, row := range part {
			t.add(p, row)
		}
		if err := t.check(); err != nil {
			return Shape{}, err
		}
		s.CountedFrom = begin
	}
	s.Rows = t.rows()
	return s, nil
}

// moment returns when a run was first sent, or when it ended without a send, or its due time.
func moment(run *core.Run) core.Instant {
	switch {
	case run.Sent() || run.State.Open() && !run.SentAt.IsZero():
		return core.InstantOf(run.SentAt)
	case !run.State.Open():
		return core.InstantOf(run.EndedAt)
	}
	return run.Slot
}
