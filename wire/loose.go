package wire

import (
	"bytes"
	"strings"
)

// keys are the keys of a callback, with their quotes.
var keys = [][]byte{
	[]byte(`"logId"`), []byte(`"logDateTim"`), []byte(`"logDateTime"`), []byte(`"handleCode"`), []byte(`"handleMsg"`),
	[]byte(`"executeResult"`), []byte(`"code"`), []byte(`"msg"`), []byte(`"content"`), []byte(`"tickringData"`),
	[]byte(`"tickringRetryAfter"`),
}

// atKey reports whether a key of a callback follows, with its colon. It consumes only white space.
func (s *scanner) atKey() bool {
	s.peek()
	for _, k := range keys {
		if rest, is := bytes.CutPrefix(s.b[s.i:], k); is {
			after := scanner{b: rest}
			return after.peek() == ':'
		}
	}
	return false
}

// looseText reads a text of a sender that escapes nothing, or not everything: it can contain raw control characters, lone
// backslashes and quotes. It ends at the first quote after which the callback continues.
func (s *scanner) looseText() (string, error) {
	start := s.i + 1
	for i := start; i < len(s.b); i++ {
		if s.b[i] == '"' && endsText(s.b[i+1:]) {
			s.i = i + 1
			return looseOf(s.b[start:i]), nil
		}
	}
	return "", s.fail("string without end")
}

// endsText reports whether the bytes after a quote are the rest of an item: another key of it, or its end followed by the end of
// the list, another item, or nothing.
func endsText(rest []byte) bool {
	s := scanner{b: rest}
	c, closed := s.peek(), 0
	for ; c == '}' && closed < 2; closed++ { // of executeResult and of the item
		s.i++
		c = s.peek()
	}
	switch c {
	case ',':
		s.i++
		if s.atKey() {
			return true
		}
		if c = s.peek(); c == '{' {
			s.i++
			return closed > 0 && s.atKey()
		}
		return c == 0 && closed > 0
	case ']':
		s.i++
		if s.peek() == '}' {
			s.i++
		}
		return s.peek() == 0 && closed > 0
	}
	return c == 0 && closed > 0
}

// looseOf unescapes a text: as in JSON if its escapes are valid in JSON, otherwise only \" becomes a quote.
func looseOf(raw []byte) string {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		_, hex := hex4(raw[min(i+1, len(raw)):])
		if i == len(raw) || !strings.ContainsRune(`"\/bfnrtu`, rune(raw[i])) || raw[i] == 'u' && !hex {
			return strings.ToValidUTF8(strings.ReplaceAll(string(raw), `\"`, `"`), "\ufffd")
		}
	}
	return textOf(raw, true)
}

// split cuts off the first item of the rest of a list, up to the start of the next one.
func split(b []byte) (item, rest []byte) {
	for i := 1; i < len(b); i++ {
		if b[i] != '{' {
			continue
		}
		if next := (scanner{b: b, i: i + 1}); next.atKey() && bytes.HasSuffix(bytes.TrimRight(b[:i], " \t\r\n"), []byte{','}) {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// mend reads the rest of a list that is not JSON, from its item i on. It reads each item separately: as JSON, or else with loose
// texts. If neither works, the log ID and the code count if they precede the message, and the message is the rest of the item.
func (c *Callback) mend(b []byte, i, most int) error {
	for ; len(b) > 0; i++ {
		var chunk []byte
		if chunk, b = split(b); i == most {
			return tooMany(most)
		}
		var p parsed
		for _, loose := range []bool{false, true} {
			s := scanner{b: chunk, loose: loose}
			p = parsed{}
			p.broke = p.read(&s)
			if p.broke == nil && (s.said == 0 || len(bytes.Trim(chunk[s.i:], endings)) == 0) {
				break
			}
			if s.said > 0 {
				p.rest(chunk, s.said)
			}
		}
		c.add(i, &p)
	}
	return nil
}

// endings are the characters that can follow the last item, or its last text.
const endings = " \t\r\n,]}"
