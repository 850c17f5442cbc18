package wire

import (
	"errors"
	"fmt"
	"math"
)

// A CallbackItem is the end of one run as an executor reports it.
type CallbackItem struct {
	LogID   int64
	LogTime int64 // ms; 0 if the executor sent none that can be read
	Code    int   // CodeSuccess, CodeFailure, CodeTimeout or whatever the handler chose; > 0
	Msg     string

	// Data is tickring's own: what the handler hands to the runs that follow.
	// It goes in a member that admins of others do not look at, and only if it
	// is not empty.
	Data string

	// RetryAfter is tickring's own, too: a failed handler's word on its retry, after so
	// many seconds, or never ([NeverRetry]). 0: it says nothing.
	RetryAfter int64
}

// NeverRetry is what a handler that is not to be tried again has as RetryAfter.
const NeverRetry = -1

// MaxData is the longest Data that executors send and servers keep, in bytes.
const MaxData = 4 << 10

// An ItemError says why one item of a callback cannot be used.
type ItemError struct {
	Index  int // from 0
	Reason string
}

func (e *ItemError) Error() string { return fmt.Sprintf("item %d: %s", e.Index, e.Reason) }

// A Callback is the body of callback: the ends of runs, in the order sent,
// duplicates included.
type Callback struct {
	Items   []CallbackItem
	Bad     []*ItemError // items that are not in Items, and why
	Dialect Dialect      // by the shape; B stands for B and C, which look alike
}

// MaxItems is how many items [DecodeCallback] takes when it is given no bound
// of its own. Executors before D send their whole queue at once, so it is
// large: a body of [MaxBody] bytes rarely holds more.
const MaxItems = 50_000

// ErrTooManyItems is what DecodeCallback's error wraps when its bound is
// exceeded.
var ErrTooManyItems = errors.New("too many items")

// DecodeCallback reads the body of callback in any dialect; most bounds the
// number of items (0: MaxItems). The result of an item is its handleCode and
// handleMsg if handleCode is positive, else its executeResult.
//
// An item that has no positive int64 as logId, or no positive result code, is
// listed in Bad and the others are returned all the same. An error means that
// nothing of the body can be used.
func DecodeCallback(body []byte, most int) (Callback, error) {
	if len(body) == 0 {
		return Callback{}, errEmpty
	}
	if most <= 0 {
		most = MaxItems
	}
	var c Callback
	s := scanner{b: body}
	switch s.peek() {
	case '[':
		if err := c.list(&s, most); err != nil {
			return Callback{}, err
		}
	case '{':
		found := false
		err := s.members(func(s *scanner, key []byte) error {
			if string(key) != "callbackList" || s.peek() != '[' {
				_, err := s.skip()
				return err
			}
			found = true
			return c.list(s, most)
		})
		if err != nil {
			return Callback{}, err
		}
		if !found {
			if err := s.end(); err != nil {
				return Callback{}, err
			}
			return Callback{}, errors.New("the object has no array callbackList")
		}
		c.Dialect = DialectD
	default:
		if _, err := s.skip(); err != nil {
			return Callback{}, err
		}
		return Callback{}, errors.New("the body is neither an array nor an object with callbackList")
	}
	if err := s.end(); err != nil {
		return Callback{}, err
	}
	return c, nil
}

// list takes an array of items, replacing what c held.
func (c *Callback) list(s *scanner, most int) error {
	*c = Callback{}
	if err := s.open('['); err != nil {
		return err
	}
	for i := 0; ; i++ {
		ok, err := s.more(i == 0, ']')
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		if i == most {
			return fmt.Errorf("%w: at most %d are allowed in one callback", ErrTooManyItems, most)
		}
		if c.Items == nil {
			// An item without message has about 90 bytes; a wrong guess costs
			// a growth of the slice, no more.
			c.Items = make([]CallbackItem, 0, min(most, 1+(len(s.b)-s.i)/160))
		}
		it, dialect, reason, err := item(s)
		if err != nil {
			return err
		}
		if c.Dialect == DialectUnknown {
			c.Dialect = dialect
		}
		if reason != "" {
			c.Bad = append(c.Bad, &ItemError{Index: i, Reason: reason})
			continue
		}
		c.Items = append(c.Items, it)
	}
}

// item takes one value as an item. reason is why it cannot be used; err is a
// syntax error.
func item(s *scanner) (it CallbackItem, dialect Dialect, reason string, err error) {
	if s.peek() != '{' {
		_, err = s.skip()
		return it, dialect, "it is not an object", err
	}
	if err = s.open('{'); err != nil {
		return it, dialect, "", err
	}
	var (
		hasID, idOK, hasHandle, hasResult bool
		handleCode, resultCode            int64
		resultMsg                         string
	)
	for first := true; ; first = false {
		key, ok, err := s.key(first)
		if err != nil {
			return it, dialect, "", err
		}
		if !ok {
			break
		}
		switch string(key) {
		case "logId":
			hasID = s.peek() != 'n'
			it.LogID, idOK, err = s.integer()
		case "logDateTim", "logDateTime":
			var t int64
			if t, ok, err = s.integer(); ok && t > 0 {
				it.LogTime = t
			}
		case "handleCode":
			hasHandle = s.peek() != 'n'
			handleCode, _, err = s.integer()
		case "handleMsg":
			it.Msg, err = s.anyText()
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
			hasResult = true
			resultCode, resultMsg, _, err = result(s)
		default:
			_, err = s.skip()
		}
		if err != nil {
			return it, dialect, "", err
		}
	}
	switch {
	case hasResult && hasHandle:
		dialect = DialectGo
	case hasResult:
		dialect = DialectA
	case hasHandle:
		dialect = DialectB
	}
	if handleCode <= 0 {
		handleCode, it.Msg = resultCode, resultMsg
	}
	it.Code = int(handleCode)
	switch {
	case !hasID:
		reason = "logId is missing"
	case !idOK || it.LogID <= 0:
		reason = "logId is not a positive whole number of 64 bits"
	case handleCode <= 0 || handleCode > math.MaxInt32:
		reason = "it has no result: neither handleCode nor executeResult.code is a positive whole number of 32 bits"
	}
	return it, dialect, reason, nil
}

// result takes an object {code, msg}. ok says that the code was a whole
// number.
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
			msg, err = s.anyText()
		default:
			_, err = s.skip()
		}
		if err != nil {
			return 0, "", false, err
		}
	}
}

// AppendCallback appends a callback body as an executor of dialect d sends it.
// Unknown is sent like Go's, which every admin before D reads.
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
