package manage

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
)

// Notifier sends messages to channels.
type Notifier interface {
	// Takes returns an error if this server cannot send messages to a channel.
	Takes(ctx context.Context, ch core.Channel) error
	// Test sends one test message without a retry. If the send fails, the error is a *core.Undelivered.
	Test(ctx context.Context, ch core.Channel) error
}

// Finisher closes runs that were not sent. *finish.Finish implements the interface.
type Finisher interface {
	End(ctx context.Context, results []finish.Result) []error
	// EndRow deletes the counted consecutive failures of a job up to the time upTo.
	EndRow(ctx context.Context, job core.JobID, upTo time.Time) error
}
