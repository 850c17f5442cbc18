// Package report counts the results of runs by hour and by day: their states, durations and lateness. An hour is counted from
// its runs after the hour has ended, so a crash loses nothing. Reports are small and are kept longer than the runs: hourly
// reports for a year, daily reports forever. The package does not use schedules. An audit finds missing runs.
//
// Reports are stored in five lists for each of three forms. The first form has hours. The second form has days with a row for
// each hour. The third form is for days that are older than a year, and has one row for each day.
//
//	FORM/jobs    rows of jobs, many to a record, by the first of their numbers
//	FORM/apps    of each app by day, FORM/apps-hours by hour
//	FORM/all     of all by day, FORM/all-hours by hour
//
// The stored state defines which form applies to which time. Records of another form for that time are ignored.
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

// Store stores reports, and reads the runs that they count.
type Store interface {
	Source
	Records
	// ReportState reads the state that PutReportState stored. The result v is how often the state was written; 0: never.
	ReportState(ctx context.Context) (v int64, body []byte, err error)
	// PutReportState stores the state, on the condition that the state was written seen times before.
	PutReportState(ctx context.Context, seen int64, body []byte) error
}

// Source reads runs.
type Source interface {
	// Began passes runs to the function each, every run once, in batches. Began passes the runs that began at or after from
	// and before to. A run begins in the minute of its claim, or at its end if it was never claimed. Runs need only the fields
	// that a Row counts. If the store sorts runs by job, Began may stop when ctx ends. The result until is then the last
	// complete job, and otherwise 0. A further call with this job as behind continues after it; 0 starts with the first job.
	Began(ctx context.Context, from, to core.Instant, behind core.JobID, each func([]core.Run)) (until core.JobID, err error)
	Runs(ctx context.Context, runs []core.RunID) (found map[core.RunID]core.Run, unread []core.RunID, err error)
}

// A Key identifies a stored record of a report by its list, its time, and its first job.
type Key struct {
	List  string
	At    core.Instant
	First core.JobID
}

// A Record is a part of a report that is stored as one item, of at most 400 KB.
type Record struct {
	Key
	Body []byte
}

// Records stores the records of reports. Each record is written and removed independently.
type Records interface {
	// Reports reads the records of a list whose At is at or after from and before to, sorted by At and First.
	Reports(ctx context.Context, list string, from, to core.Instant) ([]Record, error)
	// ReportsOf reads one record of a list for each time in at: the record with the highest First that is not higher than job.
	// Times without a record are omitted.
	ReportsOf(ctx context.Context, list string, job core.JobID, at []core.Instant) ([]Record, error)
	PutReports(ctx context.Context, records []Record) error
	DropReports(ctx context.Context, keys []Key) error
}

// Options of Reports. A field with its zero value gets the default in its comment.
type Options struct {
	Now func() time.Time
	Log *slog.Logger
	// Zone is the time zone of days. Default: UTC.
	Zone *time.Location
	// Behind is how long after its end an hour is first counted. Default: 5 min.
	Behind time.Duration
	// Hours is how long hourly reports are kept. Default: 366 days.
	Hours time.Duration
	// PassFor is the time limit of one pass. Default: 10 s.
	PassFor time.Duration
	// LiveFor is the time limit for reading the runs of hours without a report. Default: 100 ms.
	LiveFor time.Duration
}

// Reports creates and reads reports. Several processes can share one store, but only one of them creates reports at a time.
type Reports struct {
	store Store
	o     Options
	shift core.Instant // offset of the zone's hours from UTC hours
	// idle is the time before which this process has nothing to do.
	idle time.Time
	// last is when the last pass began; an earlier time in the next pass means that the clock was set back.
	last time.Time
}

// New returns Reports for a store.
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

// Zone returns the time zone with an IANA name such as Europe/Berlin. An empty name is UTC. The name "Local" is rejected.
func Zone(name string) (*time.Location, error) {
	if err := schedule.CheckZone("zone", name); err != nil {
		return nil, err
	}
	return time.LoadLocation(name) // empty is UTC
}

// hour is the length of an hour in seconds.
const hour = 3600

// shiftOf returns the offset of a zone's hours from UTC hours, taken on 1 January 2020. On Lord Howe
// Island, clocks shift by half an hour, so days begin at the first such hour.
func shiftOf(zone *time.Location) core.Instant {
	_, offset := time.Date(2020, 1, 1, 0, 0, 0, 0, zone).Zone()
	return core.Instant(((-offset)%hour + hour) % hour)
}

// floor returns the start of the hour of a time.
func (r *Reports) floor(at core.Instant) core.Instant { return (at-r.shift)/hour*hour + r.shift }

// dayOf returns the start of a time's day in a zone, and the start of the next day. Both are starts of
// hours.
func (r *Reports) dayOf(at core.Instant, zone *time.Location) (from, to core.Instant) {
	y, m, d := at.Time().In(zone).Date()
	ceil := func(t time.Time) core.Instant { return r.floor(core.InstantOf(t) + hour - 1) }
	from, to = ceil(time.Date(y, m, d, 0, 0, 0, 0, zone)), ceil(time.Date(y, m, d+1, 0, 0, 0, 0, zone))
	if at < from { // its hour belongs to the previous day
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

// state is the progress of reports. Time before Old is in the form old, then up to Days in days, then up to
// Done in hours.
type state struct {
	// Until is the end of the current turn; zero: no turn.
	Until           time.Time
	Done, Days, Old core.Instant
	Since           core.Instant // earlier runs are not reported
	// Behind is the job up to which the hour after Done is summed.
	Behind core.JobID `json:",omitempty"`
	// Open are the hours and days with open runs.
	Open []look `json:",omitempty"`
	// Drop are the records to remove later, because their form no longer applies.
	Drop []drop `json:",omitempty"`
	// Failed is the error of the last pass, At its time.
	Failed string    `json:",omitempty"`
	At     time.Time `json:",omitzero"`
	back   bool      // the clock was set back since it was stored
}

// look is an hour or a day to check again.
type look struct {
	Form string
	At   core.Instant
	Next time.Time
	Age  time.Duration // time between the last check and the next
	// Taken is the time before which all ends of its runs are counted.
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
		if l := &s.Open[i]; l.Next.After(now.Add(mostLook)) || l.Taken.Time().After(now) { // the clock was set back since
			l.Next, l.Taken = now, min(l.Taken, core.InstantOf(now))
		}
	}
	return v, s, nil
}

// setBack resets the state to the current hour after the clock was set back: later hours were summed before
// they were over. If today was combined into a day, all its hours are summed again.
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

// Counted returns the time before which ended runs are finally counted, so that they can be deleted. Runs that began before
// the first report are never counted. If no report exists, Counted returns the start of the current hour, minus
// Options.Behind.
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
	// The end of a run is stored with a delay, and clocks differ, as for an hour that is over.
	return at - core.Instant(r.o.Behind/time.Second), nil
}

// Health is the status of the reports.
type Health struct {
	Since    core.Instant // runs that began earlier are not in the reports; 0: there are no reports
	Until    core.Instant // runs that began earlier are counted; 0: none are
	Open     int          // number of hours and days with runs that have not ended
	Failed   string       // error of the last pass; empty: none
	FailedAt time.Time
}

// Health returns the status of the reports.
func (r *Reports) Health(ctx context.Context) (Health, error) {
	_, s, err := r.read(ctx)
	return Health{Since: s.Since, Until: s.Done, Open: len(s.Open), Failed: s.Failed, FailedAt: s.At}, err
}
