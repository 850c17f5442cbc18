package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

const (
	// firstLook is the time until open runs of a summed hour are checked; it then doubles up to mostLook,
	// which is shorter than ended runs are kept.
	firstLook, mostLook = 15 * time.Minute, 8 * time.Hour
	// A turn that lasts farTurn and a pass longer is ignored: the clock was set back since.
	farTurn = 5 * time.Minute
	// mostLooks limits the hours and days to check again; the oldest beyond it stay as they are.
	mostLooks = 2000
	// reading is how long readers may use a replaced state.
	reading = 10 * time.Minute
	// afterDay is how long after its end a day is combined.
	afterDay = 2 * time.Hour
)

// Pass creates the reports that are due: it counts hours that have ended, counts runs that ended later, and combines hours
// into days. Pass takes at most Options.PassFor. While another process creates reports, Pass does nothing. Concurrent calls
// are not allowed.
func (r *Reports) Pass(ctx context.Context) error {
	now := r.o.Now().Round(0) // by the wall clock alone, which may be set
	idle := now.Before(r.idle) && !now.Before(r.last)
	if r.last = now; idle {
		return nil
	}
	v, s, err := r.readState(ctx)
	if err != nil {
		return err
	}
	switch {
	case now.Before(s.Until) && s.Until.Before(now.Add(r.o.PassFor+farTurn)):
		return nil
	case v == 0: // reports begin with the current hour
		s.Done = r.floor(core.InstantOf(now))
		s.Days, s.Old, s.Since = s.Done, s.Done, s.Done
	default:
		if next := r.next(&s); now.Before(next) && !s.back {
			r.idle = next
			return nil
		}
	}
	// Nothing is written after the turn, because the next process repeats the work.
	work, cancel := context.WithTimeout(ctx, r.o.PassFor)
	defer cancel()
	s.Until = now.Add(r.o.PassFor + time.Minute).UTC()
	if err := r.writeState(ctx, v, &s); err != nil {
		if errors.Is(err, core.ErrRefused) {
			return nil // another process was faster
		}
		return err
	}
	before := s.place()
	err = r.work(work, &s)
	if work.Err() != nil && ctx.Err() == nil {
		if err = nil; s.place() == before { // the next pass continues
			err = fmt.Errorf("the next step takes longer than the %s of a pass", r.o.PassFor)
		}
	}
	s.Until, s.Failed, s.At = time.Time{}, "", time.Time{}
	if err != nil {
		s.Failed, s.At = err.Error()[:min(len(err.Error()), 500)], now.UTC()
	}
	return errors.Join(err, r.writeState(ctx, v+1, &s))
}

// place changes with each step of progress.
func (s *state) place() [6]int64 {
	return [...]int64{int64(s.Done), int64(s.Behind), int64(s.Days), int64(s.Old), int64(len(s.Open)), int64(len(s.Drop))}
}

// due returns the end of the next hour to sum.
func (r *Reports) due(s *state) core.Instant { return r.floor(s.Done + hour) }

