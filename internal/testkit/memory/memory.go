// Package memory opens SQLite in memory for tests.
package memory

import (
	"cmp"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
)

type (
	Options = sqlite.Options
	Store   = sqlite.Store
)

// Open returns an empty store, which is closed at the end of the test. In a testing/synctest bubble, t is the bubble's.
func Open(t testing.TB, o Options) *store.Store {
	t.Helper()
	return New(t, o).Store
}

// New opens an empty store as Open does.
func New(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := sqlite.OpenMemory(o)
	check.OK(t, err)
	t.Cleanup(func() { check.NoError(t, s.Close()) })
	return s
}

// DamageApp makes the stored text of an app unreadable.
func DamageApp(t testing.TB, s store.Records, name string) {
	t.Helper()
	key := store.Key{Kind: store.KindApp, Name: name}
	found, err := s.Get(t.Context(), key)
	check.OK(t, err)
	r := found[key]
	r.Body = []byte("{")
	check.OK(t, s.Write(t.Context(), store.Group{Writes: []store.Write{{Record: r, Was: r.V}}})[0])
}

// Run reads a run; zero: it is not stored.
func Run(t testing.TB, s *store.Store, id core.RunID) (r core.Run) {
	t.Helper()
	found, err := s.Runs.Get(t.Context(), []core.RunID{id})
	g := found[id]
	if err = cmp.Or(err, g.Err); err != nil {
		t.Error(err)
	} else if g.Is != nil {
		r = *g.Is
	}
	return r
}
