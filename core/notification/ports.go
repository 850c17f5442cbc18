package notification

import (
	"context"

	"github.com/tickring/tickring/core"
)

// A Sender sends messages to channels. Send sends a message once, without a retry. Its error is a *core.Undelivered.
type Sender interface {
	Send(ctx context.Context, ch core.Channel, m core.Message) error
}

// Logs reads the last lines of a run's log for notifications. If the run has no log, the result is empty.
type Logs interface {
	Tail(ctx context.Context, run *core.Run, lines int) ([]string, error)
}
