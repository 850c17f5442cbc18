package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
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
	var list []byte
	var c Callback
	c.Broken = syntax(body)
	switch begins(body) {
	case '[':
		list = body
	case '{':
		c.Dialect = DialectD
		list = callbackList(body, c.Broken == nil)
	default:
		return Callback{}, cmp.Or(c.Broken, errors.New("the body is neither an array nor an object with callbackList"))
	}
	if list == nil {
		return Callback{}, cmp.Or(c.Broken, errors.New("the object has no array callbackList"))
	}
	if err := c.read(space(list)[1:], most); err != nil {
		return Callback{}, err
	}
	if c.Broken != nil && len(c.Items) == 0 {
		return Callback{}, c.Broken
	}
	return c, nil
}

// callbackList returns the object from its array callbackList on; nil if it has none.
func callbackList(object []byte, valid bool) (list []byte) {
	members(slices.Clip(object), func(key, value []byte) {
		if string(key) == "callbackList" && value[0] == '[' && (valid || list == nil) {
			list = value[:cap(value)] // the end of a list that is not JSON is not known
		}
	})
	return list
}

// read reads the items of an array, whose bracket is not in b. From the first item on that is not JSON, or does not end as JSON
// does, the rest is read leniently.
func (c *Callback) read(b []byte, most int) error {
	// An item without message has about 90 bytes; a wrong guess costs
	// a growth of the slice, no more.
	c.Items = make([]CallbackItem, 0, min(most, 1+len(b)/160))
	for i := 0; begins(b) != ']' || i > 0; i++ {
		if c.Broken != nil {
			item, rest := cut(b)
			if next := begins(rest); !json.Valid(item) || next != ',' && next != ']' && next != 0 {
				return c.mend(b, i, most)
			}
		}
		if i == most {
			return tooMany(most)
		}
		if b = c.add(i, b); begins(b) != ',' {
			return nil
		}
		b = space(b)[1:]
	}
	return nil
}

func tooMany(most int) error {
	return fmt.Errorf("%w: at most %d are allowed in one callback", ErrTooManyItems, most)
}

// add adds item i, the JSON value at the start of b, or why it cannot be used. It returns the bytes after the value.
func (c *Callback) add(i int, b []byte) (rest []byte) {
	it, dialect, reason, rest := parse(b)
	if c.Dialect == DialectUnknown {
		c.Dialect = dialect
	}
	if reason != "" {
		c.Bad = append(c.Bad, &ItemError{Index: i, Reason: reason})
	} else {
		c.Items = append(c.Items, it)
	}
	return rest
}

// parse returns the item at the start of b, and the bytes after it; reason explains why it is unusable.
func parse(b []byte) (it CallbackItem, dialect Dialect, reason string, rest []byte) {
	var hasID, idOK, hasHandle bool
	var code int64
	var result []byte // executeResult
	rest = members(b, func(key, value []byte) {
		switch string(key) {
		case "logId":
			hasID = value[0] != 'n'
			it.LogID, idOK = integer(value)
		case "logDateTim", "logDateTime":
			if t, ok := integer(value); ok && t > 0 {
				it.LogTime = t
			}
		case "handleCode":
			hasHandle = value[0] != 'n'
			code, _ = integer(value)
		case "handleMsg":
			it.Msg = text(value)
		case "tickringData":
			it.Data = text(value)
		case "tickringRetryAfter":
			it.RetryAfter, _ = integer(value)
			it.RetryAfter = max(NeverRetry, min(it.RetryAfter, math.MaxInt32))
		case "executeResult":
			if value[0] == '{' {
				result = value
			}
		}
	})
	switch {
	case result != nil && hasHandle:
		dialect = DialectGo
	case result != nil:
		dialect = DialectA
	case hasHandle:
		dialect = DialectB
	}
	if code <= 0 {
		r := envelope(result)
		code, it.Msg = int64(r.Code), r.Msg
	}
	it.Code = int(code)
	switch {
	case begins(b) != '{':
		reason = "it is not an object"
	case !hasID:
		reason = "logId is missing"
	case !idOK || it.LogID <= 0:
		reason = "logId is not a positive whole number of 64 bits"
	case code <= 0 || code > math.MaxInt32:
		reason = "it has no result: neither handleCode nor executeResult.code is a positive whole number of 32 bits"
	}
	return it, dialect, reason, rest
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
