package dynamo

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// Bounds of Recent.
const (
	mostHours  = 7 * 24 // that are searched
	mostRecent = 100    // requests of one call
)

const msPerMinute = 60_000

// Recent implements store.Runs. It reads the journals of the last week, newest first. They name the runs that
// were claimed, queued or closed unclaimed in a minute, so runs need no index. A run that waits for its time is
// missing. After mostRecent requests it returns the runs it found, perhaps none, and where to continue; it finishes the
// journals of a minute that it started. The position is in the runs of a minute as its journals name them then. Journals that come
// later can move it, so a run may be listed twice.
func (s runs) Recent(ctx context.Context, of store.Recent, from store.RunPlace, limit int) (
	list []core.Run, next store.RunPlace, err error,
) {
	first, done := s.o.Now().Unix()/60+1, 0
	if minute := (from.Before - 1) / msPerMinute; from.Before > 0 && minute <= first {
		first, done = minute, int(from.Row)
	}
	requests, moved := 0, false // moved: it has read runs, so that the next call starts at another place
	enough := func() bool { return len(list) >= limit || requests >= mostRecent }
	place := func(minute int64, row int) store.RunPlace {
		return store.RunPlace{Before: (minute + 1) * msPerMinute, Row: int64(row)}
	}
	var failed error
	for minute, ids := range s.minutes(ctx, first, &requests, &failed) {
		if minute != first {
			done = 0
		}
		for i := done - done%items.KeysPerGet; i < len(ids); i += items.KeysPerGet {
			if moved && enough() {
				return list, place(minute, i), nil
			}
			moved, requests = true, requests+1
			page, err := s.claimed(ctx, minute, ids[i:min(i+items.KeysPerGet, len(ids))])
			if err != nil {
				return nil, next, err
			}
			for k := range page {
				switch r := &page[k]; {
				case i+k < done:
				case len(list) >= limit:
					return list, place(minute, i+k), nil
				case of.App == "" || r.App == of.App:
					list = append(list, *r)
				}
			}
		}
		if enough() {
			return list, place(minute-1, 0), nil
		}
	}
	return list, next, failed
}

// minutes reads the journals of the last week, and yields the minutes that have some, with the runs that they name: the newest minute
// and, in a minute, the latest scheduled times first. After each hour, it yields the first minute of the hour without runs.
func (s *Store) minutes(ctx context.Context, from int64, requests *int, failed *error) iter.Seq2[int64, []core.RunID] {
	return func(yield func(int64, []core.RunID) bool) {
		now := s.o.Now().Unix() / 60
		for hour := from / 60; hour > now/60-mostHours && hour >= 0; hour-- {
			var minute int64
			var named []core.RunID
			goesOn, read := true, 0
			next := func() {
				if goesOn && len(named) > 0 {
					goesOn = yield(minute, latestFirst(minute, named))
				}
				named = nil
			}
			e := items.Equal("of", items.Text(store.KindJournals(hour*60))).
				And(items.Where("key", "<", items.Text(strconv.FormatInt(min(from, hour*60+59), 10)+"/")))
			*failed = s.db.Query(ctx, e.Newest(s.o.Names.State, items.KeysPerGet), func(it item) (bool, error) {
				if read++; read%items.KeysPerGet == 0 {
					*requests++
				}
				j, err := decodeJournal(it)
				if err == nil && j.Key.Minute != minute {
					next()
					minute = j.Key.Minute
				}
				for _, e := range j.Entries {
					named = append(named, e.Run)
				}
				return goesOn, err
			})
			if *failed != nil {
				return
			}
			next()
			if *requests++; !goesOn || !yield(hour*60, nil) {
				return
			}
		}
	}
}

// latestFirst sorts the runs of a minute by their scheduled times. A run that has no such time in its ID comes first.
func latestFirst(minute int64, ids []core.RunID) []core.RunID {
	about := func(id core.RunID) core.Instant {
		if at, planned := id.Planned(); planned {
			return at
		}
		return core.Instant((minute + 1) * 60)
	}
	slices.SortFunc(ids, func(a, b core.RunID) int { return cmp.Or(cmp.Compare(about(b), about(a)), cmp.Compare(b, a)) })
	return slices.Compact(ids)
}

// claimed reads the runs with these IDs and returns the runs that the journals of minute list, newest first.
func (s *Store) claimed(ctx context.Context, minute int64, ids []core.RunID) ([]core.Run, error) {
	found, err := store.Complete(runs{s}.Get(ctx, ids))
	if err != nil {
		return nil, err
	}
	list := make([]core.Run, 0, len(found))
	for _, id := range ids {
		// A run that was released and claimed again is listed by its last journal.
		if r := found[id]; r != nil && (r.Journal.IsZero() || r.Journal.Minute == minute) {
			list = append(list, *r)
		}
	}
	slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(taken(&b).Compare(taken(&a)), cmp.Compare(b.ID, a.ID)) })
	return list, nil
}

// taken approximates when a dispatcher first claimed or recorded a run.
func taken(r *core.Run) time.Time {
	switch {
	case !r.SentAt.IsZero():
		return r.SentAt
	case r.State == core.Skipped:
		return r.EndedAt
	}
	return r.Slot.Time()
}

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
		e := items.Equal("of", items.Text(store.KindJournals(hour*60))).
			And(items.Where("key", "BETWEEN", items.Text(strconv.FormatInt(read, 10)+"."), items.Text(strconv.FormatInt(end-1, 10)+"/")))
		if err := s.db.Query(ctx, e.Query(s.o.Names.State), func(it item) (bool, error) {
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
			errs[i] = s.db.GetAll(ctx, s.o.Names.Runs, each(alone, runKey), func(it item) error {
				r, _, err := decodeRun(it)
				list = append(list, r)
				return err
			})
			give(list)
			return
		}
		errs[i] = s.db.Query(ctx, s.between(spans[i][0], spans[i][1]), func(it item) (bool, error) {
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
