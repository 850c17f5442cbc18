package store

import (
	"context"
	"errors"
	"time"

	"github.com/tickring/tickring/core"
)

// keepExecutors is how long an executor stays after its last heartbeat; one that never sent any stays until it is removed.
const keepExecutors = 20 * 24 * time.Hour

// executorsOf returns the table of an app's executors. The version is the millisecond of the last heartbeat plus 1.
func executorsOf(app string) Table[core.Executor] {
	return Table[core.Executor]{Kind: KindExecutors(app),
		Name:    func(e *core.Executor) string { return e.Address },
		Version: func(e *core.Executor) int64 { return core.Millis(e.Beat) + 1 },
		Fill:    func(e *core.Executor, r *Record) { e.App, e.Address, e.Beat = app, r.Name, core.FromMillis(r.V-1) }}
}

// KindExecutors is the kind of the records of an app's executors.
func KindExecutors(app string) string { return "executors#" + app }

// Executors returns the executors of apps, in the order of addresses.
func (s *Store) Executors(ctx context.Context, names []string) (map[string][]core.Executor, error) {
	lists, errs := make([][]core.Executor, len(names)), make([]error, len(names))
	AtOnce(len(names), func(i int) { lists[i], errs[i] = executorsOf(names[i]).ReadAll(ctx, s) })
	found := make(map[string][]core.Executor, len(names))
	for i, name := range names {
		if len(lists[i]) > 0 {
			found[name] = lists[i]
		}
	}
	return found, errors.Join(errs...)
}

func (s *Store) PutExecutor(ctx context.Context, e core.Executor) error {
	milli(&e.Since)
	w, err := executorsOf(e.App).Put(nil, e, Any)
	if err != nil {
		return err
	}
	if !e.Beat.IsZero() {
		w.Expires = e.Beat.Add(keepExecutors)
	}
	return s.Write(ctx, w)
}

func (s *Store) RemoveExecutor(ctx context.Context, app, address string, seen time.Time) error {
	t := executorsOf(app)
	if seen.IsZero() {
		return s.Write(ctx, t.Delete(address, Any))
	}
	err := s.Write(ctx, t.Delete(address, core.Millis(seen)+1))
	if errors.Is(err, core.ErrRefused) {
		if r, err := s.Read(ctx, Key{Kind: t.Kind, Name: address}); err != nil || r.V == 0 {
			return err
		}
	}
	return err
}
