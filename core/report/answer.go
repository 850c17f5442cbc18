package report

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// Each defines for which subjects a report has its own rows.
type Each string

const (
	EachAll Each = ""    // one row for all jobs together
	EachApp Each = "app" // one row for each app
	EachJob Each = "job" // one row for each job
)

// MaxRows is the maximum number of rows in an Answer, and MaxYears the maximum length of its time range in years.
const (
	MaxRows  = 10_000
	MaxYears = 20
)

// A Question selects the runs of an Answer or of a Shape. From and To are required. Every other filter that is set restricts
// the runs.
type Question struct {
	ByDay bool // ignored for a Shape
	Each  Each
	// From and To limit the time at which a run began. They are extended to whole hours, to whole days if ByDay is set, or to
	// whole buckets of a Shape.
	From, To core.Instant
	App      string
	Job      core.JobID
	State    core.State // only runs that ended in State with Reason; empty: all runs
	Reason   core.Reason
	Zone     *time.Location // time zone of days; nil: Options.Zone
	Buckets  int            // maximum number of buckets of a Shape; 0: MaxBuckets
	// Sees reports whether the caller may see an app. Runs of other apps are not counted. nil: all apps.
	Sees func(app string) bool
	// For is the time limit for reading the reports, or for counting the runs of a Shape. Default: 10 s, or 1.5 times
	// Options.LiveFor.
	For time.Duration
}

// place returns the position of the row that counts a run or a part of a report; false if q does not select it.
func (q *Question) place(at core.Instant, app string, job core.JobID) (place, bool) {
	p := place{at: at}
	switch q.Each {
	case EachJob:
		p.app, p.job = app, job
	case EachApp:
		p.app = app
	}
	return p, (q.Sees == nil || q.Sees(app)) && (q.App == "" || app == q.App) && (q.Job == 0 || job == q.Job)
}

// An Answer has one row for each time span in which a run began. ByDay and Each in the Question define the spans and rows.
type Answer struct {
	From, To core.Instant
	Zone     *time.Location
	Rows     []Row // sorted by time, app and job
	// Since is the start of the reports. Until is the end of the counted time. Until is earlier than To if some hours are not
	// counted yet.
	Since, Until core.Instant
}

// Answer counts the runs that q selects. For hours without a report, it counts the runs themselves, for at most
// [Options.LiveFor]. If that takes longer, Answer.Until is earlier than To.
func (r *Reports) Answer(ctx context.Context, q Question) (a Answer, err error) {
	if q.Zone == nil {
		q.Zone = r.o.Zone
	}
	if q.For == 0 {
		q.For = 10 * time.Second
	}
	_, s, err := r.readState(ctx)
	if err != nil {
		return a, err
	}
	if err := r.check(&q, &s); err != nil {
		return a, err
	}
	reading, cancel := context.WithTimeout(ctx, q.For)
	defer cancel()
	c := collector{r: r, q: &q, t: table{}}
	hoursFrom := max(q.From, r.old(&s))
	if q.ByDay && q.Zone.String() == r.o.Zone.String() {
		hoursFrom = max(q.From, s.Days)
		err = c.form(reading, days, q.From, min(q.To, s.Days))
	}
	if err == nil {
		err = c.form(reading, hours, hoursFrom, min(q.To, s.Done))
	}
	if err != nil {
		return a, passed(ctx, reading, err, q.For)
	}
	a = Answer{From: q.From, To: q.To, Zone: q.Zone, Since: s.Since, Until: max(q.From, min(q.To, s.Done))}
	if s.Done > 0 {
		if a.Until, err = c.live(ctx, a.Until, min(q.To, core.InstantOf(r.o.Now())+1)); err != nil {
			return a, err
		}
	}
	a.Rows = c.t.rows()
	return a, nil
}

// passed replaces an error that the time limit caused.
func passed(ctx, reading context.Context, err error, within time.Duration) error {
	if reading.Err() != nil && ctx.Err() == nil {
		return core.Errorf(core.CodeTooLarge, "too much data to read within %s: choose a shorter time range, or one job", within)
	}
	return err
}

