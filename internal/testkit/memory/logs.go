package memory

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
)

// PutLog implements postrun.Store.
func (s *Store) PutLog(ctx context.Context, run *core.Run, k core.KeptLog) error {
	k.Text, k.At = slices.Clone(k.Text), milli(k.At)
	return s.one(ctx, func() error {
		if _, is := s.logs[k.Run]; is && len(k.Text) == 0 || s.runs[run.ID] == nil {
			return core.ErrRefused
		}
		s.logs[k.Run] = k
		return nil
	})
}

// KeptLog implements postrun.Store.
func (s *Store) KeptLog(ctx context.Context, run core.RunID) (k core.KeptLog, is bool, err error) {
	err = s.one(ctx, func() error {
		k, is = s.logs[run]
		k.Text = slices.Clone(k.Text)
		return nil
	})
	return k, is, err
}
