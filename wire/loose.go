package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// keys are the keys of a callback, with their quotes.
var keys = map[string]bool{
	`"logId"`: true, `"logDateTim"`: true, `"logDateTime"`: true, `"handleCode"`: true, `"handleMsg"`: true, `"executeResult"`: true,
	`"code"`: true, `"msg"`: true, `"content"`: true, `"tickringData"`: true, `"tickringRetryAfter"`: true,
}

// atKey reports whether a key of a callback follows, with its colon.
func atKey(b []byte) bool {
	b = space(b)
	key, _ := cut(b[:min(len(b), len(`"tickringRetryAfter"`))])
	return keys[string(key)] && begins(b[len(key):]) == ':'
}

// split cuts off the first item of the rest of a list, up to the start of the next one.
func split(b []byte) (item, rest []byte) {
	for i := 1; i < len(b); i++ {
		if b[i] == '{' && atKey(b[i+1:]) && bytes.HasSuffix(bytes.TrimRight(b[:i], " \t\r\n"), []byte{','}) {
			return b[:i], b[i:]
		}
	}
	return b, nil
}

// mend reads the rest of a list that is not JSON, from its item i on. It reads each item separately: as JSON, or else with loose
// texts. If neither works, the log ID and the code count if they precede a message, and the message is the rest of the item.
func (c *Callback) mend(b []byte, i, most int) error {
next:
	for ; len(b) > 0; i++ {
		var item []byte
		if item, b = split(b); i == most {
			return tooMany(most)
		}
		loose, started := requote(item)
		for _, text := range append([][]byte{item, loose}, started...) {
			object, rest := cut(text)
			if json.Valid(object) && (len(started) == 0 || len(bytes.Trim(rest, endings)) == 0) {
				c.add(i, object)
				continue next
			}
		}
		c.Bad = append(c.Bad, &ItemError{i, fmt.Sprintf("its number and result cannot be read: %v", syntax(item))})
	}
	return nil
}

// endings are the characters that can follow the last item, or its last text.
const endings = " \t\r\n,]}"

var looseKey = regexp.MustCompile(`"(handleMsg|msg|tickringData)"\s*:\s*`)

// requote turns an item into JSON whose sender does not escape texts, or not everything: they can contain raw control characters,
// lone backslashes and quotes. The result loose has each text up to the first quote after which the callback continues; nil if a
// text has no such quote. The results started have the rest of the item as a message: as its last one, the one before, and so on.
func requote(item []byte) (loose []byte, started [][]byte) {
	for ends := true; ends; {
		at := looseKey.FindSubmatchIndex(item)
		if at == nil {
			return append(loose, item...), started
		}
		key := string(item[at[2]:at[3]])
		loose, item = append(loose, item[:at[1]]...), item[at[1]:]
		if key != "tickringData" && len(started) < mostStarted {
			message := slices.Concat(loose, appendString(nil, lastText(item)), []byte("}}")) // of executeResult and of the item
			started = slices.Insert(started, 0, message)
		}
		if begins(item) == '"' {
			var text []byte
			text, item, ends = looseText(item[1:])
			loose = append(loose, text...)
		}
	}
	return nil, started
}

// mostStarted limits the messages of an item; executors send two at most.
const mostStarted = 4

// lastText returns a message, with its quote, that is the rest of its item.
func lastText(b []byte) string {
	b = bytes.TrimSpace(bytes.TrimPrefix(b, quote))
	if end := bytes.TrimRight(b, endings); bytes.HasSuffix(end, quote) {
		b = end[:len(end)-1]
	}
	return string(b[:min(len(b), utf8.UTFMax*MaxMessage)])
}

// looseText returns the JSON of a text, and the bytes after it. The first quote of the text is not in b.
func looseText(b []byte) (text, rest []byte, ok bool) {
	for i := range b {
		if b[i] == '"' && endsText(b[i+1:]) {
			return quoted(b[:i]), b[i+1:], true
		}
	}
	return nil, nil, false
}

// quoted returns a text as JSON: with its escapes if they are valid in JSON, otherwise only \" becomes a quote.
func quoted(raw []byte) []byte {
	b := []byte{'"'}
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\' && i+1 < len(raw):
			i++
			b = append(b, c, raw[i])
		case c == '"' || c < ' ':
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	if b = append(b, '"'); json.Valid(b) {
		return b
	}
	return appendString(nil, strings.ReplaceAll(string(raw), `\"`, `"`))
}

// endsText reports whether the bytes after a quote are the rest of an item: another key of it, or its end followed by the end of
// the list, another item, or nothing.
func endsText(rest []byte) bool {
	closed := 0
	for ; begins(rest) == '}' && closed < 2; closed++ { // of executeResult and of the item
		rest = space(rest)[1:]
	}
	switch begins(rest) {
	case ',':
		rest = space(rest)[1:]
		if atKey(rest) {
			return true
		}
		if begins(rest) == '{' {
			return closed > 0 && atKey(space(rest)[1:])
		}
	case ']':
		rest = space(rest)[1:]
		if begins(rest) == '}' {
			rest = space(rest)[1:]
		}
	}
	return closed > 0 && begins(rest) == 0
}
