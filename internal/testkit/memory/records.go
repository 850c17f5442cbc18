package memory

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

func copyRecord(r store.Record) store.Record {
	r.Body = bytes.Clone(r.Body)
	return r
}

// Get implements store.Records.
func (s *Store) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	found := make(map[store.Key]store.Record, len(keys))
	err := s.one(ctx, func() error {
		for _, k := range keys {
			if r, is := s.records[k.Kind][k.Name]; is {
				found[k] = copyRecord(r)
			}
		}
		return nil
	})
	return found, err
}

// List implements store.Records.
func (s *Store) List(ctx context.Context, kind, after, before string, limit int) (list []store.Record, err error) {
	err = s.one(ctx, func() error {
		for _, name := range slices.Sorted(maps.Keys(s.records[kind])) {
			if name > after && (before == "" || name < before) && len(list) < limit {
				list = append(list, copyRecord(s.records[kind][name]))
			}
		}
		return nil
	})
	return list, err
}

// Write implements store.Records.
func (s *Store) Write(ctx context.Context, groups ...store.Group) []error {
	return each(ctx, s, groups, func(g *store.Group) error {
		if err := g.Check(); err != nil {
			return err
		}
		for i := range g.Writes {
			if w := &g.Writes[i]; !w.Meets(s.records[w.Kind][w.Name].V) {
				return core.ErrRefused
			}
		}
		for _, w := range g.Writes {
			switch of := s.records[w.Kind]; {
			case w.Delete:
				delete(of, w.Name)
			case of == nil:
				s.records[w.Kind] = map[string]store.Record{w.Name: copyRecord(w.Record)}
			default:
				of[w.Name] = copyRecord(w.Record)
			}
		}
		for _, c := range g.Changes {
			s.change(c)
		}
		return nil
	})
}
