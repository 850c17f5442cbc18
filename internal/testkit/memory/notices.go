package memory

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// PutLooks implements notification.Looks.
func (s *Store) PutLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return s.one(ctx, func() error {
		for _, l := range looks {
			s.looks.insert(l)
		}
		return nil
	})
}

// DueLooks implements notification.Looks.
func (s *Store) DueLooks(ctx context.Context, upTo core.Instant, limit int) (list []ring.CheckRequest, err error) {
	err = s.one(ctx, func() error {
		for l := range s.looks.up(ring.CheckRequest{}) {
			if l.At > upTo || len(list) == limit {
				break
			}
			list = append(list, l)
		}
		return nil
	})
	return slices.Clone(list), err
}

// DropLooks implements notification.Looks.
func (s *Store) DropLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return s.one(ctx, func() error {
		for _, l := range looks {
			s.looks.remove(l)
		}
		return nil
	})
}
