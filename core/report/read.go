package report

import (
	"context"
	"fmt"
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

// A Question selects the runs of an Answer. From and To are required. Every other filter that is set restricts the runs.
type Question struct {
	ByDay bool
	Each  Each
	// From and To limit the time at which a run began. They are extended to whole hours, or to whole days if ByDay is set.
	From, To core.Instant
	App      string
	Job      core.JobID
	State    core.State // only runs that ended in State with Reason; empty: all runs
	Reason   core.Reason
	Zone     *time.Location // time zone of days; nil: Options.Zone
	// Sees reports whether the caller may see an app. Runs of other apps are not counted. nil: all apps.
	Sees func(app string) bool
	// For is the time limit of the call. Default: 10 s.
	For time.Duration
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
	hoursFrom := max(q.From, s.Old)
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
	if now := core.InstantOf(r.o.Now()) + 1; s.Done > 0 && a.Until < q.To && s.Done < now && q.From < now {
		live, err := r.live(ctx, max(s.Done, q.From), min(q.To, now))
		if err != nil {
			return a, err
		}
		if live != nil {
			a.Until = min(q.To, now)
			for i := range live {
				if err := c.take(&live[i]); err != nil {
					return a, err
				}
			}
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
	switch {
	case q.ByDay && shiftOf(q.Zone) != r.shift:
		return core.Invalid("zone", q.Zone.String(), "reports count by hours of the zone %s, and days of this zone do not "+
			"start on those hours: use a zone that differs by whole hours, or report by hour", r.o.Zone.String())
	case begin < s.Old && s.Since < s.Old && !q.ByDay:
		return core.Invalid("from", begin.String(), "data older than %s is available by day, not by hour", s.Old.String())
	case begin < s.Old && s.Since < s.Old && q.Zone.String() != r.o.Zone.String():
		return core.Invalid("zone", q.Zone.String(), "data older than %s is available only by days of the zone %s",
			s.Old.String(), r.o.Zone.String())
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
func (c *collector) form(ctx context.Context, form string, from, to core.Instant) error {
	if from >= to {
		return nil
	}
	q, list := c.q, ofAll
	if q.App != "" || q.Each == EachApp || q.Sees != nil {
		list = ofApps
	}
	var groups []int
	var err error
	switch {
	case q.Job != 0:
		groups = []int{groupOf(q.Job)}
	case q.Each == EachJob:
		groups, err = c.r.groups(ctx, form, from, to)
	default:
		sheets, err := c.r.read(ctx, form+list, from, to)
		for i := range sheets {
			if err == nil {
				err = c.sheet(&sheets[i])
			}
		}
		return err
	}
	if err != nil {
		return err
	}
	return c.r.jobs(ctx, form, groups, from, to, c.sheet)
}

func (c *collector) sheet(s *sheet) error {
	for i := range s.Rows {
		if err := c.take(&s.Rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// take adds a matching row to the row of the answer that contains it.
func (c *collector) take(r *Row) error {
	q := c.q
	if q.Sees != nil && !q.Sees(r.App) || q.App != "" && r.App != q.App || q.Job != 0 && r.Job != q.Job {
		return nil
	}
	of := Row{Open: r.Open, Ends: r.Ends}
	if q.State != "" {
		of = Row{}
		for _, e := range r.Ends {
			if e.State == q.State && (q.Reason == "" || e.Reason == q.Reason) {
				of.Ends = append(of.Ends, e)
			}
		}
		if of.Ends == nil {
			return nil
		}
	}
	p := place{at: r.At}
	if q.ByDay {
		p.at, _ = c.r.dayOf(r.At, q.Zone)
	}
	switch q.Each {
	case EachJob:
		p.app, p.job = r.App, r.Job
	case EachApp:
		p.app = r.App
	}
	c.t.add(p, &of)
	if len(c.t) > MaxRows {
		return core.Errorf(core.CodeTooLarge, "the report has more than %d rows: choose a shorter time range, one app, or one "+
			"row per day", MaxRows)
	}
	return nil
}

// live returns the rows of hours that are not summed; nil if that takes too long.
func (r *Reports) live(ctx context.Context, from, to core.Instant) (rows []Row, err error) {
	soon, cancel := context.WithTimeout(ctx, r.o.LiveFor)
	defer cancel()
	rows = []Row{}
	for at := from; at < to; at = r.floor(at + hour) {
		t := table{}
		until, err := r.s.Runs.Began(soon, at, min(to, r.floor(at+hour)), 0, t.tell(at))
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case soon.Err() != nil || until != 0:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read the runs of hours that are not summed: %w", err)
		}
		rows = append(rows, t.rows()...)
	}
	return rows, nil
}
