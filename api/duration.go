package api

import (
	"math"
	"regexp"
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

// spans matches a duration, with a number for each of core.Units.
var (
	spans = regexp.MustCompile(`^(?:([0-9]+)d)?(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?(?:([0-9]+)ms)?$`)
	bare  = regexp.MustCompile(`^[0-9]+$`)
	weeks = regexp.MustCompile(`([0-9]{1,9})w`)
)

// ReadDuration parses a duration in the format of ParseDuration, for callers that describe the allowed formats
// themselves. If the text is invalid, why is the problem; otherwise why is the zero Text.
func ReadDuration(text string) (d time.Duration, why core.Text) {
	numbers := spans.FindStringSubmatch(text)
	switch {
	case text == "":
		return 0, core.Say(isEmpty)
	case text[0] == '-':
		return 0, core.Say(isNegative)
	case bare.MatchString(text):
		return 0, core.Say("a number needs a unit: use %ss", text)
	case strings.Contains(text, "."):
		return 0, core.Say("use whole numbers, such as 1h30m")
	case numbers == nil:
		if w := weeks.FindStringSubmatch(text); w != nil {
			n, _ := strconv.Atoi(w[1])
			return 0, core.Say("the unit w is not supported: use %dd", 7*n)
		}
		return 0, core.Say(isNone)
	}
	for i, number := range numbers[1:] {
		if number == "" {
			continue
		}
		v, err := strconv.ParseInt(number, 10, 64)
		if size := core.Units[i].Size; err == nil && v <= int64((math.MaxInt64-d)/size) {
			d += time.Duration(v) * size
			continue
		}
		return 0, core.Say("too long; a duration has at most 292 years")
	}
	return d, core.Text{}
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
