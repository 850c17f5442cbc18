package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/pullqueue"
)

var _ pullqueue.Store = (*Store)(nil)

// pulled is a run in a queue that executors pull from.
type pulled struct {
	pullqueue.Item
	id       int64
	visible  time.Time
	receives int
}

// PutPulled implements pullqueue.Store.
func (s *Store) PutPulled(ctx context.Context, it pullqueue.Item, most int) error {
	return s.one(ctx, func() error {
		n := 0
		for _, p := range s.pulled {
			if p.Queue != it.Queue {
				continue
			}
			if p.Run == it.Run {
				return nil
			}
			n++
		}
		if n >= most {
			return pullqueue.ErrFull
		}
		s.lastPulled++
		it.Body = slices.Clone(it.Body)
		s.pulled = append(s.pulled, &pulled{Item: it, id: s.lastPulled, visible: milli(s.now())})
		return nil
	})
}

// TakePulled implements pullqueue.Store.
func (s *Store) TakePulled(ctx context.Context, q pullqueue.Queue, now, until time.Time, limit int) (held []pullqueue.Held, next time.Time,
	err error) {
	err = s.one(ctx, func() error {
		var list []*pulled
		for _, p := range s.pulled {
			if p.Queue == q {
				list = append(list, p)
			}
		}
		slices.SortFunc(list, func(a, b *pulled) int { return cmp.Or(a.visible.Compare(b.visible), cmp.Compare(a.id, b.id)) })
		for i, p := range list {
			if p.visible.After(now) || i == limit {
				next = p.visible
				break
			}
			p.visible = milli(until)
			p.receives++
			held = append(held, pullqueue.Held{Receipt: pullqueue.Receipt{Run: p.Run, N: p.receives}, Body: slices.Clone(p.Body)})
		}
		return nil
	})
	return held, next, err
}

func (s *Store) pulledBy(q pullqueue.Queue, r pullqueue.Receipt) (int, error) {
	for i, p := range s.pulled {
		if p.Queue == q && p.Run == r.Run && p.receives == r.N {
			return i, nil
		}
	}
	return 0, core.ErrRefused
}

// HidePulled implements pullqueue.Store.
func (s *Store) HidePulled(ctx context.Context, q pullqueue.Queue, r pullqueue.Receipt, until time.Time, n int) error {
	return s.one(ctx, func() error {
		i, err := s.pulledBy(q, r)
		if err == nil {
			s.pulled[i].visible, s.pulled[i].receives = milli(until), n
		}
		return err
	})
}

// DropPulled implements pullqueue.Store.
func (s *Store) DropPulled(ctx context.Context, q pullqueue.Queue, r pullqueue.Receipt) error {
	return s.one(ctx, func() error {
		i, err := s.pulledBy(q, r)
		if err == nil {
			s.pulled = slices.Delete(s.pulled, i, i+1)
		}
		return err
	})
}

// RemovePulled implements pullqueue.Store.
func (s *Store) RemovePulled(ctx context.Context, ids []int64) error {
	return s.one(ctx, func() error {
		s.pulled = slices.DeleteFunc(s.pulled, func(p *pulled) bool { return slices.Contains(ids, p.id) })
		return nil
	})
}

// HasPulled implements pullqueue.Store.
func (s *Store) HasPulled(ctx context.Context, q pullqueue.Queue, job core.JobID) (has bool, err error) {
	err = s.one(ctx, func() error {
		has = slices.ContainsFunc(s.pulled, func(p *pulled) bool { return p.Queue == q && p.Run.Job() == job })
		return nil
	})
	return has, err
}

// ListPulled implements pullqueue.Store.
func (s *Store) ListPulled(ctx context.Context, after int64, limit int) (list []pullqueue.Listed, err error) {
	err = s.one(ctx, func() error {
		for _, p := range s.pulled { // in the order of IDs
			if p.id > after && len(list) < limit {
				list = append(list, pullqueue.Listed{ID: p.id, Queue: p.Queue, Run: p.Run, N: p.receives})
			}
		}
		return nil
	})
	return list, err
}
