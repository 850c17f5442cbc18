package memory

import (
	"context"

	"github.com/tickring/tickring/core"
)

// Edges implements manage.Store.
func (s *Store) Edges(ctx context.Context) (n int64, err error) {
	err = s.one(ctx, func() error { n = s.edges + 1; return nil })
	return n, err
}

// link records a job's links in the lists of its parents; the condition is that each parent is
// stored and has room. If one is rejected, nothing is done.
func (s *Store) link(links []core.Link) error {
	lists := make([][]core.Child, len(links))
	for i, l := range links {
		parent, ok := s.jobs[l.Parent], false
		if parent == nil && l.When == "" {
			continue
		}
		if parent == nil {
			return core.ErrRefused
		}
		if lists[i], ok = core.Linked(parent.Def.Children, l); !ok {
			return core.ErrRefused
		}
	}
	for i, l := range links {
		if parent := s.jobs[l.Parent]; parent != nil {
			parent.Def.Children = lists[i]
		}
	}
	return nil
}
