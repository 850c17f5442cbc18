package dynamo

import (
	"cmp"
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// ListDefinitions implements store.Definitions.
func (s jobs) ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []store.Record, next core.JobID, err error) {
	ids, next, err := s.listed(ctx, "", after, limit)
	if err != nil {
		return nil, 0, err
	}
	found, err := s.records(ctx, keysOf(ids, defKey))
	for _, id := range ids {
		if r, is := found[defKey(id)]; is {
			list, err = append(list, r), cmp.Or(err, r.Err)
		}
	}
	return list, next, err
}

// Blank reports whether there is no app, and so no job, and no channel: then no secret is stored.
func (s *Store) Blank(ctx context.Context) (bool, error) {
	for _, kind := range []string{store.KindApp, "channel"} {
		if found, err := s.List(ctx, kind, "", "", 1); err != nil || len(found) > 0 {
			return false, err
		}
	}
	return true, nil
}
