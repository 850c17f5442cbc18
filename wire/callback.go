package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// A CallbackItem is the result of one run, as reported by an executor.
type CallbackItem struct {
	LogID   int64
	LogTime int64 // ms since the Unix epoch; 0 if missing or malformed
	Code    int   // always positive: CodeSuccess, CodeFailure, CodeTimeout or a code that the handler chose
	Msg     string

	// Data is the handler's data for child runs, an addition of tickring. Encoders omit it if it is empty. The admin of
	// xxl-job ignores it.
	Data string

	// RetryAfter is the delay before the retry of a failed run in seconds, as requested by its handler. 0 means that the job's
	// setting applies; [NeverRetry] forbids a retry. RetryAfter is an addition of tickring.
	RetryAfter int64
}

// NeverRetry is the value of CallbackItem.RetryAfter that forbids a retry.
const NeverRetry = -1

// MaxData is the maximum length in bytes of CallbackItem.Data, for executors and servers.
const MaxData = 4 << 10

// An ItemError explains why one item of a callback is unusable.
type ItemError struct {
	Index  int // position in the list; the first is 0
	Reason string
}

func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %s", e.Index, e.Reason) }

// A Callback is the body of a callback request: the results of runs. Items are in the order of the body, including duplicates.
type Callback struct {
	Items   []CallbackItem
	Bad     []*ItemError // one error for each unusable item, which is missing in Items
	Dialect Dialect      // recognized by the form of the body; DialectB means B or C, which look alike
	Broken  error        // syntax error after which the body was read leniently; nil: the whole body is JSON
}

// MaxItems is the default maximum number of items that [DecodeCallback] accepts. Executors older than dialect D send their
// whole queue at once, so the limit is high. A body of [MaxBody] bytes rarely has more items.
const MaxItems = 50_000

// ErrTooManyItems is wrapped in the error of [DecodeCallback] if a body has more than the maximum number of items.
var ErrTooManyItems = errors.New("too many items")

// DecodeCallback reads the body of a callback in any dialect. The parameter most is the maximum number of items; 0 means
// [MaxItems]. An item's result is its handleCode and handleMsg if handleCode is positive, and its executeResult otherwise.
//
// An item without a positive 64-bit logId or a positive result code is listed in Bad, and the other items are still returned.
// Some executors do not escape quotes in messages. If an item is not JSON, this item and all later ones are read leniently,
// and Broken is set. DecodeCallback returns an error only if nothing in the body is usable.
func DecodeCallback(body []byte, most int) (Callback, error) {
	if len(body) == 0 {
		return Callback{}, errEmpty
	}
	if most <= 0 {
		most = MaxItems
	}
	var c Callback
	s := scanner{b: body}
	var err error
	switch s.peek() {
	case '[':
		err = c.list(&s, most)
	case '{':
		found := false
		err = s.members(func(s *scanner, key []byte) error {
			if string(key) != "callbackList" || s.peek() != '[' {
				_, err := s.skip()
				return err
			}
			found = true
			return c.list(s, most)
		})
		if err == nil && !found {
			return Callback{}, cmp.Or(s.end(), errors.New("the object has no array callbackList"))
		}
		c.Dialect = DialectD
	default:
		if _, err := s.skip(); err != nil {
			return Callback{}, err
		}
		return Callback{}, errors.New("the body is neither an array nor an object with callbackList")
	}
	if errors.Is(err, ErrTooManyItems) {
		return Callback{}, err
	}
	if c.Broken = cmp.Or(c.Broken, err, s.end()); c.Broken != nil && len(c.Items) == 0 {
		return Callback{}, c.Broken
	}
	return c, nil
}

// list reads an array of items, replacing the contents of c. If the array stops being JSON, the rest is read leniently.
func (c *Callback) list(s *scanner, most int) error {
	*c = Callback{}
	if err := s.open('['); err != nil {
		return err
	}
	for i, start := 0, s.i; ; i++ {
		ok, err := s.more(i == 0, ']')
		switch {
		case err == nil && !ok:
			return nil
		case err == nil && i == most:
			return tooMany(most)
		}
		var p parsed
		if err == nil {
			s.peek()
			start = s.i
			err = p.read(s)
		} else if i > 0 { // the item before it has not ended there
			i--
			c.drop(i)
		}
		if err != nil {
			c.Broken, s.i = err, len(s.b)
			return c.mend(s.b[start:], i, most)
		}
		if c.Items == nil {
			// An item without message has about 90 bytes; a wrong guess costs
			// a growth of the slice, no more.
			c.Items = make([]CallbackItem, 0, min(most, 1+(len(s.b)-s.i)/160))
		}
		c.add(i, &p)
	}
}

func tooMany(most int) error {
	return fmt.Errorf("%w: at most %d are allowed in one callback", ErrTooManyItems, most)
}

// add adds item i, or why it cannot be used.
func (c *Callback) add(i int, p *parsed) {
	it, dialect, reason := p.judge()
	if c.Dialect == DialectUnknown {
		c.Dialect = dialect
	}
	if reason != "" {
		c.Bad = append(c.Bad, &ItemError{Index: i, Reason: reason})
		return
	}
	c.Items = append(c.Items, it)
}

// drop removes item i, which is the last.
func (c *Callback) drop(i int) {
	if n := len(c.Bad); n > 0 && c.Bad[n-1].Index == i {
		c.Bad = c.Bad[:n-1]
		return
	}
	c.Items = c.Items[:len(c.Items)-1]
}

