package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// mostLooks limits the hours to check again; the oldest beyond it stay as they are.
	mostLooks = 2000
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
	r.idle = time.Time{} // it may be of a clock that was ahead
	v, s, err := r.readState(ctx)
	if err != nil {
		return err
	}
	switch {
	case now.Before(s.Until) && s.Until.Before(now.Add(r.o.PassFor+farTurn)):
		return nil
	case v == 0: // reports begin with the current hour
		s.Done = r.floor(core.InstantOf(now))
		s.Days, s.Since = s.Done, s.Done
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
func (s *state) place() [5]int64 {
	return [...]int64{int64(s.Done), int64(s.Behind), int64(s.Days), int64(s.Lists), int64(len(s.Open))}
}

// due returns the end of the next hour to sum.
func (r *Reports) due(s *state) core.Instant { return r.floor(s.Done + hour) }

// next returns when work is due next.
func (r *Reports) next(s *state) time.Time {
	at := []time.Time{r.due(s).Time().Add(countAfter)}
	for _, l := range s.Open {
		at = append(at, l.Next)
	}
	if _, to := r.dayOf(s.Days, r.o.Zone); to <= s.Done {
		at = append(at, to.Time().Add(afterDay))
	}
	return slices.MinFunc(at, time.Time.Compare)
}

// work does the due steps in order and records them in s.
func (r *Reports) work(ctx context.Context, s *state) error {
	now := r.o.Now()
	for ctx.Err() == nil {
		end := r.due(s)
		if now.Before(end.Time().Add(countAfter)) {
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
		left, err := r.settle(ctx, s, l, now)
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
		to, err := r.dayEnd(ctx, s)
		if err == nil && (to > s.Done || now.Before(to.Time().Add(afterDay))) {
			break
		}
		if err == nil {
			err = r.day(ctx, s, to)
		}
		if err != nil {
			return fmt.Errorf("put the day from %s together: %w", s.Days, err)
		}
	}
	return ctx.Err()
}

// sum sums the hour after Done, or continues with it; over: the hour is complete.
func (r *Reports) sum(ctx context.Context, s *state, end core.Instant) (over bool, err error) {
	from, taken := s.Done, end
	if s.Behind == 0 {
		taken = core.InstantOf(r.o.Now())
	}
	t := table{}
	until, err := r.s.Runs.Began(ctx, from, end, s.Behind, func(runs []core.Run) { t.count(from, runs) })
	if err != nil {
		return false, err
	}
	// The time limit may be over, but the runs read so far are stored.
	store := context.WithoutCancel(ctx)
	rows := t.rows()
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Job, b.Job) })
	if until != 0 {
		rows = slices.DeleteFunc(rows, func(row Row) bool { return row.Job > until })
	}
	if s.Behind != 0 && len(rows) > 0 && ofJob(rows[0].Job) == ofJob(s.Behind) { // this list is stored in part
		part, err := r.read(store, hours+ofJob(s.Behind), from, from+1)
		if err != nil {
			return false, err
		}
		for _, sh := range part {
			sh.Rows = slices.DeleteFunc(sh.Rows, func(row Row) bool { return row.Job > s.Behind })
			rows = slices.Concat(sh.Rows, rows)
		}
	}
	var list []sheet
	for len(rows) > 0 {
		of, n := ofJob(rows[0].Job), 1
		for n < len(rows) && ofJob(rows[n].Job) == of {
			n++
		}
		list = append(list, sheet{list: hours + of, at: from, Rows: rows[:n]})
		rows, s.Jobs = rows[n:], append(s.Jobs, of)
	}
	s.Jobs = slices.Compact(s.Jobs)
	if err := r.write(store, list...); err != nil {
		return false, err
	}
	if until != 0 {
		s.Behind = until
		return false, nil
	}
	left, err := r.total(store, from, s.Jobs)
	if err != nil {
		return false, err
	}
	if left {
		s.Open = append(s.Open, look{At: from, Next: r.o.Now().Add(firstLook).UTC(), Age: firstLook, Taken: taken})
		s.Open = s.Open[max(0, len(s.Open)-mostLooks):]
	}
	s.Done, s.Behind, s.Jobs = end, 0, nil
	return true, nil
}

