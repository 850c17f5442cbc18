package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An About holds the facts about a run that a tickring server sends in addition to xxl-job's fields. An unknown fact has its
// zero value.
//
// Over HTTP, an About is sent in headers and never in the body. Executors of xxl-job ignore unknown headers, but can reject a
// body with an unknown member. In queue messages, function payloads and journals, an About is the member "tickring" of the
// run, see [AppendOrder]. Only tickring's own executors read this member.
type About struct {
	Attempt int    // number of the attempt in its retry chain; the first attempt is 1
	Instant int64  // scheduled time, in seconds since the Unix epoch
	Cause   string // why the run exists, such as "schedule" or "retry"

	// Traceparent identifies the trace span that sent the run, in the format of the W3C Trace Context header traceparent.
	Traceparent string
}

// Header names of the fields of an About. Calls to plain HTTP endpoints use these headers too.
const (
	HeaderAttempt     = "Tickring-Attempt"
	HeaderScheduledAt = "Tickring-Scheduled-At" // RFC 3339 in UTC
	HeaderCause       = "Tickring-Cause"

	HeaderTraceparent = "Traceparent" // header of W3C Trace Context
)

// Limits for an About: the years 1970 to 9999, and a cause of one word.
const (
	maxAttempt = 1_000_000
	maxInstant = 253402300799
	maxCause   = 32
)

// ParseAbout returns the About in a set of headers. The function get returns the value of a header, or "" if the header is
// missing. ParseAbout ignores a header whose value is malformed or too large.
func ParseAbout(get func(header string) string) About {
	attempt, instant, cause := get(HeaderAttempt), get(HeaderScheduledAt), get(HeaderCause)
	var a About
	if n, err := strconv.Atoi(attempt); err == nil && n > 0 && n <= maxAttempt {
		a.Attempt = n
	}
	if instant != "" && len(instant) <= 40 {
		if t, err := time.Parse(time.RFC3339, instant); err == nil && t.Unix() > 0 && t.Unix() <= maxInstant {
			a.Instant = t.Unix()
		}
	}
	if isWord(cause) {
		a.Cause = cause
	}
	if parent := get(HeaderTraceparent); isTraceparent(parent) {
		a.Traceparent = parent
	}
	return a
}

// isTraceparent reports whether s has version 00 of Trace Context: version, trace, span and flags in lower-case hex digits, and
// neither ID is zero.
func isTraceparent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch hyphen := i == 2 || i == 35 || i == 52; {
		case hyphen != (c == '-'), !hyphen && (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}

// isWord reports whether s is one word of lower-case letters and hyphens.
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= maxCause
}

// Headers calls set with the name and the value of the header of each field that is not zero. Headers omits values that
// ParseAbout would ignore.
func (a About) Headers(set func(name, value string)) {
	if a.Attempt > 0 && a.Attempt <= maxAttempt {
		set(HeaderAttempt, strconv.Itoa(a.Attempt))
	}
	if a.Instant > 0 && a.Instant <= maxInstant {
		set(HeaderScheduledAt, time.Unix(a.Instant, 0).UTC().Format(time.RFC3339))
	}
	if isWord(a.Cause) {
		set(HeaderCause, a.Cause)
	}
	if isTraceparent(a.Traceparent) {
		set(HeaderTraceparent, a.Traceparent)
	}
}

// AppendOrder appends r as JSON, with its About as the member "tickring". Use it for transports without headers; otherwise use
// [AppendRun].
func AppendOrder(dst []byte, r *Run) []byte {
	dst = AppendRun(dst, r)
	if r.About == (About{}) {
		return dst
	}
	dst = append(dst[:len(dst)-1], `,"tickring":{`...)
	comma := ""
	r.About.Headers(func(header, value string) {
		dst = fmt.Appendf(dst, `%s"%s":`, comma, memberOf[header])
		comma = ","
		if header == HeaderAttempt { // a number
			dst = append(dst, value...)
		} else {
			dst = appendString(dst, value)
		}
	})
	return append(dst, "}}"...)
}

// memberOf has the members of "tickring" with the values of the headers.
var memberOf = map[string]string{HeaderAttempt: "attempt", HeaderScheduledAt: "scheduledAt", HeaderCause: "cause",
	HeaderTraceparent: "traceparent"}

// about reads the member "tickring" of a run. It ignores unknown values.
func about(raw []byte) About {
	said := map[string]string{}
	members(raw, func(key, value []byte) { said[string(key)] = text(value) })
	return ParseAbout(func(header string) string { return said[memberOf[header]] })
}
