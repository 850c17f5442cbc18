package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// keepWaiting is how long a note stays that was not removed: longer than a run waits.
const keepWaiting = 400 * 24 * time.Hour

// waitingKey returns the key of the record that a run waits. Runs have no index, and a run may wait for months, so these
// records list the waiting runs of a job. Their names sort by ID, highest first.
func waitingKey(id core.RunID) store.Key {
	return store.Key{Kind: "waiting/" + id.Job().String(), Name: fmt.Sprintf("%019d", math.MaxInt64-int64(id))}
}

// noteWaiting stores a record for each run that is about to wait, and returns the error of each write. A run is stored after
// its record, so no run waits without one.
func (s *Store) noteWaiting(ctx context.Context, puts []store.RunPut) []error {
	errs := make([]error, len(puts))
	var of []int
	var groups []store.Group
	now := s.o.Now()
	for i := range puts {
		r, c := puts[i].Create, puts[i].Change
		if r != nil && r.State == core.Queued || c != nil && c.Set&core.RunState != 0 &&
			(c.To.State == core.Queued || c.To.State == core.Planned && c.Set&core.RunOwner != 0) {
			note := store.Record{Key: waitingKey(runOf(&puts[i])), V: core.Millis(now), Expires: now.Add(keepWaiting)}
			of, groups = append(of, i), append(groups, store.Group{Writes: []store.Write{{Record: note, Was: store.Any}}})
		}
	}
	for k, err := range s.Write(ctx, groups...) {
		errs[of[k]] = err
	}
	return errs
}

// dropWaiting removes the records of runs that have stopped waiting. A late removal leaves a newer record alone, because
// the time at is before the runs were read or written. If a removal fails, waiting removes the record.
func (s *Store) dropWaiting(ctx context.Context, ids []core.RunID, at time.Time) {
	groups := make([]store.Group, len(ids))
	for i, id := range ids {
		note := store.Record{Key: waitingKey(id), V: core.Millis(at) + 1}
		groups[i].Writes = []store.Write{{Record: note, Was: store.Lower, Delete: true}}
	}
	_ = s.Write(ctx, groups...)
}

// waiting reads a page of the records of runs that wait, and the runs.
func (s *Store) waiting(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, next core.RunID, err error) {
	var ids, over []core.RunID
	began := s.o.Now()
	notes, err := s.List(ctx, waitingKey(first).Kind, waitingKey(first+1).Name, waitingKey(last-1).Name, limit)
	for _, note := range notes {
		n, bad := strconv.ParseInt(note.Name, 10, 64)
		ids, err = append(ids, core.RunID(math.MaxInt64-n)), cmp.Or(err, bad)
	}
	if err != nil {
		return nil, 0, err
	}
	found, err := store.Complete(runs{s}.Get(ctx, ids))
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		switch r, is := found[id]; {
		case is && !r.State.Open():
			over = append(over, id)
		case is && r.Owner == "":
			list = append(list, *r)
		}
	}
	s.dropWaiting(ctx, over, began)
	if len(ids) == limit && ids[limit-1] > last {
		next = ids[limit-1] - 1
	}
	return list, next, nil
}