// next returns when work is due next.
func (r *Reports) next(s *state) time.Time {
	at := r.due(s).Time().Add(r.o.Behind)
	for _, l := range s.Open {
		at = earlier(at, l.Next)
	}
	for _, d := range s.Drop {
		at = earlier(at, d.Next)
	}
	if _, to := r.dayOf(s.Days, r.o.Zone); to <= s.Done {
		at = earlier(at, to.Time().Add(afterDay))
	}
	if _, to := r.dayOf(s.Old, r.o.Zone); to <= s.Days {
		at = earlier(at, to.Time().Add(r.o.Hours))
	}
	return at
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// work does the due steps in order and records them in s.
func (r *Reports) work(ctx context.Context, s *state) error {
	now := r.o.Now()
	for ctx.Err() == nil {
		end := r.due(s)
		if now.Before(end.Time().Add(r.o.Behind)) {
			break
		}
		over, err := r.sum(ctx, s, end)
		if err != nil {
			return fmt.Errorf("sum the hour from %s: %w", s.Done, err)
		}
		if !over {
			return nil
		}
	}
	for i := 0; i < len(s.Open) && ctx.Err() == nil; {
		l := &s.Open[i]
		if now.Before(l.Next) {
			i++
			continue
		}
		left, err := r.settle(ctx, l, now)
		if err != nil {
			return fmt.Errorf("take the ends of runs from %s on: %w", l.At, err)
		}
		if !left {
			s.Open = slices.Delete(s.Open, i, i+1)
			continue
		}
		l.Age = min(2*l.Age, mostLook)
		l.Next = now.Add(l.Age).UTC()
		i++
	}
	for ctx.Err() == nil {
		_, to := r.dayOf(s.Days, r.o.Zone)
		if to > s.Done || now.Before(to.Time().Add(afterDay)) {
			break
		}
		if err := r.day(ctx, s, s.Days, to, now); err != nil {
			return fmt.Errorf("put the day from %s together: %w", s.Days, err)
		}
	}
	for ctx.Err() == nil {
		_, to := r.dayOf(s.Old, r.o.Zone)
		if to > s.Days || now.Before(to.Time().Add(r.o.Hours)) {
			break
		}
		if err := r.age(ctx, s, s.Old, to, now); err != nil {
			return fmt.Errorf("make one span of the day from %s: %w", s.Old, err)
		}
	}
	for len(s.Drop) > 0 && ctx.Err() == nil && !now.Before(s.Drop[0].Next) {
		d := s.Drop[0]
		if err := r.drop(ctx, d.Form, d.From, d.To); err != nil {
			return fmt.Errorf("remove outdated sums: %w", err)
		}
		s.Drop = s.Drop[1:]
	}
	return ctx.Err()
}

// sum sums the hour after Done, or continues with it; over: the hour is complete.
func (r *Reports) sum(ctx context.Context, s *state, end core.Instant) (over bool, err error) {
	from := s.Done
	if s.Behind == 0 { // records of an earlier attempt may be split differently
		if err := r.drop(ctx, hours, from, from+1); err != nil {
			return false, err
		}
	}
	taken := end
	if s.Behind == 0 {
		taken = core.InstantOf(r.o.Now())
	}
	t, opens := r.tally(from)
	until, err := r.s.Runs.Began(ctx, from, end, s.Behind, t.tell)
	if err != nil {
		return false, err
	}
	// The time limit may be over, but the runs read so far are stored.
	store := context.WithoutCancel(ctx)
	if until != 0 {
		t.cut(until)
	}
	if err := r.put(store, hours+ofJobs, from, sheets(t.rows(), opens())); err != nil {
		return false, err
	}
	if until != 0 {
		s.Behind = until
		return false, nil
	}
	left, err := r.total(store, hours, from)
	if err != nil {
		return false, err
	}
	if left {
		s.Open = append(s.Open, look{Form: hours, At: from, Next: r.o.Now().Add(firstLook).UTC(), Age: firstLook, Taken: taken})
		s.Open = s.Open[max(0, len(s.Open)-mostLooks):]
	}
	s.Done, s.Behind = end, 0
	return true, nil
}

// tally counts runs.
type tally struct {
	table
	at    core.Instant // the start of their span
	opens map[place][]open
}

func (r *Reports) tally(at core.Instant) (*tally, func() []open) {
	t := &tally{table: table{}, at: at, opens: map[place][]open{}}
	return t, func() (list []open) {
		for _, of := range t.opens {
			list = append(list, of...)
		}
		return list
	}
}

func (t *tally) tell(runs []core.Run) {
	for i := range runs {
		run := &runs[i]
		p := place{at: t.at, app: run.App, job: run.ID.Job()}
		row := t.row(p)
		if !run.State.Open() {
			row.count(run)
			continue
		}
		row.Open++
		if len(t.opens[p]) < mostOpen {
			t.opens[p] = append(t.opens[p], open{run: run.ID, at: p.at, app: p.app})
		}
	}
}

// cut removes jobs after last.
func (t *tally) cut(last core.JobID) {
	for p := range t.table {
		if p.job > last {
			delete(t.table, p)
			delete(t.opens, p)
		}
	}
}

// put stores the sheets of a time, each under its first job.
func (r *Reports) put(ctx context.Context, list string, at core.Instant, of []sheet) error {
	records := make([]record, len(of))
	for i := range of {
		first := of[i].rows[0].Job
		if first == 0 {
			first = core.JobID(i)
		}
		records[i] = record{recordKey{list, at, first}, of[i].encode()}
	}
	return r.write(ctx, records, false)
}

// load reads the records of a form's jobs in a span and calls each for one sheet at a time, which saves memory.
func (r *Reports) load(ctx context.Context, form string, from, to core.Instant, each func(k recordKey, s *sheet) error) error {
	records, err := r.records(ctx, form+ofJobs, from, to)
	if err != nil {
		return err
	}
	return eachSheet(records, 0, each)
}

func eachSheet(records []record, only core.JobID, each func(k recordKey, s *sheet) error) error {
	for _, rec := range records {
		s, err := decode(rec.body, only)
		if err == nil {
			err = each(rec.recordKey, &s)
		}
		if err != nil {
			return fmt.Errorf("%s at %s: %w", rec.list, rec.at, err)
		}
	}
	return nil
}

// total writes the sums of an hour or a day from the rows of its jobs; left: some runs are open.
func (r *Reports) total(ctx context.Context, form string, at core.Instant) (left bool, err error) {
	t := table{}
	err = r.load(ctx, form, at, at+1, func(_ recordKey, s *sheet) error {
		t.sum(s.rows)
		left = left || len(s.open) > 0
		return nil
	})
	if err != nil {
		return false, err
	}
	return left, r.totals(ctx, form, at, t)
}

// totals writes the sums of an hour or a day.
func (r *Reports) totals(ctx context.Context, form string, at core.Instant, t table) error {
	apps, all := t.sums()
	var errs []error
	if form == days {
		errs = append(errs, r.put(ctx, form+ofApps+byHours, at, sheets(apps, nil)), r.put(ctx, form+ofAll+byHours, at, sheets(all, nil)))
	}
	errs = append(errs, r.put(ctx, form+ofApps, at, sheets(asOne(apps, at), nil)), r.put(ctx, form+ofAll, at, sheets(asOne(all, at), nil)))
	return errors.Join(errs...)
}

// settle counts the ends of open runs of an hour or a day; left: some are still open. Each sheet is written
// with its remaining open runs, then the sums, so that it can be repeated after a crash.
func (r *Reports) settle(ctx context.Context, l *look, now time.Time) (left bool, err error) {
	all := true
	err = r.load(ctx, l.Form, l.At, l.At+1, func(k recordKey, s *sheet) error {
		if len(s.open) == 0 {
			return nil
		}
		ids := make([]core.RunID, len(s.open))
		for i, o := range s.open {
			ids[i] = o.run
		}
		found, err := r.s.Runs.Get(ctx, ids)
		for _, g := range found {
			if errors.Is(g.Err, core.ErrThrottled) {
				all = false
			} else {
				err = cmp.Or(err, g.Err)
			}
		}
		if err != nil || !s.settle(found) {
			return err
		}
		return r.write(ctx, []record{{k, s.encode()}}, false)
	})
	if err != nil {
		return false, err
	}
	if all {
		l.Taken = core.InstantOf(now)
	}
	return r.total(ctx, l.Form, l.At)
}

// day combines the hours of a day: the same rows in fewer records. It handles some jobs at a time.
func (r *Reports) day(ctx context.Context, s *state, from, to core.Instant, now time.Time) error {
	records, err := r.records(ctx, hours+ofJobs, from, to)
	if err != nil {
		return err
	}
	if err := r.drop(ctx, days, from, from+1); err != nil {
		return err
	}
	store, all, left := context.WithoutCancel(ctx), table{}, false
	bounds := busiest(records)
	for i, low := range bounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		high := core.JobID(math.MaxInt32)
		if i+1 < len(bounds) {
			high = bounds[i+1] - 1
		}
		t, opens := table{}, []open(nil)
		err := eachSheet(between(records, low, high), 0, func(_ recordKey, s *sheet) error {
			for k := range s.rows {
				if row := &s.rows[k]; row.Job >= low && row.Job <= high {
					t.add(row.place(), row)
				}
			}
			for _, o := range s.open {
				if job := o.run.Job(); job >= low && job <= high {
					opens = append(opens, o)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		rows := t.rows()
		all.sum(rows)
		left = left || len(opens) > 0
		if err := r.put(store, days+ofJobs, from, sheets(rows, opens)); err != nil {
			return err
		}
	}
	if err := r.totals(store, days, from, all); err != nil {
		return err
	}
	taken := to
	for _, l := range s.Open {
		if l.Form == hours && l.At >= from && l.At < to {
			taken = min(taken, l.Taken)
		}
	}
	s.over(hours, from, to, now)
	if left {
		s.Open = append(s.Open, look{Form: days, At: from, Next: now.Add(firstLook).UTC(), Age: firstLook, Taken: taken})
	}
	s.Days = to
	return nil
}

// over records that a form no longer applies to a span.
func (s *state) over(form string, from, to core.Instant, now time.Time) {
	s.Open = slices.DeleteFunc(s.Open, func(l look) bool { return l.Form == form && l.At >= from && l.At < to })
	s.Drop = append(s.Drop, drop{Form: form, From: from, To: to, Next: now.Add(reading).UTC()})
}

// busiest returns the first jobs of the records in the hour with the most records, with 1 as the first.
// Between two of them, no hour has much more than one record.
func busiest(records []record) (first []core.JobID) {
	var most []record
	for len(records) > 0 {
		n := 1
		for n < len(records) && records[n].at == records[0].at {
			n++
		}
		if n > len(most) {
			most = records[:n]
		}
		records = records[n:]
	}
	for i := range most {
		first = append(first, most[i].first)
	}
	if len(first) > 0 {
		first[0] = 1
	}
	return first
}

// between returns the records that may have rows of the jobs from low to high.
func between(records []record, low, high core.JobID) (list []record) {
	for i, rec := range records {
		last := i+1 == len(records) || records[i+1].at != rec.at
		if rec.first <= high && (last || records[i+1].first > low) {
			list = append(list, rec)
		}
	}
	return list
}

// age merges the hours of a day into one row for each job.
func (r *Reports) age(ctx context.Context, s *state, from, to core.Instant, now time.Time) error {
	if err := r.drop(ctx, old, from, from+1); err != nil {
		return err
	}
	var rows []Row
	err := r.load(ctx, days, from, to, func(_ recordKey, s *sheet) error {
		rows = append(rows, asOne(s.rows, from)...)
		return nil
	})
	if err != nil {
		return err
	}
	store, all := context.WithoutCancel(ctx), table{}
	all.sum(rows)
	if err := errors.Join(r.put(store, old+ofJobs, from, sheets(rows, nil)), r.totals(store, old, from, all)); err != nil {
		return err
	}
	s.over(days, from, to, now)
	s.Old = to
	return nil
}

// drop removes all records of a form in a span.
func (r *Reports) drop(ctx context.Context, form string, from, to core.Instant) error {
	lists := []string{form + ofJobs, form + ofApps, form + ofAll}
	if form == days {
		lists = append(lists, form+ofApps+byHours, form+ofAll+byHours)
	}
	for _, list := range lists {
		records, err := r.records(ctx, list, from, to)
		if err != nil {
			return err
		}
		if err := r.write(ctx, records, true); err != nil {
			return err
		}
	}
	return nil
}
