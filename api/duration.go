package api

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

var units = []struct {
	name string
	size time.Duration
}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// parseDuration reads a duration as the document writes it: 500ms 10s 5m 2h
// 30d, or several units, each once and the larger first: 1h30m. Empty is 0.
func parseDuration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, core.Invalid(field, text, fmt.Sprintf("a duration needs a unit: say %ss", text))
	}
	wrong := core.Invalid(field, text, "a duration is written as 500ms, 10s, 5m, 2h, 30d or 1h30m")
	var sum time.Duration
	rest, last := text, -1
	for rest != "" {
		n := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if n <= 0 {
			return 0, wrong
		}
		count, err := strconv.ParseInt(rest[:n], 10, 64)
		rest = rest[n:]
		end := strings.IndexFunc(rest, func(r rune) bool { return r >= '0' && r <= '9' })
		if end < 0 {
			end = len(rest)
		}
		unit := -1
		for i, u := range units {
			if u.name == rest[:end] {
				unit = i
			}
		}
		rest = rest[end:]
		if err != nil || unit <= last || count > int64((math.MaxInt64-sum)/units[unit].size) {
			return 0, wrong
		}
		sum += time.Duration(count) * units[unit].size
		last = unit
	}
	return sum, nil
}

// formatDuration writes d, of whole milliseconds, so that parseDuration reads
// the same; 0 is "0s".
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range units {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

// orNone is formatDuration, empty for 0.
func orNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return formatDuration(d)
}
