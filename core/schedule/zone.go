package schedule

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
)

const (
	day = 24 * 60 * 60
	// maxOffset is more than the offset of any zone from UTC, in seconds.
	maxOffset = 16 * 60 * 60
	// reach is how far from a clock change, in seconds, it can affect the order of wall-clock times:
	// the largest possible change.
	reach = 2 * maxOffset
)

// zone has the offsets of one time zone from 1970 to the horizon. It is immutable and shared by all
// schedules of that zone.
type zone struct {
	name string
	// periods are ordered by start, the first before any time; neighbors differ in offset.
	periods []period
}

// period is a time of constant offset.
type period struct {
	start  int64 // Unix seconds, included; it ends with the start of the next one
	offset int64 // seconds east of UTC
}

var utc = &zone{name: "UTC", periods: []period{{math.MinInt64, 0}}}

// zones caches the results of loadZone by name. Only existing zones are cached, so it is limited by
// their number (600, at most 4 KB each).
var zones sync.Map

// ianaName is the form of IANA names: up to three words that start with a capital.
var ianaName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*){0,2}$`)

// loadZone is the one place that loads zones.
func loadZone(name string) (*zone, error) {
	switch name {
	case "", "UTC":
		return utc, nil
	}
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	// A database in a directory also has files that are not zones: the host's zone, rules, and a second set that
	// counts leap seconds. A path also has many spellings.
	if name == "Local" || name == "Factory" || !ianaName.MatchString(name) {
		return nil, errors.New("no IANA zone")
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	z, _ := zones.LoadOrStore(name, newZone(name, loc))
	return z.(*zone), nil
}

func newZone(name string, loc *time.Location) *zone {
	offset := func(t int64) int64 {
		_, o := time.Unix(t, 0).In(loc).Zone()
		return int64(o)
	}
	t := int64(-2 * day)
	z := &zone{name: name, periods: []period{{math.MinInt64, offset(t)}}}
	for t < int64(core.Horizon)+2*day {
		_, end := time.Unix(t, 0).In(loc).ZoneBounds()
		if end.IsZero() {
			break
		}
		next := end.Unix()
		if next <= t {
			// Beyond a zone's table, ZoneBounds assumes years of 365 days: on the last day of a leap
			// year the end is in the past. A change within that day is found by bisection.
			next = t + day
			if before := offset(t); offset(next) != before {
				next = t + 1 + int64(sort.Search(day-1, func(i int) bool { return offset(t+1+int64(i)) != before }))
			}
		}
		t = next
		if o := offset(t); o != z.periods[len(z.periods)-1].offset {
			z.periods = append(z.periods, period{t, o})
		}
	}
	z.periods = slices.Clip(z.periods)
	return z
}

// at returns the index of the period that contains t.
func (z *zone) at(t int64) int {
	if len(z.periods) == 1 {
		return 0
	}
	return sort.Search(len(z.periods), func(i int) bool { return z.periods[i].start > t }) - 1
}

// end returns the first second after period i.
func (z *zone) end(i int) int64 {
	if i+1 < len(z.periods) {
		return z.periods[i+1].start
	}
	return math.MaxInt64
}

// reached returns the latest wall-clock time that the zone's clock has shown up to t. It exceeds the
// time at t if the clock was set back recently.
func (z *zone) reached(t int64) cron.Wall {
	i := z.at(t)
	wall := t + z.periods[i].offset
	for ; i > 0 && z.periods[i].start > t-reach; i-- {
		wall = max(wall, z.periods[i].start-1+z.periods[i-1].offset)
	}
	return cron.Wall(wall)
}

// first returns the first second at which the zone's clock shows wall or more.
func (z *zone) first(wall cron.Wall) int64 {
	w := int64(wall)
	for i := z.at(w - maxOffset); ; i++ {
		if t := max(w-z.periods[i].offset, z.periods[i].start); t < z.end(i) {
			return t
		}
	}
}

// WallTime returns when the clocks of loc show the date and time of wall, whose own zone must be UTC. For a time that clocks
// skip, it returns the end of the gap. For a time that exists twice, it returns the first.
func WallTime(wall time.Time, loc *time.Location) time.Time {
	for t := wall.Add(-maxOffset * time.Second).In(loc); ; {
		_, offset := t.Zone()
		start, end := t.ZoneBounds()
		at := wall.Add(-time.Duration(offset) * time.Second).In(loc)
		if at.Before(start) {
			at = start.In(loc)
		}
		if end.IsZero() || at.Before(end) {
			return at
		}
		t = end
	}
}
