// Package report says what became of runs by hour and by day: how many ended how, how
// long they took, how late they went. It is derived: an hour is summed from its runs once
// it is over, and nothing is counted where a run is made or ends, so a crash loses
// nothing. What is stored is small and outlives the runs: by hour for a year, by day for
// as long as the store lasts. It refuses to know schedules: what was demanded and has no
// run is for an audit.
//
// What is stored stands in five lists for each of three forms: hours as they were
// summed; days, whose rows are still those of hours; and, after a year, days whose rows
// are of the whole day.
//
//	FORM/jobs    rows of jobs, many to a record, by the first of their numbers
//	FORM/apps    of each app by day, FORM/apps-hours by hour
//	FORM/all     of all by day, FORM/all-hours by hour
//
// Which form holds for which time says the state, and it alone: what stands in a list
// outside of the time of its form is not read.
package report

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
)

// Store is what reports are made from, and where they stand.
type Store interface {
	Source
	Records
	// ReportState reads what PutReportState stored, and how often that was; 0 never.
	ReportState(ctx context.Context) (v int64, body []byte, err error)
	// PutReportState stores it; condition: it was stored seen times.
	PutReportState(ctx context.Context, seen int64, body []byte) error
}

// Source are the runs.
type Source interface {
	// Began tells the runs that began in from <= moment < to, each once, as many at a
	// time as it likes: a run begins with the minute of the claim that has it, and one
	// that ended without any with its end. Where it tells them in the order of jobs it may stop
	// when ctx ends, and answers the job up to which all were told; else until is 0.
	// behind is such an answer, to go on behind; 0: from the first. Of what the runs
	// hold only what a Row counts must be there.
	Began(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (until core.JobID, err error)
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
}

// Key is where a record stands: in a list, at a moment, by the first job in it.
type Key struct {
	List  string
	At    core.Instant
	First core.JobID
}

// Record is one thing that is stored whole, 400 KB at most.
type Record struct {
	Key
	Body []byte
}

// Records are what is stored. Each is written and removed by itself.
type Records interface {
	// Reports reads the records of a list with from <= At < to, by At and First.
	Reports(ctx context.Context, list string, from, to core.Instant) ([]Record, error)
	// ReportsOf reads, for each moment, the record of a list with the highest First that
	// is not above the job; those moments that have none are not in the answer.
	ReportsOf(ctx context.Context, list string, job core.JobID, at []core.Instant) ([]Record, error)
	PutReports(ctx context.Context, records []Record) error
	DropReports(ctx context.Context, keys []Key) error
}

// Options of Reports. The zero value of a field means its default.
type Options struct {
	Now func() time.Time
	Log *slog.Logger
	// Zone is where days begin and end: UTC.
	Zone *time.Location
	// Behind is how long after its end an hour is summed first: 5 min.
	Behind time.Duration
	// Hours is for how long reports stay by hour: 366 days.
	Hours time.Duration
	// PassFor is how long one pass works at most: 10 s.
	PassFor time.Duration
	// LiveFor is how long a question reads runs of hours that are not summed yet: 100 ms.
	LiveFor time.Duration
}

// Reports makes and reads reports. Any number of them may work on one store: one at a time
// does, while its turn lasts.
type Reports struct {
	store Store
	o     Options
	shift core.Instant // of the zone's hours against those of UTC
	// idle is until when there is nothing to do, as far as this process knows.
	idle time.Time
	// last is when the last pass began: a pass before it has a clock that was set back.
	last time.Time
}

// New makes reports on a store.
func New(store Store, o Options) *Reports {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Behind = cmp.Or(o.Behind, 5*time.Minute)
	o.Hours = cmp.Or(o.Hours, 366*24*time.Hour)
	o.PassFor = cmp.Or(o.PassFor, 10*time.Second)
	o.LiveFor = cmp.Or(o.LiveFor, 100*time.Millisecond)
	return &Reports{store: store, o: o, shift: shiftOf(o.Zone)}
}

// Zone is the zone of a name, such as Europe/Berlin; UTC if it is empty. The host's own is
// none.
func Zone(name string) (*time.Location, error) {
	if err := schedule.CheckZone("zone", name); err != nil {
		return nil, err
	}
	return time.LoadLocation(name) // empty is UTC
}

// hour is the length of an hour, in instants.
const hour = 3600

// shiftOf is by how much the hours of a zone begin after those of UTC, the same at all
// times: as on 1 January 2020. Where clocks go forward by half an hour, which is on Lord
// Howe Island alone, days begin at the first such hour of theirs.
func shiftOf(zone *time.Location) core.Instant {
	_, offset := time.Date(2020, 1, 1, 0, 0, 0, 0, zone).Zone()
	return core.Instant(((-offset)%hour + hour) % hour)
}

// floor is the start of the hour of an instant.
func (r *Reports) floor(at core.Instant) core.Instant { return (at-r.shift)/hour*hour + r.shift }

// dayOf is when the day of an instant begins in a zone, and the next one; both are starts
// of hours.
func (r *Reports) dayOf(at core.Instant, zone *time.Location) (from, to core.Instant) {
	y, m, d := at.Time().In(zone).Date()
	ceil := func(t time.Time) core.Instant { return r.floor(core.InstantOf(t) + hour - 1) }
	from, to = ceil(time.Date(y, m, d, 0, 0, 0, 0, zone)), ceil(time.Date(y, m, d+1, 0, 0, 0, 0, zone))
	if at < from { // it lies in the hour that the day before has
		return r.dayOf(from-2*hour, zone)
	}
	return from, to
}

// The forms, and the lists of each.
const (
	hours = "hours"
	days  = "days"
	old   = "old"

	ofJobs  = "/jobs"
	ofApps  = "/apps"
	ofAll   = "/all"
	byHours = "-hours"
)

// state is how far reports have come. What is before Old is in the form old, then up to
// Days in days, then up to Done in hours.
type state struct {
	// Until is when the turn of who is at work is over; zero: nobody is.
	Until           time.Time
	Done, Days, Old core.Instant
	Since           core.Instant // what began before is not reported
	// Behind is the job up to which the hour after Done is summed.
	Behind core.JobID `json:",omitempty"`
	// Open are the hours and days that have runs without an end.
	Open []look `json:",omitempty"`
	// Drop are records of a form whose time is over, to go at a moment.
	Drop []drop `json:",omitempty"`
	// Failed is why the last pass failed, At when.
	Failed string    `json:",omitempty"`
	At     time.Time `json:",omitzero"`
	back   bool      // it was set back since it was stored
}

// look is an hour or a day to be looked at again.
type look struct {
	Form string
	At   core.Instant
	Next time.Time
	Age  time.Duration // between the last look and the next
	// Taken is up to when: of its runs each that ended before that is counted.
	Taken core.Instant
}

type drop struct {
	Form     string
	From, To core.Instant
	Next     time.Time
}

func (r *Reports) read(ctx context.Context) (v int64, s state, err error) {
	v, body, err := r.store.ReportState(ctx)
	if err == nil && v > 0 {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		return 0, s, fmt.Errorf("read how far reports have come: %w", err)
	}
	now := r.o.Now()
	if at := core.InstantOf(now); s.Done > at {
		s.setBack(at, r)
	}
	for i := range s.Open {
		if l := &s.Open[i]; l.Next.After(now.Add(mostLook)) || l.Taken.Time().After(now) { // by a clock that was set back since
			l.Next, l.Taken = now, min(l.Taken, core.InstantOf(now))
		}
	}
	return v, s, nil
}

// setBack has the hour of now summed again, and the hours after it: a clock that was ahead had them summed
// before they were over. If today was put together as a day, all its hours are summed again.
func (s *state) setBack(now core.Instant, r *Reports) {
	s.Done, s.Behind, s.back = r.floor(now), 0, true
	if s.Days > s.Done {
		s.Days, _ = r.dayOf(now, r.o.Zone)
		s.Done = s.Days
	}
	s.Old, s.Since = min(s.Old, s.Days), min(s.Since, s.Done)
	s.Open = slices.DeleteFunc(s.Open, func(l look) bool { return l.At >= s.Done })
	s.Drop = slices.DeleteFunc(s.Drop, func(d drop) bool { return d.From >= s.Days })
}

func (r *Reports) write(ctx context.Context, v int64, s *state) error {
	body, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write how far reports have come: %w", err)
	}
	if err := r.store.PutReportState(ctx, v, body); err != nil {
		return fmt.Errorf("write how far reports have come: %w", err)
	}
	return nil
}

