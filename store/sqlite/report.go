package sqlite

import (
	"context"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// beganAtOnce is how many runs Began reads in one transaction.
const beganAtOnce = 2000

// Began implements store.Runs, in no order of jobs. Rows lie in the order in which they were made, and almost every run
// is made with its claim or its end; the few others have their own indexes. A run that was made in the minute of its
// claim, or later, counts as begun when it was made.
func (s runs) Began(ctx context.Context, from, to core.Instant, _ core.JobID, tell func([]core.Run)) (core.JobID, error) {
	scan := func(q string, bind func(*sqlite.Stmt), last *int64) (n int, err error) {
		var list []core.Run
		err = s.read(ctx, func(c *sqlite.Conn) error {
			list = list[:0]
			return execute(c, q, bind, func(st *sqlite.Stmt) error {
				if last != nil {
					*last = st.ColumnInt64(st.ColumnCount() - 1)
				}
				list = append(list, core.Run{})
				return s.scanRun(st, &list[len(list)-1])
			})
		})
		if err == nil {
			tell(list)
		}
		return len(list), err
	}
	var made []span
	err := s.read(ctx, func(c *sqlite.Conn) (err error) {
		made, err = spans(c, int64(from)*1000, int64(to)*1000)
		return err
	})
	for _, in := range made {
		for n := beganAtOnce; err == nil && n == beganAtOnce; {
			n, err = scan(selectRuns+`WHERE n > ? AND n <= ? AND (jkey IS NOT NULL OR state > 3) AND NOT
(jkey IS NOT NULL AND jkey >= (made / 60000 + 1) * 16 OR jkey IS NULL AND ended >= (made / 60000 + 1) * 60000) ORDER BY n LIMIT ?`,
				values(in.lo, in.hi, int64(beganAtOnce)), &in.lo)
		}
	}
	first, end := (int64(from)+59)/60*core.JournalSuffixes, (int64(to)+59)/60*core.JournalSuffixes
	for _, later := range []struct {
		q    string
		bind func(*sqlite.Stmt)
	}{
		{selectRuns + `INDEXED BY runs_claimed_later WHERE jkey >= ? AND jkey < ? AND jkey >= (made / 60000 + 1) * 16`,
			values(first, end)},
		{selectRuns + `INDEXED BY runs_ended_later WHERE ended >= ? AND ended < ? AND jkey IS NULL AND state > 3
AND ended >= (made / 60000 + 1) * 60000`, values(int64(from)*1000, int64(to)*1000)},
	} {
		if err == nil {
			_, err = scan(later.q, later.bind, nil)
		}
	}
	return 0, err
}
