package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// resealAtOnce is how many records one transaction reads.
const resealAtOnce = 100

// Reseal implements engine.Secrets. A place is a table and a row. The caches have decrypted secrets, which do not change.
func (s *Store) Reseal(ctx context.Context, from string) (changed int, next string, err error) {
	if from == "" {
		from = "apps/0"
	}
	table, text, _ := strings.Cut(from, "/")
	row, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, "", core.Invalid("after", from, "expected the value of next from the previous part")
	}
	err = s.write(ctx, false, resealAtOnce, func(tx *tx) (err error) {
		switch table {
		case "apps":
			changed, next, err = reseal[core.App](s, tx, table, row, "def/0")
		case "def":
			changed, next, err = reseal[core.Def](s, tx, table, row, "")
		default:
			err = core.Invalid("after", from, "expected the value of next from the previous part")
		}
		return err
	})
	return changed, next, err
}

// reseal reads the next rows of a table and re-encrypts secrets that use an older key; at the table's end it returns then.
func reseal[T secretbox.Record[T]](s *Store, tx *tx, table string, row int64, then string) (changed int, next string, err error) {
	found := map[int64][]byte{}
	last := row
	if err := execute(tx.Conn, "SELECT rowid, body FROM "+table+" WHERE rowid > ? ORDER BY rowid LIMIT ?", values(row, resealAtOnce),
		func(st *sqlite.Stmt) error {
			last = st.ColumnInt64(0)
			found[last] = columnBytes(st, 1)
			return nil
		}); err != nil {
		return 0, "", err
	}
	for row, body := range found {
		var r T
		if json.Unmarshal(body, &r) != nil { // damaged: other commands report it
			continue
		}
		r, differs, err := secretbox.Reseal(s.secrets, r)
		switch {
		case err != nil:
			return 0, "", err
		case !differs:
			continue
		}
		if body, err = json.Marshal(r); err == nil {
			err = execute(tx.Conn, "UPDATE "+table+" SET body = ? WHERE rowid = ?", values(body, row), nil)
		}
		if err != nil {
			return 0, "", fmt.Errorf("write a record of %s: %w", table, err)
		}
		changed++
	}
	if len(found) == resealAtOnce {
		then = fmt.Sprintf("%s/%d", table, last)
	}
	return changed, then, nil
}
