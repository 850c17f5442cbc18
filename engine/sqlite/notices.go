package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

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
