package dynamo

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// ListDefinitions implements store.Definitions.
func (s jobs) ListDefinitions(ctx context.Context, after core.JobID, limit int) (list []store.Definition, next core.JobID, err error) {
	ids, next, err := s.listed(ctx, "", after, limit)
	if err != nil {
		return nil, 0, err
	}
	return list, next, s.getAll(ctx, s.o.Names.Jobs, keysOf(ids, defKey), func(it item) error {
		id, err := jobOf(stringOf(it, "id"))
		list = append(list, store.Definition{Job: id, Text: stringOf(it, "def")})
		return err
	})
}

// ReplaceDefinitions implements store.Definitions.
func (s jobs) ReplaceDefinitions(ctx context.Context, list []store.Definition) []error {
	errs := make([]error, len(list))
	store.AtOnce(len(list), func(i int) {
		e := equal("def", text(list[i].Text))
		e.set("def", text(list[i].New))
		errs[i] = s.transact(ctx, e.to(updateItem, s.o.Names.Jobs, defKey(list[i].Job)))
	})
	return errs
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
