package sqlite

import (
	"context"

	"github.com/tickring/tickring/core"
)

// Began implements store.Runs, in no order of jobs. Rows lie in the order in which they were made, and almost every run
// is made with its claim or its end; the few others have their own indexes. A run that was made in the minute of its
// claim, or later, counts as begun when it was made.
func (s runs) Began(ctx context.Context, from, to core.Instant, _ core.JobID, tell func([]core.Run)) (_ core.JobID, err error) {
	const atOnce = 2000 // runs in one transaction
	scan := func(q string, args ...any) (n int, last int64) {
		var list []core.Run
		if err == nil {
			err = s.read(ctx, func(c *conn) { list, last = c.runs(q, args...) })
		}
		if err == nil {
			tell(list)
		}
		return len(list), last
	}
	after, upTo := rowsBefore(int64(from)*1000), rowsBefore(int64(to)*1000)
	for n := atOnce; n == atOnce; {
		n, after = scan(selectRuns+"WHERE n > ? AND n <= ? AND (jminute > 0 OR state > 3) AND NOT coalesce("+claimedLater+", 0) "+
			"AND NOT coalesce("+endedLater+", 0) ORDER BY n LIMIT ? + 0", after, upTo, atOnce)
	}
	scan(selectRuns+"INDEXED BY runs_claimed_later WHERE jminute >= ? AND jminute < ? AND "+claimedLater, (from+59)/60, (to+59)/60)
	scan(selectRuns+"INDEXED BY runs_ended_later WHERE ended >= ? AND ended < ? AND "+endedLater, int64(from)*1000, int64(to)*1000)
	return 0, err
}
