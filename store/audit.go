package store

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/tickring/tickring/core"
)

func (s *Store) PutChanges(ctx context.Context, changes []core.Change) error {
	groups := make([]Group, len(changes))
	for i := range changes {
		groups[i].Changes = changes[i : i+1]
	}
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
	AtOnce(len(kinds), func(i int) { lists[i], errs[i] = s.changesOf(ctx, kinds[i], last, limit) })
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	list := slices.Concat(lists...)
	slices.SortStableFunc(list, func(a, b core.Change) int { return cmp.Compare(b.ID, a.ID) })
	return list[:min(len(list), limit)], nil
}

func (s *Store) changesOf(ctx context.Context, kind string, last int64, limit int) ([]core.Change, error) {
	page, err := s.Records.List(ctx, kind, ChangesUpTo(last), "", limit)
	list := make([]core.Change, len(page))
	for i := 0; i < len(page) && err == nil; i++ {
		list[i], err = DecodeChange(&page[i])
	}
	return list, err
}
