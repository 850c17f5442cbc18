package wiretest

import (
	"net/http"
	"time"

	"github.com/tickring/tickring/wire"
)

// An Action is what the executor does with one run that it receives. The zero
// Action does what an executor of the dialect would do.
type Action struct {
	kind   kind
	code   int
	text   string
	delay  time.Duration
	gate   <-chan struct{}
	finish bool
}

type kind uint8

const (
	native kind = iota
	refuse
	status
	garbage
	cut
	hang
)

// Accept does what an executor of the dialect would do: it accepts the run
// unless the handler is unknown or another run of the job is in its way. The
// run then goes on until Finish.
func Accept() Action { return Action{} }

// Finish is Accept, and the run ends at once with this result.
func Finish(code int, msg string) Action { return Action{finish: true, code: code, text: msg} }

// Refuse answers with the envelope of this code and message; nothing is
// started.
func Refuse(code int, msg string) Action { return Action{kind: refuse, code: code, text: msg} }

// QueueFull refuses as tickring's own executors do when they have no room.
func QueueFull() Action { return Refuse(wire.CodeBusy, wire.MsgQueueFull) }

// Status answers with this HTTP status and text as body; nothing is started.
func Status(code int, text string) Action { return Action{kind: status, code: code, text: text} }

// TooManyRequests answers with HTTP 429; nothing is started.
func TooManyRequests() Action { return Status(http.StatusTooManyRequests, "slow down") }

// Garbage starts the run and answers HTTP 200 with text, which should not be
// an envelope.
func Garbage(text string) Action { return Action{kind: garbage, text: text} }

// Cut starts the run and closes the connection instead of answering.
func Cut() Action { return Action{kind: cut} }

// Hang starts the run and answers nothing until the caller gives up or the
// executor is closed.
func Hang() Action { return Action{kind: hang} }

// Slow does a after d.
func Slow(d time.Duration, a Action) Action { a.delay = d; return a }

// After does a once gate is closed (or gives a value). It goes before Slow's
// delay.
func After(gate <-chan struct{}, a Action) Action { a.gate = gate; return a }
