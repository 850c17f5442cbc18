package budget

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
)

// WriteResult evaluates the error of a write in an UpdateWithRetry. failed means that the write did not and will not happen.
// If the result is neither done nor failed, it is unknown, and the next round must read it.
func WriteResult(err error) (done bool, failed error) {
	if errors.Is(err, core.ErrThrottled) {
		return false, core.Retryable(core.ErrThrottled)
	}
	return err == nil, nil
}

// UpdateWithRetry repeats a round of read, check and write until it is done or fails, because another writer can be
// faster and answers get lost. After Tries rounds it returns unclear.
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

// RetryUntilCertain repeats an idempotent write until it certainly succeeded.
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
