package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
)

func scanAccount(st *sqlite.Stmt) (access.Account, error) {
	a, err := access.Parse(columnBytes(st, 1))
	if err != nil {
		return a, fmt.Errorf("read user %q: %w", st.ColumnText(0), err)
	}
	return a, nil
}

func (s *Store) Account(ctx context.Context, name string) (a access.Account, found bool, err error) {
	err = s.query(ctx, "SELECT name, body FROM people WHERE name = ?", values(name), func(st *sqlite.Stmt) (err error) {
		a, err = scanAccount(st)
		found = true
		return err
	})
	return a, found, err
}

// ListAccounts implements access.Store, in the order of names.
func (s *Store) ListAccounts(ctx context.Context) (list []access.Account, err error) {
	err = s.query(ctx, "SELECT name, body FROM people ORDER BY name", nil, func(st *sqlite.Stmt) error {
		a, err := scanAccount(st)
		list = append(list, a)
		return err
	})
	return list, err
}

func (s *Store) PutAccount(ctx context.Context, seen int64, a access.Account, c *core.Change) error {
	q, bound := "INSERT INTO people (name, rev, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING", []any{a.Name, a.Rev, a.JSON()}
	if seen != 0 {
		q, bound = "UPDATE people SET rev = ?2, body = ?3 WHERE name = ?1 AND rev = ?4", append(bound, seen)
	}
	return s.judge(ctx, 2, nil, q, values(bound...), func(tx *tx) error {
		if c == nil {
			return nil
		}
		return putChange(tx, c)
	})
}

func (s *Store) DeleteAccount(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.judge(ctx, 2, nil, "DELETE FROM people WHERE name = ?1 AND rev = ?2", values(name, seen),
		func(tx *tx) error { return putChange(tx, &c) })
}
