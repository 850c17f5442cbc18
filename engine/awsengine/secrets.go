package awsengine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/secretbox"
)

// resealAtOnce is how many records one call reads.
const resealAtOnce = 100

// Reseal implements engine.Secrets for the definitions of jobs. A place is a job in the list of jobs. Reseal skips a job that
// changes at the same time: its writer encrypts it with the newest key.
func (s *Store) Reseal(ctx context.Context, from string) (changed int, next string, err error) {
	listed, err := s.List(ctx, "jobs", from, "", resealAtOnce)
	if err != nil {
		return 0, "", err
	}
	if len(listed) == resealAtOnce {
		next = listed[len(listed)-1].Name
	}
	keys := make([]item, len(listed))
	for i := range listed {
		id, err := jobOf(listed[i].Name)
		if err != nil {
			return 0, "", err
		}
		keys[i] = defKey(id)
	}
	var items []item
	if err := s.getAll(ctx, s.o.Names.Jobs, keys, func(it item) error {
		items = append(items, it)
		return nil
	}); err != nil {
		return 0, "", err
	}
	changes, errs := make([]bool, len(items)), make([]error, len(items))
	s.parallel(len(items), func(i int) { changes[i], errs[i] = s.resealDef(ctx, items[i]) })
	for _, is := range changes {
		if is {
			changed++
		}
	}
	return changed, next, errors.Join(errs...)
}

// Blank reports whether there is no app, and so no job, and no channel: then no secret is stored.
func (s *Store) Blank(ctx context.Context) (bool, error) {
	for _, kind := range []string{engine.KindApp, "channel"} {
		if found, err := s.List(ctx, kind, "", "", 1); err != nil || len(found) > 0 {
			return false, err
		}
	}
	return true, nil
}

// resealDef writes a definition with its secrets encrypted by the newest key, if it has not changed since it was read.
func (s *Store) resealDef(ctx context.Context, it item) (bool, error) {
	d, err := decodeDef(stringOf(it, "def"))
	if err != nil { // damaged: other commands report it
		return false, nil
	}
	d, differs, err := secretbox.Reseal(s.o.Secrets, d)
	if err != nil || !differs {
		return false, err
	}
	e := equal("def", it["def"])
	e.set("def", text(jsonText(&d)))
	if _, err = s.db.UpdateItem(ctx, e.alone(s.o.Names.Jobs, item{"id": it["id"], "part": it["part"]})); err != nil {
		if err = answer("table "+s.o.Names.Jobs, err); errors.Is(err, core.ErrRefused) {
			return false, nil
		}
		return false, fmt.Errorf("write a job with its secrets: %w", err)
	}
	return true, nil
}
