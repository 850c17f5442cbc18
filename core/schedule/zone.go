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
	// maxOffset is more than any zone is or was away from UTC, in seconds.
	maxOffset = 16 * 60 * 60
	// reach is how far from a clock change, in seconds, its effect on the order
	// of wall-clock times ends: the largest change there can be.
	reach = 2 * maxOffset
)

// zone is the offsets of one time zone from 1970 to the horizon. It is
// immutable and shared by all schedules of that zone.
type zone struct {
	name string
	// periods begin in the order of start, the first before any instant;
	// neighbours differ in offset.
	periods []period
}

// period is a time of constant offset.
type period struct {
	start  int64 // Unix seconds, included; it ends where the next one starts
	offset int64 // seconds east of UTC
}

var utc = &zone{name: "UTC", periods: []period{{math.MinInt64, 0}}}

// zones caches what loadZone made, by name. Only names of existing zones get
// in, so it is bounded by their number (600, at most 4 KB each).
var zones sync.Map

// ianaName is the form of the names that IANA gives: up to three words with a
// capital in front.
var ianaName = regexp.MustCompile(`^[A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*){0,2}$`)

// loadZone is the one place where zones are loaded.
func loadZone(name string) (*zone, error) {
	switch name {
	case "", "UTC":
		return utc, nil
	}
	if z, ok := zones.Load(name); ok {
		return z.(*zone), nil
	}
	// Where the database is a folder it has files that are no zones, such as the
	// host's own zone, rules, and a second set that counts leap seconds; and a path
	// has many spellings.
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
			// Beyond the table of a zone its bounds are those of a year of 365
			// days: on the last day of a leap year the end lies behind. A change
			// within that day is found by halving.
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

// at is the index of the period that holds t.
func (z *zone) at(t int64) int {
	if len(z.periods) == 1 {
		return 0
	}
	return sort.Search(len(z.periods), func(i int) bool { return z.periods[i].start > t }) - 1
}

// end is the first second after period i.
func (z *zone) end(i int) int64 {
	if i+1 < len(z.periods) {
		return z.periods[i+1].start
	}
	return math.MaxInt64
}

// reached is the latest wall-clock time that the zone's clock has shown up to
// t: what it shows at t, or more where it was set back a while ago.
func (z *zone) reached(t int64) cron.Wall {
	i := z.at(t)
	wall := t + z.periods[i].offset
	for ; i > 0 && z.periods[i].start > t-reach; i-- {
		wall = max(wall, z.periods[i].start-1+z.periods[i-1].offset)
	}
	return cron.Wall(wall)
}

// first is the first second at which the zone's clock shows wall or more.
func (z *zone) first(wall cron.Wall) int64 {
	w := int64(wall)
	for i := z.at(w - maxOffset); ; i++ {
		if t := max(w-z.periods[i].offset, z.periods[i].start); t < z.end(i) {
			return t
		}
	}
}

// WallTime returns when clocks of a zone show the date and the time of wall, which is in
// UTC. A time that clocks skip is the first moment after the gap, and of a time that they
// show twice it is the first, as in schedules.
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
