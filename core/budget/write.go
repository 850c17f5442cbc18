package budget

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
)

// WriteResult interprets the error of a write in a round of UpdateWithRetry. The result done means that the write happened.
// The result failed means that it did not happen and must not be retried in this call. If done is false and failed is nil, the
// result is unknown, and the next round must read the data.
func WriteResult(err error) (done bool, failed error) {
	if errors.Is(err, core.ErrThrottled) {
		return false, core.Retryable(core.ErrThrottled)
	}
	return err == nil, nil
}

// UpdateWithRetry calls the function round, which reads, checks and writes data, until round returns true or an error. A retry
// is needed if another process was faster or a response was lost. After Tries rounds, UpdateWithRetry returns an error whose
// text is the parameter unclear.
func UpdateWithRetry(ctx context.Context, unclear core.Text, round func() (done bool, err error)) error {
	for range Tries {
		if done, err := round(); done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return core.Retryable(ctx.Err())
		}
	}
	return &core.Error{Code: core.CodeUnavailable, Reason: unclear}
}

// RetryUntilCertain calls an idempotent write until it succeeds, at most Tries times.
func RetryUntilCertain(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		if err == nil {
			return nil
		}
		if errors.Is(err, core.ErrThrottled) || ctx.Err() != nil || try == Tries {
			return core.Retryable(err)
		}
	}
}