// check rejects invalid questions and extends the span to whole hours or days.
func (r *Reports) check(q *Question, s *state) error {
	switch {
	case q.From >= q.To:
		return core.Invalid("from", q.From.String(), "must be earlier than the end of the period (`to`), %s", q.To.String())
	case q.To-q.From > MaxYears*366*24*hour:
		return core.Invalid("from", q.From.String(), "the time range exceeds %d years", MaxYears)
	}
	begin := q.From
	if q.ByDay {
		q.From, _ = r.dayOf(q.From, q.Zone)
		_, q.To = r.dayOf(q.To-1, q.Zone)
	} else {
		q.From, q.To = r.floor(q.From), r.floor(q.To-1)+hour
	}
	old := r.old(s)
	switch {
	case q.ByDay && shiftOf(q.Zone) != r.shift:
		return core.Invalid("zone", q.Zone.String(), "reports count by hours of the zone %s, and days of this zone do not "+
			"start on those hours: use a zone that differs by whole hours, or report by hour", r.o.Zone.String())
	case begin < old && s.Since < old && !q.ByDay:
		return core.Invalid("from", begin.String(), "data older than %s is available by day, not by hour", old.String())
	case begin < old && s.Since < old && q.Zone.String() != r.o.Zone.String():
		return core.Invalid("zone", q.Zone.String(), "data older than %s is available only by days of the zone %s",
			old.String(), r.o.Zone.String())
	}
	return nil
}

// collector adds up the rows that match a question.
type collector struct {
	r *Reports
	q *Question
	t table
}

// form adds the sheets of a form in a span.
func (c *collector) form(ctx context.Context, form string, from, to core.Instant) (err error) {
	if from >= to {
		return nil
	}
	q, lists := c.q, []string{ofAll}
	switch {
	case q.Job != 0:
		lists[0] = ofJob(q.Job)
	case q.Each == EachJob:
		lists, err = c.r.jobs(ctx, form, from, to)
	case q.App != "" || q.Each == EachApp || q.Sees != nil:
		lists[0] = ofApps
	}
	if err != nil {
		return err
	}
	return c.r.each(ctx, form, lists, from, to, func(s *sheet) error { return c.take(s.Rows) })
}

// live adds the runs of hours that are not summed. It returns the end of the counted time, which is earlier than the
// parameter to if the runs cannot be read in time.
func (c *collector) live(ctx context.Context, from, to core.Instant) (until core.Instant, err error) {
	soon, cancel := context.WithTimeout(ctx, c.r.o.LiveFor)
	defer cancel()
	for from < to {
		next, t := min(c.r.floor(from)+hour, to), table{}
		whole, err := c.r.began(ctx, soon, from, next, func(runs []core.Run) { t.count(from, runs) })
		if err == nil && whole {
			err = c.take(t.rows())
		}
		if err != nil || !whole {
			return from, err
		}
		from = next
	}
	return from, nil
}

// began reads the runs of a span until soon ends; whole: all were read.
func (r *Reports) began(ctx, soon context.Context, from, to core.Instant, tell func([]core.Run)) (whole bool, err error) {
	behind, err := r.s.Runs.Began(soon, from, to, 0, tell)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case soon.Err() != nil || behind != 0:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the runs of a span: %w", err)
	}
	return true, nil
}

// take adds each matching row to the row of the answer that contains it.
func (c *collector) take(rows []Row) error {
	for i := range rows {
		r, at := &rows[i], rows[i].At
		if c.q.ByDay {
			at, _ = c.r.dayOf(at, c.q.Zone)
		}
		p, is := c.q.place(at, r.App, r.Job)
		of := Row{Open: r.Open, Ends: r.Ends}
		if c.q.State != "" {
			of.Open, of.Ends = 0, slices.DeleteFunc(r.Ends, func(e End) bool {
				return e.State != c.q.State || c.q.Reason != "" && e.Reason != c.q.Reason
			})
			is = is && len(of.Ends) > 0
		}
		if is {
			c.t.add(p, &of)
		}
		if err := c.t.check(); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if the table has more than MaxRows rows.
func (t table) check() error {
	if len(t) > MaxRows {
		return core.Errorf(core.CodeTooLarge, "the report has more than %d rows: choose a shorter time range, one app, or one "+
			"row per day", MaxRows)
	}
	return nil
}
