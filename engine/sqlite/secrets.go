package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// resealAtOnce is how many records one transaction reads.
const resealAtOnce = 100

// Reseal implements engine.Secrets for the definitions of jobs. A place is a row. The cache has decrypted secrets, which do not
// change.
func (s *Store) Reseal(ctx context.Context, from string) (changed int, next string, err error) {
	row := int64(0)
	if from != "" {
		if row, err = strconv.ParseInt(from, 10, 64); err != nil {
			return 0, "", core.Invalid("after", from, "expected the value of next from the previous part")
		}
	}
	err = s.write(ctx, false, resealAtOnce, func(tx *tx) (err error) {
		changed, next, err = s.resealDefs(tx, row)
		return err
	})
	return changed, next, err
}

func (s *Store) resealDefs(tx *tx, row int64) (changed int, next string, err error) {
	found := map[int64][]byte{}
	last := row
	if err := execute(tx.Conn, "SELECT rowid, body FROM def WHERE rowid > ? ORDER BY rowid LIMIT ?", values(row, resealAtOnce),
		func(st *sqlite.Stmt) error {
			last = st.ColumnInt64(0)
			found[last] = columnBytes(st, 1)
			return nil
		}); err != nil {
		return 0, "", err
	}
	for row, body := range found {
		var d core.Def
		if json.Unmarshal(body, &d) != nil { // damaged: other commands report it
			continue
		}
		d, differs, err := secretbox.Reseal(s.secrets, d)
		switch {
		case err != nil:
			return 0, "", err
		case !differs:
			continue
		}
		if body, err = json.Marshal(d); err == nil {
			err = execute(tx.Conn, "UPDATE def SET body = ? WHERE rowid = ?", values(body, row), nil)
		}
		if err != nil {
			return 0, "", fmt.Errorf("write the definition of a job: %w", err)
		}
		changed++
	}
	if len(found) == resealAtOnce {
		next = strconv.FormatInt(last, 10)
	}
	return changed, next, nil
}
