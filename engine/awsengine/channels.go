package awsengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// channelOf lists the notification channels, one item each.
const channelOf = "channel"

func decodeChannel(it item) (c core.Channel, err error) {
	if err := json.Unmarshal([]byte(stringOf(it, "body")), &c); err != nil {
		return c, fmt.Errorf("read channel %q: %w", stringOf(it, "key"), err)
	}
	return c, nil
}

// openChannel reads a channel; one with a secret that cannot be decrypted is core.Channel.Locked.
func (s *Store) openChannel(it item) (core.Channel, error) {
	c, err := decodeChannel(it)
	if err != nil {
		return c, err
	}
	if c, err = secretbox.Open(s.o.Secrets, c); errors.Is(err, core.ErrThrottled) {
		return c, err
	}
	return c, nil
}

func (s *Store) Channels(ctx context.Context, names []string) (map[string]core.Channel, error) {
	keys := make([]item, len(names))
	for i, name := range names {
		keys[i] = stateKey(channelOf, name)
	}
	found := make(map[string]core.Channel, len(names))
	err := s.getAll(ctx, s.o.Names.State, keys, func(it item) error {
		c, err := s.openChannel(it)
		found[stringOf(it, "key")] = c
		return err
	})
	return found, err
}

func (s *Store) ListChannels(ctx context.Context) (list []core.Channel, err error) {
	err = s.all(ctx, channelOf, func(it item) error {
		c, err := s.openChannel(it)
		list = append(list, c)
		return err
	})
	return list, err
}

func (s *Store) PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error {
	ch, err := secretbox.Seal(s.o.Secrets, ch)
	if err != nil {
		return err
	}
	ch.Created, ch.Tested = fromMillis(millis(ch.Created)), fromMillis(millis(ch.Tested))
	it := stateKey(channelOf, ch.Name)
	it["rev"], it["body"] = number(ch.Rev), text(jsonText(ch))
	return s.transact(ctx, append(s.changeActions(&c), was("rev", seen).put(s.o.Names.State, it)))
}

func (s *Store) DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.transact(ctx, append(s.changeActions(&c), was("rev", seen).delete(s.o.Names.State, stateKey(channelOf, name))))
}
