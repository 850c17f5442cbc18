package store

import (
	"context"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// kindLook lists the times at which notifications must be checked. Such a record is only its name.
const kindLook = "look"

// PutLooks adds checks of notifications to the index. A check that exists is not an error.
func (s *Store) PutLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return s.writeLooks(ctx, looks, false)
}

// DropLooks removes checks from the index. A missing check is not an error.
func (s *Store) DropLooks(ctx context.Context, looks []ring.CheckRequest) error {
	return s.writeLooks(ctx, looks, true)
}

func (s *Store) writeLooks(ctx context.Context, looks []ring.CheckRequest, drop bool) error {
	return s.WriteAny(ctx, each(looks, func(l *ring.CheckRequest) Record {
		return Record{Key: Key{Kind: kindLook, Name: fmt.Sprintf("%010d#%d", l.At, l.Job)}, V: 1}
	}), drop)
}

// DueLooks reads the first limit checks that are due up to a time, sorted by time.
func (s *Store) DueLooks(ctx context.Context, upTo core.Instant, limit int) ([]ring.CheckRequest, error) {
	page, err := s.Records.List(ctx, kindLook, "", fmt.Sprintf("%010d", upTo+1), limit)
	list := make([]ring.CheckRequest, len(page))
	for i := range page {
		if _, bad := fmt.Sscanf(page[i].Name, "%d#%d", &list[i].At, &list[i].Job); bad != nil {
			return nil, fmt.Errorf("read the time of a check from %q: %w", page[i].Name, bad)
		}
	}
	return list, err
}
