package query

import (
	"context"

	"github.com/tickring/tickring/core"
)

// FindChannel reads a channel; false if the channel does not exist. The channel contains secrets, so callers must not
// output the channel.
func (q *Queries) FindChannel(ctx context.Context, name string) (core.Channel, bool, error) {
	if err := core.CheckChannelName("channel", name); err != nil {
		return core.Channel{}, false, err
	}
	found, err := q.store.Channels(ctx, []string{name})
	c, ok := found[name]
	return c, ok, core.Retryable(err)
}

// Channel reads a channel, or returns an error if the channel does not exist. The channel contains secrets, so
// callers must not output the channel.
func (q *Queries) Channel(ctx context.Context, name string) (core.Channel, error) {
	c, ok, err := q.FindChannel(ctx, name)
	if err == nil && !ok {
		err = core.Errorf(core.CodeNotFound, "channel %s does not exist", name)
	}
	return c, err
}

// Channels returns all channels, sorted by name. The channels contain secrets, so callers must not output the
// channels.
func (q *Queries) Channels(ctx context.Context) ([]core.Channel, error) {
	list, err := q.store.ListChannels(ctx)
	return list, core.Retryable(err)
}