// parsed is an item with the fields read so far.
type parsed struct {
	it                                        CallbackItem
	object, hasID, idOK, hasHandle, hasResult bool
	handleCode, resultCode                    int64
	resultMsg                                 string
	broke                                     error // why it is not JSON
}

// read reads one value as an item. On a syntax error the fields read before it stay.
func (p *parsed) read(s *scanner) (err error) {
	if s.peek() != '{' {
		_, err = s.skip()
		return err
	}
	p.object = true
	if err = s.open('{'); err != nil {
		return err
	}
	it := &p.it
	for first := true; ; first = false {
		key, ok, err := s.key(first)
		if err != nil || !ok {
			return err
		}
		switch string(key) {
		case "logId":
			p.hasID = s.peek() != 'n'
			it.LogID, p.idOK, err = s.integer()
		case "logDateTim", "logDateTime":
			var t int64
			if t, ok, err = s.integer(); ok && t > 0 {
				it.LogTime = t
			}
		case "handleCode":
			p.hasHandle = s.peek() != 'n'
			p.handleCode, _, err = s.integer()
		case "handleMsg":
			it.Msg, err = s.message()
		case "tickringData":
			it.Data, err = s.anyText()
		case "tickringRetryAfter":
			it.RetryAfter, _, err = s.integer()
			it.RetryAfter = max(NeverRetry, min(it.RetryAfter, math.MaxInt32))
		case "executeResult":
			if s.peek() != '{' {
				_, err = s.skip()
				break
			}
			p.hasResult = true
			p.resultCode, p.resultMsg, _, err = result(s)
		default:
			_, err = s.skip()
		}
		if err != nil {
			return err
		}
	}
}

// rest reads an item up to its message, which is then all that is left.
func (p *parsed) rest(b []byte, said int) {
	*p = parsed{}
	_ = p.read(&scanner{b: b[:said]})
	raw := bytes.TrimSpace(bytes.TrimPrefix(b[said:], []byte{'"'}))
	if end := bytes.TrimRight(raw, endings); bytes.HasSuffix(end, []byte{'"'}) {
		raw = end[:len(end)-1]
	}
	text := strings.ToValidUTF8(string(raw[:min(len(raw), utf8.UTFMax*MaxMessage)]), "\ufffd")
	p.it.Msg, p.resultMsg = text, text
}

// judge returns the item; reason explains why it is unusable.
func (p *parsed) judge() (it CallbackItem, dialect Dialect, reason string) {
	switch {
	case p.hasResult && p.hasHandle:
		dialect = DialectGo
	case p.hasResult:
		dialect = DialectA
	case p.hasHandle:
		dialect = DialectB
	}
	it = p.it
	code := p.handleCode
	if code <= 0 {
		code, it.Msg = p.resultCode, p.resultMsg
	}
	it.Code = int(code)
	switch {
	case p.broke != nil:
		reason = "its number and result cannot be read: " + p.broke.Error()
	case !p.object:
		reason = "it is not an object"
	case !p.hasID:
		reason = "logId is missing"
	case !p.idOK || it.LogID <= 0:
		reason = "logId is not a positive whole number of 64 bits"
	case code <= 0 || code > math.MaxInt32:
		reason = "it has no result: neither handleCode nor executeResult.code is a positive whole number of 32 bits"
	}
	return it, dialect, reason
}

// result reads an object {code, msg}. ok reports whether the code was an integer. On an error it also returns the values read
// before.
func result(s *scanner) (code int64, msg string, ok bool, err error) {
	if err = s.open('{'); err != nil {
		return 0, "", false, err
	}
	for first := true; ; first = false {
		key, more, err := s.key(first)
		if err != nil || !more {
			return code, msg, ok, err
		}
		switch string(key) {
		case "code":
			code, ok, err = s.integer()
		case "msg":
			msg, err = s.message()
		default:
			_, err = s.skip()
		}
		if err != nil {
			return code, msg, ok, err
		}
	}
}

// AppendCallback appends a callback body as an executor of dialect d sends it. DialectUnknown is encoded as DialectGo, which
// every admin older than D can read.
func AppendCallback(dst []byte, d Dialect, items []CallbackItem) []byte {
	if d == DialectD {
		dst = append(dst, `{"callbackList":`...)
	}
	dst = append(dst, '[')
	for i := range items {
		it := &items[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, `{"logId":`, it.LogID)
		if d == DialectD {
			dst = appendInt(dst, `,"logDateTime":`, it.LogTime)
		} else {
			dst = appendInt(dst, `,"logDateTim":`, it.LogTime)
		}
		if d == DialectA || d == DialectGo || d == DialectUnknown {
			dst = appendInt(dst, `,"executeResult":{"code":`, int64(it.Code))
			dst = append(appendText(dst, `,"msg":`, it.Msg), '}')
		}
		if d != DialectA {
			dst = appendInt(dst, `,"handleCode":`, int64(it.Code))
			dst = appendText(dst, `,"handleMsg":`, it.Msg)
		}
		if it.Data != "" {
			dst = appendText(dst, `,"tickringData":`, it.Data)
		}
		if it.RetryAfter != 0 {
			dst = appendInt(dst, `,"tickringRetryAfter":`, it.RetryAfter)
		}
		dst = append(dst, '}')
	}
	dst = append(dst, ']')
	if d == DialectD {
		dst = append(dst, '}')
	}
	return dst
}
