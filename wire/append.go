package wire

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendString appends s as a JSON string. As encoding/json does, it writes
// invalid UTF-8 as U+FFFD and escapes U+2028 and U+2029; it leaves < > & alone.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0 // of the bytes that are appended unchanged
	for i, r := range s {
		if r >= ' ' && r != '"' && r != '\\' && r != utf8.RuneError && r != '\u2028' && r != '\u2029' || strings.HasPrefix(s[i:], "\ufffd") {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case strings.ContainsRune("\b\f\n\r\t", r):
			dst = append(dst, '\\', "btn_fr"[r-'\b'])
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
			if r == '\u2028' || r == '\u2029' {
				start = i + 3
			}
		}
	}
	return append(append(dst, s[start:]...), '"')
}

// appendText appends `name` as it is (it brings its comma, quotes and colon)
// and value as a JSON string.
func appendText(dst []byte, name, value string) []byte {
	return appendString(append(dst, name...), value)
}

func appendInt(dst []byte, name string, value int64) []byte {
	return strconv.AppendInt(append(dst, name...), value, 10)
}
