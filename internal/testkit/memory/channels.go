package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/tickring/tickring/core"
)

func copyChannel(c core.Channel) core.Channel {
	c.Email.To = slices.Clone(c.Email.To)
	c.Tested, c.Created = milli(c.Tested), milli(c.Created)
	return c
}

// Channels implements query.Store.
func (s *Store) Channels(ctx context.Context, names []string) (map[string]core.Channel, error) {
	return pick(ctx, s, names, s.channels, copyChannel)
}

// ListChannels implements query.Store, in the order of names.
func (s *Store) ListChannels(ctx context.Context) ([]core.Channel, error) {
	var list []core.Channel
	err := s.one(ctx, func() error {
		for _, name := range slices.Sorted(maps.Keys(s.channels)) {
			list = append(list, copyChannel(s.channels[name]))
		}
		return nil
	})
	return list, err
}

// PutChannel implements manage.Store.
func (s *Store) PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error {
	return s.one(ctx, func() error {
		if old, ok := s.channels[ch.Name]; ok != (seen != 0) || old.Rev != seen {
			return core.ErrRefused
		}
		s.channels[ch.Name] = copyChannel(ch)
		s.change(c)
		return nil
	})
}

// DeleteChannel implements manage.Store.
func (s *Store) DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.one(ctx, func() error {
		if old, ok := s.channels[name]; !ok || old.Rev != seen {
			return core.ErrRefused
		}
		delete(s.channels, name)
		s.change(c)
		return nil
	})
}
