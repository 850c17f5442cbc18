package dynamo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Began reads beganJobs jobs at a time and reports up to beganTold runs at a time. It reads up to few runs of a job by ID,
// a hundred in each request. It reads more runs as a span of IDs, at a tenth of the cost of each, if the span can hold
// less than sparse times their number.
const (
	beganJobs = 64
	beganTold = 500
	few       = 2
	sparse    = 4
)

// Began implements store.Runs, in the order of jobs. The journals of the span name the runs that were claimed or
// recorded in it. If it reads a span of a job's IDs, it also reports runs that no journal names.
func (s runs) Began(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (until core.JobID, err error) {
	first, end := int64(from)/60, (int64(to)+59)/60
	of := map[core.JobID][]core.RunID{}
	read := max(first-core.EndedWithin, 0) // a run without a claim counts in the minute of its end
	for hour := read / 60; hour <= (end-1)/60; hour++ {
		e := equal("of", text(store.KindJournals(hour*60)))
		e.any(where("key", "BETWEEN", text(strconv.FormatInt(read, 10)+"."), text(strconv.FormatInt(end-1, 10)+"/")))
		if err := s.query(ctx, e.query(s.o.Names.State), func(it item) (bool, error) {
			j, err := decodeJournal(it)
			for _, entry := range j.Entries {
				job := entry.Run.Job()
				if job > behind && (j.Key.Minute >= first || entry.Outcome == core.Recorded) {
					of[job] = append(of[job], entry.Run)
				}
			}
			return true, err
		}); err != nil {
			return 0, err
		}
	}
	in := func(r *core.Run) bool {
		if !r.SentAt.IsZero() && !r.Journal.IsZero() {
			return r.Journal.Minute >= first && r.Journal.Minute < end
		}
		return !r.State.Open() && !r.EndedAt.Before(from.Time()) && r.EndedAt.Before(to.Time())
	}
	for jobs := range slices.Chunk(slices.Sorted(maps.Keys(of)), beganJobs) {
		err := s.beganOf(ctx, jobs, of, from, to, in, tell)
		switch {
		case err != nil && ctx.Err() != nil && until != 0:
			return until, nil
		case err != nil:
			return 0, err
		}
		until = jobs[len(jobs)-1]
	}
	return 0, nil
}

// beganOf reports those runs of some jobs that in accepts.
func (s *Store) beganOf(ctx context.Context, jobs []core.JobID, of map[core.JobID][]core.RunID, from, to core.Instant,
	in func(*core.Run) bool, tell func([]core.Run)) error {
	var mu sync.Mutex
	give := func(list []core.Run) {
		if list = slices.DeleteFunc(list, func(r core.Run) bool { return !in(&r) }); len(list) > 0 {
			mu.Lock()
			defer mu.Unlock()
			tell(list)
		}
	}
	var alone []core.RunID
	var spans [][2]core.RunID
	for _, job := range jobs {
		ids := slices.Compact(slices.Sorted(slices.Values(of[job])))
		low, high := core.RunRange(job, from, to-1)
		var planned, numbered []core.RunID
		for _, id := range ids {
			_, byNumber := id.Number()
			switch {
			case byNumber:
				numbered = append(numbered, id)
			case id >= low && id <= high:
				planned = append(planned, id)
			default: // a planned run with a scheduled time outside the span
				alone = append(alone, id)
			}
		}
		if len(planned) > few {
			spans = append(spans, [2]core.RunID{low, high})
		} else {
			alone = append(alone, planned...)
		}
		if n := len(numbered); n > few && int64(numbered[n-1]-numbered[0]) < int64(sparse*n) {
			spans = append(spans, [2]core.RunID{numbered[0], numbered[n-1]})
		} else {
			alone = append(alone, numbered...)
		}
	}
	errs := make([]error, len(spans)+1)
	store.AtOnce(len(errs), func(i int) {
		var list []core.Run
		if i == len(spans) {
			errs[i] = s.getAll(ctx, s.o.Names.Runs, keysOf(alone, runKey), func(it item) error {
				r, _, err := decodeRun(it)
				list = append(list, r)
				return err
			})
			give(list)
			return
		}
		errs[i] = s.query(ctx, s.between(spans[i][0], spans[i][1]), func(it item) (bool, error) {
			r, _, err := decodeRun(it)
			if list = append(list, r); len(list) == beganTold {
				give(list)
				list = nil
			}
			return true, err
		})
		give(list)
	})
	return errors.Join(errs...)
}
