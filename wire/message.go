package wire

import (
	"strings"
	"unicode/utf8"
)

// MaxMessage is the maximum length of a stored result message, in Unicode code points. The xxl-job admin truncates at this
// length; executors send up to 50,000 code points.
const MaxMessage = 15_000

// TruncateMessage returns s as valid UTF-8, truncated to MaxMessage code points. Consecutive invalid bytes are replaced by one
// U+FFFD.
func TruncateMessage(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	if len(s) <= MaxMessage {
		return s
	}
	n := 0
	for i := range s {
		if n == MaxMessage {
			return s[:i]
		}
		n++
	}
	return s
}
