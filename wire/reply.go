package wire

import (
	"errors"
	"strings"
)

// A Verdict is the meaning of the answer to /run or /trigger for the run.
type Verdict uint8

// The verdicts. The zero value is VerdictGarbage: nothing is known.
const (
	VerdictGarbage       Verdict = iota // not an answer of the protocol: the run may have been started
	VerdictAccepted                     // queued, not finished
	VerdictRepeatTrigger                // this logId was accepted before
	VerdictBlockStrategy                // rejected because another run of the job is running
	VerdictQueueFull                    // rejected temporarily: only tickring's own executors answer this
	VerdictRefused                      // rejected for another reason
)

// String names the verdict for logs.
func (v Verdict) String() string {
	switch v {
	case VerdictAccepted:
		return "accepted"
	case VerdictRepeatTrigger:
		return "repeat trigger"
	case VerdictBlockStrategy:
		return "block strategy"
	case VerdictQueueFull:
		return "queue full"
	case VerdictRefused:
		return "refused"
	}
	return "garbage"
}

// How executors begin the messages of rejections with a separate Verdict.
const (
	MsgRepeatTrigger = "repeate trigger job" // Java, sic: the logId is queued already
	MsgBlockStrategy = "block strategy effect"
	MsgGoRunning     = "There are tasks running" // Go, for every block strategy except COVER_EARLY
	MsgQueueFull     = "queue full"              // tickring's own executors, with CodeBusy
)

// A Reply is the envelope that answers every request of the protocol. The zero
// value is garbage.
type Reply struct {
	Code int
	Msg  string // empty for null; anything but a string as its JSON

	// Payload is the JSON under "content" or "data", whichever is present and not null; nil if neither. It aliases the decoded
	// body.
	Payload []byte
	// PayloadKey is "content" (A, B, Go) or "data" (C, D); empty if Payload
	// is nil.
	PayloadKey string

	// Array reports that the answer had the form of a callback, with which the Go executor rejects a run; Code and Msg come from
	// its first item.
	Array bool

	valid bool
}

// errNoEnvelope: JSON, but not an answer of the protocol.
var errNoEnvelope = errors.New("the reply has no whole number as code")

// DecodeReply reads the answer to any request, in all dialects and in the callback shape of the Go executor. An error means
// that the bytes are not an answer of the protocol; the Reply is then zero and its verdict garbage.
func DecodeReply(body []byte) (Reply, error) {
	s := scanner{b: body}
	var r Reply
	var err error
	if s.peek() == '[' {
		r, err = arrayReply(&s)
	} else {
		r, err = envelope(&s)
	}
	if err == nil {
		err = s.end()
	}
	if err == nil && !r.valid {
		err = errNoEnvelope
	}
	if err != nil {
		return Reply{}, err
	}
	return r, nil
}

func envelope(s *scanner) (r Reply, err error) {
	if err = s.open('{'); err != nil {
		return r, err
	}
	for first := true; ; first = false {
		key, more, err := s.key(first)
		if err != nil || !more {
			return r, err
		}
		switch string(key) {
		case "code":
			var n int64
			n, r.valid, err = s.integer()
			r.Code = int(n)
		case "msg":
			r.Msg, err = s.anyText()
		case "content", "data":
			var raw []byte
			if raw, err = s.skip(); err == nil && string(raw) != "null" {
				r.Payload = raw
				r.PayloadKey = "content"
				if key[0] == 'd' {
					r.PayloadKey = "data"
				}
			}
		default:
			_, err = s.skip()
		}
		if err != nil {
			return r, err
		}
	}
}

func arrayReply(s *scanner) (r Reply, err error) {
	if err = s.open('['); err != nil {
		return r, err
	}
	for first := true; ; first = false {
		more, err := s.more(first, ']')
		if err != nil || !more {
			return r, err
		}
		if !first || s.peek() != '{' {
			if _, err = s.skip(); err != nil {
				return r, err
			}
			continue
		}
		r.Array = true
		err = s.members(func(s *scanner, key []byte) (err error) {
			switch {
			case string(key) == "executeResult" && s.peek() == '{':
				var n int64
				n, r.Msg, r.valid, err = result(s)
				r.Code = int(n)
			default:
				_, err = s.skip()
			}
			return err
		})
		if err != nil {
			return r, err
		}
		// The Go executor uses this shape for refusals only. A success in it
		// is something else talking.
		if r.Code == CodeSuccess {
			r.valid = false
		}
	}
}

// OK reports whether the reply is an envelope with code 200.
func (r Reply) OK() bool { return r.valid && r.Code == CodeSuccess }

// Verdict classifies r as the answer to a run. The Go executor rejects a run of a job that it is running under every block
// strategy except COVER_EARLY, even under SERIAL_EXECUTION, which Java would queue. That answer is VerdictBlockStrategy too.
func (r Reply) Verdict() Verdict {
	switch {
	case !r.valid:
		return VerdictGarbage
	case r.Code == CodeSuccess:
		return VerdictAccepted
	case r.Code == CodeBusy:
		return VerdictQueueFull
	case r.Code != CodeFailure:
		return VerdictRefused
	case strings.HasPrefix(r.Msg, MsgRepeatTrigger):
		return VerdictRepeatTrigger
	case strings.HasPrefix(r.Msg, MsgBlockStrategy), r.Array && r.Msg == MsgGoRunning:
		return VerdictBlockStrategy
	case strings.HasPrefix(r.Msg, MsgQueueFull):
		return VerdictQueueFull
	}
	return VerdictRefused
}

// NoMapping reports whether an executor does not know the called path (Java: an envelope that names the path). Only this answer, or
// HTTP 404 from the Go executor, proves that the other path can be tried.
func (r Reply) NoMapping(path string) bool {
	return r.valid && r.Code != CodeSuccess && strings.Contains(r.Msg, "uri-mapping("+path+") not found")
}

// AppendReply appends the answer to an executor, in a form that all dialects
// read: no payload, under both keys. An empty msg is sent as null.
func AppendReply(dst []byte, code int, msg string) []byte {
	dst = appendInt(dst, `{"code":`, int64(code))
	dst = appendMsg(dst, msg)
	return append(dst, `,"content":null,"data":null}`...)
}

func appendMsg(dst []byte, msg string) []byte {
	if msg == "" {
		return append(dst, `,"msg":null`...)
	}
	return appendText(dst, `,"msg":`, msg)
}
