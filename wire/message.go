package wire

import (
	"strings"
	"unicode/utf8"
)

// MaxMessage is the longest result message that is kept, in characters
// (Unicode code points). xxl-job's admin truncates there; executors send up to
// 50,000.
const MaxMessage = 15_000

// TruncateMessage returns s as valid UTF-8 of at most MaxMessage characters. Each run of invalid bytes counts as one U+FFFD.
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
