package manifest

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

var units = []struct {
	name string
	d    time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// ParseDuration reads a duration as manifests write it: 500ms 10s 5m 2h 30d,
// or several units, each once and the larger first: 1h30m. A day is 24 hours.
// Numbers are whole and without a sign.
func ParseDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, errors.New("empty; allowed are 500ms 10s 5m 2h 30d and such as 1h30m")
	}
	if text[0] == '-' {
		return 0, errors.New("negative; allowed are 500ms 10s 5m 2h 30d and such as 1h30m")
	}
	var sum time.Duration
	next := 0
	for rest := text; rest != ""; {
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		number := rest[:n]
		rest = rest[n:]
		n = 0
		for n < len(rest) && rest[n] >= 'a' && rest[n] <= 'z' {
			n++
		}
		unit := rest[:n]
		rest = rest[n:]
		switch {
		case number != "" && unit == "" && rest == "" && next == 0:
			return 0, fmt.Errorf("a bare number has no unit; say %ss", number)
		case strings.HasPrefix(rest, "."):
			return 0, errors.New("numbers are whole; write such as 1h30m")
		}
		u := next
		for u < len(units) && units[u].name != unit {
			u++
		}
		if number == "" || u == len(units) {
			return 0, errors.New("no duration; allowed are 500ms 10s 5m 2h 30d and such as 1h30m")
		}
		v, err := strconv.ParseInt(number, 10, 64)
		if err != nil || v > math.MaxInt64/int64(units[u].d) || time.Duration(v)*units[u].d > math.MaxInt64-sum {
			return 0, errors.New("too long; a duration has at most 292 years")
		}
		sum += time.Duration(v) * units[u].d
		next = u + 1
	}
	return sum, nil
}

// FormatDuration writes a duration as manifests do, in as few units as are
// exact: 90s is 1m30s, 720h is 30d. ParseDuration reads the same, but for what
// is negative or has parts of a millisecond.
func FormatDuration(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d < 0 || d%time.Millisecond != 0:
		return d.String()
	}
	if d < 2*time.Minute && d%time.Minute == 0 {
		return "60s" // as everybody writes it
	}
	var b strings.Builder
	for _, u := range units {
		if n := d / u.d; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.d
		}
	}
	return b.String()
}
