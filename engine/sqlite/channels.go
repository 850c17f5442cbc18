package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// scanChannel reads a channel; one with a secret that cannot be decrypted is core.Channel.Locked.
func (s *Store) scanChannel(st *sqlite.Stmt) (c core.Channel, err error) {
	if err := json.Unmarshal(columnBytes(st, 1), &c); err != nil {
		return c, fmt.Errorf("read channel %q: %w", st.ColumnText(0), err)
	}
	c, _ = secretbox.Open(s.secrets, c)
	return c, nil
}

func (s *Store) Channels(ctx context.Context, names []string) (map[string]core.Channel, error) {
	found := make(map[string]core.Channel, len(names))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for _, name := range names {
			if err := execute(c, "SELECT name, body FROM channels WHERE name = ?", values(name), func(st *sqlite.Stmt) error {
				ch, err := s.scanChannel(st)
				found[name] = ch
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// ListChannels implements query.Store, in the order of names.
func (s *Store) ListChannels(ctx context.Context) (list []core.Channel, err error) {
	err = s.query(ctx, "SELECT name, body FROM channels ORDER BY name", nil, func(st *sqlite.Stmt) error {
		ch, err := s.scanChannel(st)
		list = append(list, ch)
		return err
	})
	return list, err
}

func (s *Store) PutChannel(ctx context.Context, seen int64, ch core.Channel, c core.Change) error {
	ch, err := secretbox.Seal(s.secrets, ch)
	if err != nil {
		return err
	}
	ch.Created, ch.Tested = milli(ch.Created), milli(ch.Tested)
	body, err := json.Marshal(ch) //nolint:gosec // encrypted before
	if err != nil {
		return fmt.Errorf("write channel %q: %w", ch.Name, err)
	}
	q, bound := "INSERT INTO channels (name, rev, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING", []any{ch.Name, ch.Rev, body}
	if seen != 0 {
		q, bound = "UPDATE channels SET rev = ?2, body = ?3 WHERE name = ?1 AND rev = ?4", append(bound, seen)
	}
	return s.judge(ctx, 2, nil, q, values(bound...), func(tx *tx) error { return putChange(tx, &c) })
}

func (s *Store) DeleteChannel(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.judge(ctx, 2, nil, "DELETE FROM channels WHERE name = ?1 AND rev = ?2", values(name, seen),
		func(tx *tx) error { return putChange(tx, &c) })
}
