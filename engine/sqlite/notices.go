package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/ring"
)

func (s *Store) Notices(ctx context.Context, names []string) (map[string]notification.State, error) {
	found := make(map[string]notification.State, len(names))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for _, name := range names {
			n := notification.State{Name: name}
			if err := execute(c, "SELECT v, body FROM notices WHERE name = ?", values(name), func(st *sqlite.Stmt) error {
				n.V = st.ColumnInt64(0)
				return json.Unmarshal(columnBytes(st, 1), &n)
			}); err != nil {
				return fmt.Errorf("read notices of %s: %w", name, err)
			}
			if n.V > 0 {
				found[name] = n
			}
		}
		return nil
	})
	return found, err
}

func (s *Store) PutNotices(ctx context.Context, list []notification.State) []error {
	return batch(ctx, s, false, list, func(tx *tx, list []notification.State, answers []error) error {
		for i := range list {
			n := &list[i]
			body, err := json.Marshal(n)
			if err != nil {
				return err
			}
			q := "UPDATE notices SET v = ?2, until = ?3, body = ?4 WHERE name = ?1 AND v = ?2 - 1"
			if n.V == 1 {
				q = "INSERT INTO notices (name, v, until, body) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING"
			}
			if err := execute(tx.Conn, q, values(n.Name, n.V, core.Millis(n.Keep()), body), nil); err != nil {
				return err
			}
			if tx.Changes() == 0 {
				answers[i] = core.ErrRefused
			}
		}
		return nil
	})
}

func (s *Store) PutLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return s.eachLook(ctx, "INSERT INTO looks (at, job) VALUES (?, ?) ON CONFLICT DO NOTHING", looks)
}

func (s *Store) DropLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return s.eachLook(ctx, "DELETE FROM looks WHERE at = ? AND job = ?", looks)
}

func (s *Store) eachLook(ctx context.Context, q string, looks []ring.CheckRequest) error {
	return s.write(ctx, false, len(looks), func(tx *tx) error {
		for _, l := range looks {
			if err := execute(tx.Conn, q, values(int64(l.At), int64(l.Job)), nil); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) DueLooks(ctx context.Context, upTo core.Instant, limit int) (list []ring.CheckRequest, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		list = nil
		return execute(c, "SELECT at, job FROM looks WHERE at <= ? ORDER BY at, job LIMIT ?", values(int64(upTo), limit),
			func(st *sqlite.Stmt) error {
				list = append(list, ring.CheckRequest{At: core.Instant(st.ColumnInt64(0)), Job: core.JobID(st.ColumnInt64(1))})
				return nil
			})
	})
	return list, err
}
