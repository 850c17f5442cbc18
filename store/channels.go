package store

import (
	"context"

	"github.com/tickring/tickring/core"
)

var channels = Sealed(Table[core.Channel]{Kind: "channel",
	Name:    func(c *core.Channel) string { return c.Name },
	Version: func(c *core.Channel) int64 { return c.Rev }})

// Channels reads channels by name. Channels that do not exist are not in the result.
func (s *Store) Channels(ctx context.Context, names []string) (map[string]core.Channel, error) {
	return channels.Read(ctx, s, names...)
}

func (s *Store) ListChannels(ctx context.Context) ([]core.Channel, error) {
	return channels.ReadAll(ctx, s)
}

// PutChannel stores a channel on the condition that the stored Rev equals seen. If seen is 0, the channel must not exist.
func (s *Store) PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error {
	milli(&ch.Created, &ch.Tested)
	return channels.Save(ctx, s, seen, ch, c)
}

// DeleteChannel deletes a channel on the condition that the stored Rev equals seen.
func (s *Store) DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.Write(ctx, channels.Delete(name, seen), c)
}