// Counted is up to when runs are counted for good: one that ended before it is in a report,
// with its end, or never will be, as where it began before reports did. Where none was made
// yet that is the hour in which the first would begin. Who removes runs asks it.
func (r *Reports) Counted(ctx context.Context) (core.Instant, error) {
	v, s, err := r.read(ctx)
	if err != nil {
		return 0, err
	}
	at := s.Done
	if v == 0 {
		at = r.floor(core.InstantOf(r.o.Now()))
	}
	for i := range s.Open {
		at = min(at, s.Open[i].Taken)
	}
	// The end of a run is stored some time after it, and clocks differ, as for an hour that is over.
	return at - core.Instant(r.o.Behind/time.Second), nil
}

// Health is how far reports have come.
type Health struct {
	Since    core.Instant // what began before it is not reported; 0: nothing is yet
	Until    core.Instant // what began before it is summed; 0: nothing yet
	Open     int          // hours and days of which runs have no end yet
	Failed   string       // why the last pass failed; empty: it did not
	FailedAt time.Time
}

// Health reads how far reports have come.
func (r *Reports) Health(ctx context.Context) (Health, error) {
	_, s, err := r.read(ctx)
	return Health{Since: s.Since, Until: s.Done, Open: len(s.Open), Failed: s.Failed, FailedAt: s.At}, err
}
