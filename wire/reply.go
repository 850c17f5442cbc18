package wire

import (
	"errors"
	"strings"
)

// A Verdict is the meaning of an executor's reply to a /run or /trigger request.
type Verdict uint8

// The verdicts. The zero value is VerdictGarbage.
const (
	VerdictGarbage       Verdict = iota // not a reply of the protocol: the executor may have started the run
	VerdictAccepted                     // the executor queued the run
	VerdictRepeatTrigger                // the executor accepted this logId before
	VerdictBlockStrategy                // rejected because another run of the job is running
	VerdictQueueFull                    // rejected temporarily, because the queue is full; only tickring's own executors send this
	VerdictRefused                      // rejected for another reason
)

// String returns the name of the verdict for logs.
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

// Prefixes of the messages of rejections that have their own Verdict.
const (
	MsgRepeatTrigger = "repeate trigger job" // Java; the misspelling is xxl-job's. The executor has this logId
	MsgBlockStrategy = "block strategy effect"
	MsgGoRunning     = "There are tasks running" // Go executor, for every block strategy except COVER_EARLY
	MsgQueueFull     = "queue full"              // tickring's own executors, with CodeBusy
)

// A Reply is the decoded reply to any request of the protocol. The verdict of the zero value is VerdictGarbage.
type Reply struct {
	Code int
	Msg  string // empty if null; the JSON text if the value is not a string

	// Payload is the JSON value of "content" or "data", whichever is not null; nil if both are null or missing. Payload shares
	// memory with the decoded body.
	Payload []byte
	// PayloadKey is the name of the payload's member: "content" (A, B, Go) or "data" (C, D). PayloadKey is empty if Payload is
	// nil.
	PayloadKey string

	// Array reports whether the reply is a JSON array, with which the Go executor rejects runs. Code and Msg then come from
	// the first item.
	Array bool

	valid bool
}

// errNoEnvelope: JSON, but not an answer of the protocol.
var errNoEnvelope = errors.New("the reply has no whole number as code")

// DecodeReply reads the reply to any request, in all dialects. DecodeReply also accepts the array with which the Go executor
// rejects runs. DecodeReply returns an error and the zero Reply if body is not a reply of the protocol.
func DecodeReply(body []byte) (Reply, error) {
	if err := syntax(body); err != nil {
		return Reply{}, err
	}
	r := envelope(body)
	if begins(body) == '[' {
		r = arrayReply(body)
	}
	if !r.valid {
		return Reply{}, errNoEnvelope
	}
	return r, nil
}

// envelope reads an object with a code. Values that a result lacks stay empty.
func envelope(object []byte) (r Reply) {
	members(object, func(key, value []byte) {
		switch string(key) {
		case "code":
			var n int64
			n, r.valid = integer(value)
			r.Code = int(n)
		case "msg":
			r.Msg = text(value)
		case "content", "data":
			if value[0] != 'n' {
				r.Payload, r.PayloadKey = value, string(key)
			}
		}
	})
	return r
}

func arrayReply(array []byte) (r Reply) {
	members(space(array)[1:], func(key, value []byte) {
		if string(key) == "executeResult" && value[0] == '{' {
			r = envelope(value)
		}
	})
	// The Go executor uses this shape for refusals only. A success in it is something else talking.
	return Reply{Code: r.Code, Msg: r.Msg, Array: true, valid: r.valid && r.Code != CodeSuccess}
}

// OK reports whether r was decoded and has code 200.
func (r Reply) OK() bool { return r.valid && r.Code == CodeSuccess }

// Verdict returns the meaning of r as the reply to a /run or /trigger request. The Go executor rejects a run whose job is
// already running, except under COVER_EARLY. The Go executor rejects the run even under SERIAL_EXECUTION, where Java executors
// queue it. This rejection is VerdictBlockStrategy too.
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

// NoMapping reports whether r means that a Java executor does not know path. Only this reply, or HTTP 404 from a Go executor,
// proves that the run can be sent to the other run path.
func (r Reply) NoMapping(path string) bool {
	return r.valid && r.Code != CodeSuccess && strings.Contains(r.Msg, "uri-mapping("+path+") not found")
}

// AppendReply appends a reply to an executor, in a form that all dialects read. Both payload members are null. An empty msg is
// encoded as null.
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
