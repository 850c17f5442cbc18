package bound

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
)

// Wrote judges the answer of a write in a Change: done, or not for certain, which
// is read and judged in the next round. The error says that nothing happened and
// nothing will.
func Wrote(err error) (done bool, failed error) {
	if errors.Is(err, core.ErrThrottled) {
		return false, core.Passing(core.ErrThrottled)
	}
	return err == nil, nil
}

// Change reads, judges and writes in rounds until one is done or fails: somebody
// else may be faster, and answers get lost. After so many it says that what was to
// be done is unclear.
func Change(ctx context.Context, unclear core.Text, round func() (done bool, err error)) error {
	for range Tries {
		if done, err := round(); done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return core.Passing(ctx.Err())
		}
	}
	return &core.Error{Code: core.CodeUnavailable, Reason: unclear}
}

// Insist repeats a write that may be done twice until it is done for certain.
func Insist(ctx context.Context, write func() error) error {
	for try := 1; ; try++ {
		err := write()
		if err == nil {
			return nil
		}
		if errors.Is(err, core.ErrThrottled) || ctx.Err() != nil || try == Tries {
			return core.Passing(err)
		}
	}
}
