package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// NoteOutage records that executors could not send heartbeats, so that their registrations do not expire. The outage
// lasted from the parameter from to the parameter to. If it began at most expiry after the end of the previous outage,
// NoteOutage extends the previous outage.
func NoteOutage(ctx context.Context, s *store.Store, from, to time.Time, expiry time.Duration) error {
	for range 3 {
		g, err := s.Global(ctx)
		if err != nil {
			return fmt.Errorf("read the global item: %w", err)
		}
		seen := g.Rev
		if g.UpSince.IsZero() || from.After(g.UpSince.Add(expiry)) {
			g.DownAt = from
		}
		g.UpSince, g.Rev = to, max(seen+1, to.UnixMilli())
		err = s.PutGlobal(ctx, seen, g)
		if err == nil {
			return nil
		}
		if !errors.Is(err, core.ErrRefused) {
			return fmt.Errorf("note the outage: %w", err)
		}
	}
	return errors.New("note the outage: others were faster each time")
}
