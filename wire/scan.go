package wire

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth limits the nesting of skipped values. The protocol needs 3; the limit keeps a hostile body from growing the stack.
const maxDepth = 1000

// A SyntaxError reports where and why a body is not JSON.
type SyntaxError struct {
	Offset int    // offset in bytes from the start of the body
	What   string // unexpected or missing text
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("not JSON at byte %d: %s", e.Offset, e.What)
}

// scanner reads one JSON text. It accepts everything that encoding/json accepts (down to maxDepth). Unlike encoding/json, it lets
// the caller continue after a value of an unexpected type. Keys are matched exactly, and the last of equal keys counts.
type scanner struct {
	b     []byte
	i     int
	depth int

	loose bool // texts are read by looseText
	said  int  // start of the last message's value; 0: none was read
}

func (s *scanner) fail(what string) error { return &SyntaxError{Offset: s.i, What: what} }

// peek skips white space and gives the next byte without taking it, 0 at the
// end.
func (s *scanner) peek() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// end succeeds if nothing but white space is left.
func (s *scanner) end() error {
	if s.peek(); s.i < len(s.b) {
		return s.fail("something follows the value")
	}
	return nil
}

// open consumes one opening bracket.
func (s *scanner) open(c byte) error {
	if s.peek() != c {
		return s.fail("expected " + string(c))
	}
	s.i++
	s.depth++
	if s.depth > maxDepth {
		return s.fail("nested too deeply")
	}
	return nil
}

// more reports whether another member or element follows; it consumes the comma, or the closing bracket if none does.
func (s *scanner) more(first bool, closing byte) (bool, error) {
	switch c := s.peek(); {
	case c == closing:
		s.i++
		s.depth--
		return false, nil
	case first:
		return true, nil
	case c == ',':
		s.i++
		return true, nil
	}
	return false, s.fail("expected , or " + string(closing))
}

// key takes the next key of an object and its colon. ok is false at the end of
// the object. The bytes may alias the body.
func (s *scanner) key(first bool) (key []byte, ok bool, err error) {
	if ok, err = s.more(first, '}'); !ok || err != nil {
		return nil, false, err
	}
	raw, escaped, err := s.quoted()
	if err != nil {
		return nil, false, err
	}
	if escaped {
		raw = unescape(nil, raw)
	}
	if s.peek() != ':' {
		return nil, false, s.fail("expected :")
	}
	s.i++
	return raw, true, nil
}

// quoted reads a string and returns the text between its quotes, still escaped.
func (s *scanner) quoted() (raw []byte, escaped bool, err error) {
	if s.peek() != '"' {
		return nil, false, s.fail("expected a string")
	}
	s.i++
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			raw = s.b[start:s.i]
			s.i++
			return raw, escaped, nil
		case c < 0x20:
			return nil, false, s.fail("control character in a string")
		case c != '\\':
			s.i++
		default:
			escaped = true
			s.i++
			if s.i == len(s.b) {
				return nil, false, s.fail("string without end")
			}
			switch s.b[s.i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.i++
			case 'u':
				s.i++
				if _, ok := hex4(s.b[s.i:]); !ok {
					return nil, false, s.fail("expected four hexadecimal digits")
				}
				s.i += 4
			default:
				return nil, false, s.fail("unknown escape")
			}
		}
	}
	return nil, false, s.fail("string without end")
}

// text reads a string and returns a copy of it, always valid UTF-8.
func (s *scanner) text() (string, error) {
	raw, escaped, err := s.quoted()
	if err != nil {
		return "", err
	}
	return textOf(raw, escaped), nil
}

func textOf(raw []byte, escaped bool) string {
	if !escaped && utf8.Valid(raw) {
		return string(raw)
	}
	return string(unescape(make([]byte, 0, len(raw)), raw))
}

// number reads a number and returns its bytes.
func (s *scanner) number() ([]byte, error) {
	start := s.i
	digits := func() bool {
		from := s.i
		for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
			s.i++
		}
		return s.i > from
	}
	if s.i < len(s.b) && s.b[s.i] == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else if !digits() {
		return nil, s.fail("expected a digit")
	}
	if s.i < len(s.b) && s.b[s.i] == '.' {
		s.i++
		if !digits() {
			return nil, s.fail("expected a digit")
		}
	}
	if s.i < len(s.b) && s.b[s.i]|0x20 == 'e' {
		s.i++
		if s.i < len(s.b) && (s.b[s.i] == '+' || s.b[s.i] == '-') {
			s.i++
		}
		if !digits() {
			return nil, s.fail("expected a digit")
		}
	}
	return s.b[start:s.i], nil
}