// total writes the sums of an hour from the rows of its jobs; left: some runs are open.
func (r *Reports) total(ctx context.Context, at core.Instant, jobs []string) (left bool, err error) {
	t := table{}
	err = r.each(ctx, hours, jobs, at, at+1, func(s *sheet) error {
		for i := range s.Rows {
			row := &s.Rows[i]
			if row.App != "" {
				t.add(place{at: at, app: row.App}, row)
			}
			t.add(place{at: at}, row)
			left = left || len(row.Unsettled) > 0
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	rows := t.rows()
	if len(rows) == 0 {
		return false, nil
	}
	// The row of all has no app, so it is the first.
	return left, r.write(ctx, sheet{list: hours + ofApps, at: at, Rows: rows[1:]},
		sheet{list: hours + ofAll, at: at, Rows: rows[:1], Jobs: jobs})
}

// settle counts the ends of open runs of an hour; left: some are still open. Each sheet is written with its remaining open
// runs, then the sums, so that it can be repeated after a crash. The day of the hour is then combined again.
func (r *Reports) settle(ctx context.Context, s *state, l *look, now time.Time) (left bool, err error) {
	jobs, err := r.jobs(ctx, hours, l.At, l.At+1)
	if err != nil {
		return false, err
	}
	all, changed := true, false
	err = r.each(ctx, hours, jobs, l.At, l.At+1, func(sh *sheet) error {
		var ids []core.RunID
		for i := range sh.Rows {
			ids = append(ids, sh.Rows[i].Unsettled...)
		}
		if len(ids) == 0 {
			return nil
		}
		found, err := r.s.Runs.Get(ctx, ids)
		for _, g := range found {
			if errors.Is(g.Err, core.ErrThrottled) {
				all = false
			} else {
				err = cmp.Or(err, g.Err)
			}
		}
		if err != nil || !sh.settle(found) {
			return err
		}
		changed = true
		return r.write(ctx, *sh)
	})
	if err != nil {
		return false, err
	}
	if all {
		l.Taken = core.InstantOf(now)
	}
	if left, err = r.total(ctx, l.At, jobs); err != nil || left && !changed || l.At >= s.Days || len(jobs) == 0 {
		return left, err
	}
	// Without open runs the day is always combined again: a process may have died after it changed a sheet.
	of, err := r.read(ctx, days+ofAll, l.At-26*hour, l.At+1) // the last is its day
	if err == nil && len(of) > 0 {
		s.Days, s.Lists = of[len(of)-1].at, 0
	}
	return left, err
}

// dayEnd returns the end of the day after Days. A day that was combined before ends as it did then, maybe in another zone.
func (r *Reports) dayEnd(ctx context.Context, s *state) (to core.Instant, err error) {
	_, to = r.dayOf(s.Days, r.o.Zone)
	known, err := r.read(ctx, days+ofAll, s.Days, to)
	switch {
	case len(known) == 0:
		return to, err
	case known[0].at == s.Days:
		return known[0].To, err
	}
	return known[0].at, err
}

// day combines the hours of the day after Days, one list after the other. A later pass continues with the next list.
func (r *Reports) day(ctx context.Context, s *state, to core.Instant) error {
	from := s.Days
	jobs, err := r.jobs(ctx, hours, from, to)
	if err != nil {
		return err
	}
	lists := jobs
	if len(jobs) > 0 {
		lists = append(slices.Clone(jobs), ofApps, ofAll)
	}
	for s.Lists < len(lists) {
		list := lists[s.Lists]
		sheets, err := r.read(ctx, hours+list, from, to)
		if err != nil {
			return err
		}
		t := table{}
		for _, sh := range sheets {
			for i := range sh.Rows {
				row := &sh.Rows[i]
				t.add(place{from, row.App, row.Job}, row)
			}
		}
		sum := sheet{list: days + list, at: from, Rows: t.rows()}
		if list == ofAll {
			sum.Jobs, sum.To = jobs, to
		}
		if err := r.write(ctx, sum); err != nil {
			return err
		}
		s.Lists++
	}
	s.Days, s.Lists = to, 0
	return nil
}
