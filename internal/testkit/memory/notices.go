package memory

import (
	"context"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
)

// Notices implements notification.States.
func (s *Store) Notices(ctx context.Context, names []string) (map[string]notification.State, error) {
	return pick(ctx, s, names, s.notices, notification.State.Clone)
}

// PutNotices implements notification.States.
func (s *Store) PutNotices(ctx context.Context, list []notification.State) []error {
	return each(ctx, s, list, func(n *notification.State) error {
		if s.notices[n.Name].V != n.V-1 {
			return core.ErrRefused
		}
		s.notices[n.Name] = n.Clone()
		return nil
	})
}

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
