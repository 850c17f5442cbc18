package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
)

// Waiting is the list of the runs that wait, for an engine without an index of them: a run may wait for months. It has a record for
// each such run.
type Waiting struct{ *Store }

// waitingKey returns the key of a waiting run's record. The names of a job's records sort by ID, highest first.
func waitingKey(id core.RunID) Key {
	return Key{Kind: "waiting/" + id.Job().String(), Name: fmt.Sprintf("%019d", math.MaxInt64-int64(id))}
}

// Note stores a record for each run that is about to wait, and returns the error of each write. A run is stored after its record, so
// no run waits without one.
func (s Waiting) Note(ctx context.Context, puts []RunPut) []error {
	errs := make([]error, len(puts))
	var of []int
	var groups []Group
	now := s.Now()
	for i := range puts {
		r, c := puts[i].Create, puts[i].Change
		if r != nil && r.State == core.Queued || c != nil && c.Set&core.RunState != 0 &&
			(c.To.State == core.Queued || c.To.State == core.Planned && c.Set&core.RunOwner != 0) {
			note := Record{Key: waitingKey(puts[i].ID()), V: core.Millis(now), Expires: now.Add(keepNotes)}
			of, groups = append(of, i), append(groups, Group{Writes: []Write{{Record: note, Was: Any}}})
		}
	}
	for k, err := range s.Records.Write(ctx, groups...) {
		errs[of[k]] = err
	}
	return errs
}

// Settle removes the records of the runs that no longer wait after writes that were made. began is a time before the writes.
func (s Waiting) Settle(ctx context.Context, puts []RunPut, errs []error, began time.Time) {
	var over []core.RunID
	for i := range puts {
		c := puts[i].Change
		if errs[i] != nil || c == nil || c.To.Owner == "" && c.To.State != core.Running && !c.Ends() {
			continue
		}
		if was := cmp.Or(c.Seen, &c.Was); was.State == core.Queued || was.State == core.Planned && !was.Until.IsZero() {
			over = append(over, c.ID)
		}
	}
	s.drop(ctx, over, began)
}

// drop removes records. A late removal leaves a newer record alone, because the time at is before the runs were read or written. If a
// removal fails, the next Page removes the record.
func (s Waiting) drop(ctx context.Context, ids []core.RunID, at time.Time) {
	_ = s.Records.Write(ctx, each(ids, func(id *core.RunID) Group {
		note := Record{Key: waitingKey(*id), V: core.Millis(at) + 1}
		return Group{Writes: []Write{{Record: note, Was: Lower, Delete: true}}}
	})...)
}

// Page reads a page of the records, and the runs. It is Runs.Open for runs that wait.
func (s Waiting) Page(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, next core.RunID, err error) {
	var ids, over []core.RunID
	began := s.Now()
	notes, err := s.Records.List(ctx, waitingKey(first).Kind, waitingKey(first+1).Name, waitingKey(last-1).Name, limit)
	for _, note := range notes {
		n, bad := strconv.ParseInt(note.Name, 10, 64)
		ids, err = append(ids, core.RunID(math.MaxInt64-n)), cmp.Or(err, bad)
	}
	if err != nil {
		return nil, 0, err
	}
	found, err := Complete(s.Runs.Get(ctx, ids))
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
	s.drop(ctx, over, began)
	if len(ids) == limit && ids[limit-1] > last {
		next = ids[limit-1] - 1
	}
	return list, next, nil
}
