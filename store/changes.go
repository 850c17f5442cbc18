package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

func (s *Store) PutChanges(ctx context.Context, changes []core.Change) error {
	groups := each(changes, func(c *core.Change) Group { return Group{Changes: []core.Change{*c}} })
	return errors.Join(s.Records.Write(ctx, groups...)...)
}

// Changes returns change records in descending order of IDs. The change records of all apps are in one list for each app.
func (s *Store) Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) ([]core.Change, error) {
	kinds := []string{KindChangesOfApp(app)}
	switch {
	case job != 0:
		kinds[0] = KindChangesOfJob(job)
	case app == "":
		apps, err := s.Records.List(ctx, KindChanged, "", "", math.MaxInt32)
		if err != nil {
			return nil, err
		}
		for i := range apps {
			kinds = append(kinds, KindChangesOfApp(apps[i].Name))
		}
	}
	lists, errs := make([][]core.Change, len(kinds)), make([]error, len(kinds))
	AtOnce(len(kinds), func(i int) {
		lists[i], errs[i] = decoded(DecodeChange)(s.Records.List(ctx, kinds[i], ChangesUpTo(last), "", limit))
	})
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	list := slices.Concat(lists...)
	slices.SortStableFunc(list, func(a, b core.Change) int { return cmp.Compare(b.ID, a.ID) })
	return list[:min(len(list), limit)], nil
}

// storedChange is followed by the old state and the new state.
type storedChange struct {
	core.Change
	Cut uint `json:"cut,omitempty"` // length of the old state
}

// KindChangesOfJob and KindChangesOfApp are the kinds of the change records of a job, and of an app and its jobs. Change
// records without an app have the empty app.
func KindChangesOfJob(job core.JobID) string { return "changes#job#" + job.String() }
func KindChangesOfApp(app string) string     { return "changes#app#" + app }

// ChangesUpTo returns the name before the change records with IDs up to last: names sort by ID, newest first.
func ChangesUpTo(last int64) string { return fmt.Sprintf("%019d", math.MaxInt64-max(last, 0)) }

// ChangeWrites returns the writes of a change record: one for the history of its app, and one for the history of its job.
// Equal change records have equal names, so that a repeated write stores nothing new.
func ChangeWrites(c *core.Change, expires time.Time) []Write {
	says := fnv.New64a()
	says.Write([]byte(c.Says()))
	name := fmt.Sprintf("%s#%010d#%016x", ChangesUpTo(c.ID), c.Job, says.Sum64())
	head := storedChange{*c, uint(len(c.Old))}
	milli(&head.At)
	body, err := EncodeHead(head, []byte(c.Old+c.New))
	if err != nil {
		panic(fmt.Sprintf("a type of strings, numbers and a time has no JSON: %v", err))
	}
	kinds := []string{KindChangesOfApp(c.App)}
	if c.Job != 0 {
		kinds = append(kinds, KindChangesOfJob(c.Job))
	}
	writes := make([]Write, len(kinds))
	for i, kind := range kinds {
		writes[i] = Write{Was: Any, Record: Record{Key: Key{kind, name}, V: 1, Body: body, Expires: expires}}
	}
	return writes
}

// DecodeChange returns the change record of a stored record.
func DecodeChange(r *Record) (core.Change, error) {
	var v storedChange
	text, err := DecodeHead(r.Body, &v)
	if err == nil && v.Cut > uint(len(text)) {
		err = errors.New("its end is missing")
	}
	if err != nil {
		return core.Change{}, fmt.Errorf("read a change record: %w", err)
	}
	v.Old, v.New = string(text[:v.Cut]), string(text[v.Cut:])
	return v.Change, nil
}
