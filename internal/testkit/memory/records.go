package memory

import (
	"bytes"
	"cmp"
	"context"
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
	return pick(ctx, s, keys, s.records, copyRecord)
}

// List implements store.Records.
func (s *Store) List(ctx context.Context, kind, after, before string, limit int) (list []store.Record, err error) {
	err = s.one(ctx, func() error {
		for k, r := range s.records {
			if k.Kind == kind && k.Name > after && (before == "" || k.Name < before) {
				list = append(list, r)
			}
		}
		slices.SortFunc(list, func(a, b store.Record) int { return cmp.Compare(a.Name, b.Name) })
		list = list[:min(len(list), limit)]
		for i := range list {
			list[i] = copyRecord(list[i])
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
			if w := &g.Writes[i]; !w.Meets(s.records[w.Key].V) {
				return core.ErrRefused
			}
		}
		for _, w := range g.Writes {
			if w.Delete {
				delete(s.records, w.Key)
			} else {
				s.records[w.Key] = copyRecord(w.Record)
			}
		}
		for _, c := range g.Changes {
			s.change(c)
		}
		return nil
	})
}
