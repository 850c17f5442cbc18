package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A SyntaxError reports where and why a body is not JSON.
type SyntaxError struct {
	Offset int    // offset in bytes from the start of the body
	What   string // unexpected or missing text
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON at byte %d: %s", e.Offset, e.What)
}

// syntax returns a SyntaxError unless body is JSON.
func syntax(body []byte) error {
	if json.Valid(body) {
		return nil
	}
	theirs, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(body, new(json.RawMessage)))
	if !ok {
		return nil
	}
	e := &SyntaxError{int(theirs.Offset), theirs.Error()}
	if !strings.HasPrefix(e.What, "unexpected end") {
		e.Offset-- // theirs is the end of the wrong byte
	}
	return e
}

// The functions below take JSON apart. Unlike encoding/json, they match keys exactly, and leave it to the caller what to do with a
// value of an unexpected type. If a text is not JSON, they return any part of it.

// space returns b without the white space at its start.
func space(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// begins returns the first byte of a value, without white space; 0 if there is none.
func begins(b []byte) byte {
	if b = space(b); len(b) > 0 {
		return b[0]
	}
	return 0
}

// cut returns the value at the start of b, without white space, and the bytes after it.
func cut(b []byte) (value, rest []byte) {
	b = space(b)
	i := 0
	switch begins(b) {
	case '"':
		i = endOfString(b)
	case '{', '[':
		for depth := 1; depth > 0; {
			if i++; i >= len(b) {
				return b, nil
			}
			switch b[i] {
			case '"':
				i += endOfString(b[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
		}
		i++
	default:
		for i < len(b) && b[i] > ' ' && b[i] != ',' && b[i] != ':' && b[i] != '}' && b[i] != ']' {
			i++
		}
	}
	return b[:i], b[i:]
}

// endOfString returns the length of the string at the start of b, with its quotes.
func endOfString(b []byte) int {
	for i := 1; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return len(b)
		}
		i += n + 1
		before := bytes.TrimRight(b[:i-1], `\`)
		if escaped := (i - 1 - len(before)) % 2; escaped == 0 {
			return i
		}
	}
}

// members calls member for each member of the object at the start of b, and returns the bytes after the object. The keys are without
// quotes. Keys and values alias b. If b starts with another value, members skips it.
func members(b []byte, member func(key, value []byte)) (rest []byte) {
	if begins(b) != '{' {
		_, rest = cut(b)
		return rest
	}
	rest = space(b)[1:]
	for begins(rest) == '"' {
		key, after := cut(rest)
		if begins(after) != ':' {
			return nil
		}
		value, after := cut(space(after)[1:])
		if len(value) == 0 {
			return nil
		}
		if key = key[1 : len(key)-1]; bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(unescape(key))
		}
		member(key, value)
		if rest = space(after); begins(rest) == ',' {
			rest = rest[1:]
		}
	}
	if begins(rest) != '}' {
		return nil
	}
	return space(rest)[1:]
}

// A field is a member of an object, and the variable for its value. The type of the variable decides which values are errors.
type field struct {
	name string
	into any // *string: text or null; *int32, *int64: number or null; func([]byte): any value
}

// decodeObject reads body, which must be one object. Other members are ignored.
func decodeObject(body []byte, fields ...field) error {
	if err := syntax(body); err != nil {
		return err
	}
	if begins(body) != '{' {
		return &SyntaxError{len(body) - len(space(body)), "expected {"}
	}
	var err error
	members(body, func(key, value []byte) {
		for i := range fields {
			if fields[i].name == string(key) {
				err = cmp.Or(err, fields[i].set(value))
				return
			}
		}
	})
	return err
}

func (f *field) set(value []byte) error {
	null := value[0] == 'n'
	switch into := f.into.(type) {
	case func([]byte):
		into(value)
	case *string:
		if *into = text(value); value[0] != '"' && !null {
			return fmt.Errorf("%s is not a string", f.name)
		}
	case *int32:
		n, ok := integer(value)
		if *into = int32(n); !ok && !null || n != int64(*into) {
			return fmt.Errorf("%s is not a whole number of 32 bits", f.name)
		}
	case *int64:
		n, ok := integer(value)
		if *into = n; !ok && !null {
			return fmt.Errorf("%s is not a whole number of 64 bits", f.name)
		}
	}
	return nil
}

// integer returns a value as an integer. ok reports whether it is one in the range of int64: a number, with a fraction of zeros at
// most, or a string, which Gson reads too.
func integer(value []byte) (n int64, ok bool) {
	if len(value) > 2 && value[0] == '"' {
		value = value[1 : len(value)-1]
	}
	if len(value) == 0 || len(value) > 64 || value[0] != '-' && value[0]-'0' > 9 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err == nil {
		return n, true
	}
	// 7.0 and 1e3: exact below 2^53 only.
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// text returns a value as a text, always valid UTF-8: a string without escapes, null as empty, anything else as its JSON.
func text(value []byte) string {
	switch {
	case string(value) == "null":
		return ""
	case len(value) < 2 || value[0] != '"':
		return string([]rune(string(value)))
	}
	return unescape(value[1 : len(value)-1])
}

// unescape returns the text between the quotes of a string. Halves of surrogate pairs and invalid UTF-8 become U+FFFD.
func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	var s string
	_ = json.Unmarshal(slices.Concat(quote, raw, quote), &s)
	return s
}

var quote = []byte{'"'}