func (s *scanner) literal(word string) error {
	if len(s.b)-s.i < len(word) || string(s.b[s.i:s.i+len(word)]) != word {
		return s.fail("expected a value")
	}
	s.i += len(word)
	return nil
}

// skip reads one value of any type and returns its bytes, without the white space before it.
func (s *scanner) skip() (raw []byte, err error) {
	c := s.peek()
	start := s.i
	switch c {
	case '{':
		if err := s.open('{'); err != nil {
			return nil, err
		}
		for first := true; ; first = false {
			_, ok, err := s.key(first)
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			if _, err := s.skip(); err != nil {
				return nil, err
			}
		}
	case '[':
		if err := s.open('['); err != nil {
			return nil, err
		}
		for first := true; ; first = false {
			ok, err := s.more(first, ']')
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			if _, err := s.skip(); err != nil {
				return nil, err
			}
		}
	case '"':
		_, _, err = s.quoted()
	case 't':
		err = s.literal("true")
	case 'f':
		err = s.literal("false")
	case 'n':
		err = s.literal("null")
	case 0:
		if s.i == len(s.b) {
			return nil, s.fail("the text ends too early")
		}
		return nil, s.fail("expected a value")
	default:
		_, err = s.number()
	}
	if err != nil {
		return nil, err
	}
	return s.b[start:s.i], nil
}

// integer reads one value of any type. ok reports whether it was an integer in the range of int64: a number, with a fraction of
// zeros at most, or a string, which Gson reads too.
func (s *scanner) integer() (n int64, ok bool, err error) {
	raw, err := s.skip()
	if err != nil {
		return 0, false, err
	}
	n, ok = integerOf(raw)
	return n, ok, nil
}

func integerOf(raw []byte) (int64, bool) {
	if len(raw) > 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	if n, ok := digitsOf(raw); ok {
		return n, true
	}
	if len(raw) == 0 || len(raw) > 64 || raw[0] != '-' && raw[0]-'0' > 9 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err == nil {
		return n, true
	}
	if errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	// 7.0 and 1e3: exact below 2^53 only.
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// digitsOf is the case that nearly all numbers on the wire are: up to 18
// digits and nothing else.
func digitsOf(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 || len(raw) > 18 {
		return 0, false
	}
	for _, c := range raw {
		if c -= '0'; c > 9 {
			return 0, false
		} else {
			n = n*10 + int64(c)
		}
	}
	return n, true
}

// anyText reads one value of any type as a text: a string unchanged, null as empty, anything else as its JSON.
func (s *scanner) anyText() (string, error) {
	if s.peek() == '"' {
		if s.loose {
			return s.looseText()
		}
		return s.text()
	}
	raw, err := s.skip()
	if err != nil || string(raw) == "null" {
		return "", err
	}
	return textOf(raw, false), nil
}

// message is anyText for the message of a result; it notes where the message begins.
func (s *scanner) message() (string, error) {
	s.peek()
	s.said = s.i
	return s.anyText()
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape appends the unescaped form of raw, the inside of a valid string. Halves of surrogate pairs and invalid UTF-8 become
// U+FFFD.
func unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); {
		c := raw[i]
		switch {
		case c == '\\':
			i++
			c = raw[i]
			i++
			switch c {
			case 'b':
				dst = append(dst, '\b')
			case 'f':
				dst = append(dst, '\f')
			case 'n':
				dst = append(dst, '\n')
			case 'r':
				dst = append(dst, '\r')
			case 't':
				dst = append(dst, '\t')
			case 'u':
				r, _ := hex4(raw[i:])
				i += 4
				if utf16.IsSurrogate(r) {
					pair := rune(utf8.RuneError)
					if i+6 <= len(raw) && raw[i] == '\\' && raw[i+1] == 'u' {
						if low, ok := hex4(raw[i+2:]); ok {
							pair = utf16.DecodeRune(r, low)
						}
					}
					if pair != utf8.RuneError {
						i += 6
					}
					r = pair
				}
				dst = utf8.AppendRune(dst, r)
			default:
				dst = append(dst, c)
			}
		case c < utf8.RuneSelf:
			dst = append(dst, c)
			i++
		default:
			r, n := utf8.DecodeRune(raw[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst
}
