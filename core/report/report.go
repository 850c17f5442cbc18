// Package report counts the results of runs by hour and by day: their states, durations and lateness. An hour is counted from
// its runs after the hour has ended, so a crash loses nothing. Reports are small and are kept longer than the runs: hourly
// reports for a year, daily reports forever. The package does not use schedules. An audit finds missing runs.
//
// Reports are stored in two forms, with a row for each hour or for each day. Each form has lists of records by time:
//
//	FORM/jobs/N  rows of the jobs from N*groupJobs on, up to groupJobs of them
//	FORM/apps    rows of apps
//	FORM/all     one row of all jobs, and the names of the lists of jobs that have rows
//
// The stored state defines which form applies to which time. Records of another time are ignored. Records of hours expire.
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
	"github.com/tickring/tickring/store"
)

// Options of Reports. A field with its zero value gets the default in its comment.
type Options struct {
	Now func() time.Time
	Log *slog.Logger
	// Zone is the time zone of days. Default: UTC.
	Zone *time.Location
	// Hours is how long hourly reports are kept. Default: 366 days.
	Hours time.Duration
	// PassFor is the time limit of one pass. Default: 10 s.
	PassFor time.Duration
	// LiveFor is the time limit for reading the runs of hours without a report. Default: 100 ms.
	LiveFor time.Duration
}

// Reports creates and reads reports. Several processes can share one store, but only one of them creates reports at a time.
type Reports struct {
	s     *store.Store
	o     Options
	shift core.Instant // offset of the zone's hours from UTC hours
	// idle is the time before which this process has nothing to do.
	idle time.Time
	// last is when the last pass began; an earlier time in the next pass means that the clock was set back.
	last time.Time
}

// New returns Reports for a store.
func New(s *store.Store, o Options) *Reports {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Zone == nil {
		o.Zone = time.UTC
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	o.Hours = cmp.Or(o.Hours, 366*24*time.Hour)
	o.PassFor = cmp.Or(o.PassFor, 10*time.Second)
	o.LiveFor = cmp.Or(o.LiveFor, 100*time.Millisecond)
	return &Reports{s: s, o: o, shift: shiftOf(o.Zone)}
}

// Zone returns the time zone with an IANA name such as Europe/Berlin. An empty name is UTC. The name "Local" is rejected.
func Zone(name string) (*time.Location, error) {
	if err := schedule.CheckZone("zone", name); err != nil {
		return nil, err
	}
	return time.LoadLocation(name) // empty is UTC
}

const (
	hour        = 3600                // length of an hour in seconds
	countAfter  = 5 * time.Minute     // time after the end of an hour at which the hour is first counted
	expireAfter = 30 * 24 * time.Hour // time for which hours are stored after Options.Hours, in case that reports are behind
)

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

// The forms, and the lists of each. Jobs have a list for each group.
const (
	hours = "hours"
	days  = "days"

	ofApps = "/apps"
	ofAll  = "/all"
)

// ofJob returns the list with the rows of a job.
func ofJob(job core.JobID) string { return fmt.Sprintf("/jobs/%d", job/groupJobs) }

// state is the progress of reports. Hours are summed up to Done, and days are combined up to Days.
type state struct {
	// Until is the end of the current turn; zero: no turn.
	Until      time.Time
	Done, Days core.Instant
	Since      core.Instant // earlier runs are not reported
	// Behind is the job up to which the hour after Done is summed, and Jobs has the lists of these jobs.
	Behind core.JobID `json:",omitempty"`
	Jobs   []string   `json:",omitempty"`
	// Lists is the number of lists of the day after Days that are combined.
	Lists int `json:",omitempty"`
	// Open are the hours with open runs.
	Open []look `json:",omitempty"`
	// Failed is the error of the last pass, At its time.
	Failed string    `json:",omitempty"`
	At     time.Time `json:",omitzero"`
	back   bool      // the clock was set back since it was stored
}

// look is an hour to check again.
type look struct {
	At   core.Instant
	Next time.Time
	Age  time.Duration // time between the last check and the next
	// Taken is the time before which all ends of its runs are counted.
	Taken core.Instant
}

// stateKey identifies the record of the state. Its version is how often the state was written.
var stateKey = store.Key{Kind: "report", Name: "state"}

func (r *Reports) readState(ctx context.Context) (v int64, s state, err error) {
	rec, err := r.s.Read(ctx, stateKey)
	if err == nil && rec.V > 0 {
		err = json.Unmarshal(rec.Body, &s)
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
	return rec.V, s, nil
}

// setBack resets the state to the current hour after the clock was set back: later hours were summed before
// they were over. If hours of today can have expired, all of today is summed again.
func (s *state) setBack(now core.Instant, r *Reports) {
	ahead := s.Done
	s.Done, s.Behind, s.Jobs, s.Lists, s.back = r.floor(now), 0, nil, 0, true
	if s.Days > s.Done {
		s.Days, _ = r.dayOf(now, r.o.Zone)
	}
	if r.expiry(s.Days).Before(ahead.Time()) {
		s.Done = s.Days
	}
	s.Since = min(s.Since, s.Done)
	s.Open = slices.DeleteFunc(s.Open, func(l look) bool { return l.At >= s.Done })
}

// old returns the time before which reports exist by day only.
func (r *Reports) old(s *state) core.Instant {
	at, _ := r.dayOf(core.InstantOf(r.o.Now().Add(-r.o.Hours)), r.o.Zone)
	return min(at, s.Days)
}

// expiry returns when the records of the hours of a time's day expire: long after the day is combined.
func (r *Reports) expiry(at core.Instant) time.Time {
	from, _ := r.dayOf(at, r.o.Zone)
	return from.Time().Add(r.o.Hours + expireAfter)
}

// writeState stores the state on the condition that it was written v times before.
func (r *Reports) writeState(ctx context.Context, v int64, s *state) error {
	body, err := json.Marshal(s)
	if err == nil {
		err = r.s.Write(ctx, store.Write{Record: store.Record{Key: stateKey, V: v + 1, Body: body}, Was: v})
	}
	if err != nil {
		return fmt.Errorf("write how far reports have come: %w", err)
	}
	return nil
}

// Counted returns the time before which ended runs are finally counted, so that they can be deleted. Runs that began before
// the first report are never counted. If no report exists, Counted returns the start of the current hour, minus
// countAfter.
func (r *Reports) Counted(ctx context.Context) (core.Instant, error) {
	v, s, err := r.readState(ctx)
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
	return at - core.Instant(countAfter/time.Second), nil
}

// Health is the status of the reports.
type Health struct {
	Since    core.Instant // runs that began earlier are not in the reports; 0: there are no reports
	Until    core.Instant // runs that began earlier are counted; 0: none are
	Open     int          // number of hours with runs that have not ended
	Failed   string       // error of the last pass; empty: none
	FailedAt time.Time
}

// Health returns the status of the reports.
func (r *Reports) Health(ctx context.Context) (Health, error) {
	_, s, err := r.readState(ctx)
	return Health{Since: s.Since, Until: s.Done, Open: len(s.Open), Failed: s.Failed, FailedAt: s.At}, err
}
