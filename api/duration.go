package api

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// ParseDuration parses a duration such as 500ms, 10s, 5m, 2h or 30d. A duration can have several units, such as 1h30m:
// each unit occurs once, and larger units come first. A day is 24 hours. Numbers are whole and have no sign. An error
// has the allowed formats.
func ParseDuration(text string) (time.Duration, error) {
	d, why := ReadDuration(text)
	switch why.Code() {
	case "":
		return d, nil
	case isEmpty, isNegative, isNone: // the other errors include the correct format
		return 0, core.Errorf(core.CodeInvalid, "%s: use for example 500ms, 10s, 5m, 2h, 30d or 1h30m", why)
	}
	return 0, &core.Error{Code: core.CodeInvalid, Reason: why}
}

const (
	isEmpty    = "empty"
	isNegative = "negative"
	isNone     = "not a duration"
)

// ReadDuration parses a duration in the format of ParseDuration, for callers that describe the allowed formats
// themselves. If the text is invalid, why is the problem; otherwise why is the zero Text.
func ReadDuration(text string) (d time.Duration, why core.Text) {
	if text == "" {
		return 0, core.Say(isEmpty)
	}
	if text[0] == '-' {
		return 0, core.Say(isNegative)
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
			return 0, core.Say("a number needs a unit: use %ss", number)
		case strings.HasPrefix(rest, "."):
			return 0, core.Say("use whole numbers, such as 1h30m")
		}
		u := next
		for u < len(core.Units) && core.Units[u].Name != unit {
			u++
		}
		if weeks, err := strconv.Atoi(number); err == nil && unit == "w" {
			return 0, core.Say("the unit w is not supported: use %dd", 7*weeks)
		}
		if number == "" || u == len(core.Units) {
			return 0, core.Say(isNone)
		}
		v, err := strconv.ParseInt(number, 10, 64)
		if err != nil || v > math.MaxInt64/int64(core.Units[u].Size) || time.Duration(v)*core.Units[u].Size > math.MaxInt64-sum {
			return 0, core.Say("too long; a duration has at most 292 years")
		}
		sum += time.Duration(v) * core.Units[u].Size
		next = u + 1
	}
	return sum, core.Text{}
}

// parseDuration is ParseDuration for a field; an empty text is 0.
func parseDuration(field, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, core.Invalid(field, text, "a duration needs a unit: use %ss", text)
	}
	return 0, core.Invalid(field, text, "write a duration as 500ms, 10s, 5m, 2h, 30d or 1h30m")
}

// durationField is a field with a duration, and the variable for its value.
type durationField struct {
	field, text string
	to          *time.Duration
}

// parseDurations parses the fields in order, up to the first that is invalid.
func parseDurations(list []durationField) (err error) {
	for _, d := range list {
		if *d.to, err = parseDuration(d.field, d.text); err != nil {
			return err
		}
	}
	return nil
}

// orNil returns nil for the zero time.
func orNil(t *time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return t
}

// orNone is core.FormatDuration, but returns "" for 0.
func orNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return core.FormatDuration(d)
}
