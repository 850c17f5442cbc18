package core

import (
	"fmt"
	"strings"
	"time"
)

// Instant is a time in whole seconds since 1970-01-01T00:00:00Z. Zero means no time. Scheduled times and due times
// are Instants; measured times (sends, ends, changes) are time.Time in UTC.
type Instant int64

// Horizon is the last Instant that fits a run ID, 2088-01-19T03:14:07Z. Schedules have no later times.
const Horizon = Instant(runEpoch + 1<<31 - 1)

// InstantOf returns the last whole second at or before t.
func InstantOf(t time.Time) Instant { return Instant(t.Unix()) }

// Ceil returns the first whole second at or after t.
func Ceil(t time.Time) Instant {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return Instant(s)
}

// Time returns i as a time.Time in UTC. For zero, it returns the zero time.Time.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.Unix(int64(i), 0).UTC()
}

// Add returns i plus the whole seconds of d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d/time.Second) }

func (i Instant) String() string {
	if i == 0 {
		return "none"
	}
	return i.Time().Format(time.RFC3339)
}

// Millis returns t in milliseconds since 1970, as stores keep measured times; 0 for the zero time.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func FromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// Units lists the units in which durations are written, longest first.
var Units = []struct {
	Name string
	Size time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// FormatDuration formats a duration exactly, in the longest possible units: 90s is 1m30s, 720h is 30d. Package api
// can parse the result, unless the duration is negative or has a fraction of a millisecond.
func FormatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d < 0 || d%time.Millisecond != 0:
		return d.String()
	}
	var b strings.Builder
	for _, u := range Units {
		if n := d / u.Size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.Name)
			d -= n * u.Size
		}
	}
	return b.String()
}
