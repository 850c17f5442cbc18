package awsengine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
)

// keepWaiting is how long a note stays that was not removed: longer than a run waits.
const keepWaiting = 400 * 24 * time.Hour

// waitingKey returns the key of the record that a run waits. Runs have no index, and a run may wait for months, so these
// records list the waiting runs of a job.
func waitingKey(id core.RunID) item {
	return stateKey("waiting/"+id.Job().String(), fmt.Sprintf("%019d", id))
}

// noteWaiting stores a record for each of n runs that is about to wait, and returns the error of each. A run is stored
// after its record, so no run waits without one.
func (s *Store) noteWaiting(ctx context.Context, n int, waits func(i int) (core.RunID, bool)) []error {
	errs := make([]error, n)
	var of []int
	for i := range n {
		if _, is := waits(i); is {
			of = append(of, i)
		}
	}
	s.parallel(len(of), func(k int) {
		id, _ := waits(of[k])
		it, now := waitingKey(id), s.o.Now()
		it["at"], it["expires"] = number(millis(now)), number(now.Add(keepWaiting).Unix())
		errs[of[k]] = s.putIf(ctx, it, nil)
	})
	return errs
}

// dropWaiting removes the records of runs that have stopped waiting. A late removal leaves a newer record alone, because
// at is before the runs were read or written. If a removal fails, Waiting removes the record.
func (s *Store) dropWaiting(ctx context.Context, ids []core.RunID, at time.Time) {
	s.parallel(len(ids), func(k int) {
		older := &expr{}
		older.test("at", "<=", number(millis(at)))
		_ = s.deleteIf(ctx, waitingKey(ids[k]), older)
	})
}

func (s *Store) Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) (list []core.Run, err error) {
	for more := true; more && len(list) < limit; {
		var ids, over []core.RunID
		began := s.o.Now()
		noted := equal("of", waitingKey(core.NumberedRun(job, 0))["of"])
		noted.test("key", "<", text(fmt.Sprintf("%019d", below)))
		err := s.query(ctx, noted.newest(s.o.Names.State, limit), func(it item) (bool, error) {
			n, err := strconv.ParseInt(stringOf(it, "key"), 10, 64)
			below = core.RunID(n)
			ids = append(ids, below)
			return len(ids) < limit, err
		})
		if err != nil {
			return nil, err
		}
		found, unread, err := s.Runs(ctx, ids)
		if err == nil && len(unread) > 0 {
			err = core.ErrThrottled
		}
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			switch r, is := found[id]; {
			case is && !r.State.Open():
				over = append(over, id)
			case is && r.Owner == "":
				list = append(list, r)
			}
		}
		s.dropWaiting(ctx, over, began)
		more = len(ids) == limit
	}
	return list, nil
}
