package store

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
)

// aliveKey identifies the record whose version is the time of the last call of Alive.
var aliveKey = Key{Kind: "alive", Name: "-"}

func (s *Store) Alive(ctx context.Context, now time.Time) error {
	return s.Write(ctx, Write{Record: Record{Key: aliveKey, V: core.Millis(now)}, Was: Any})
}

func (s *Store) LastAlive(ctx context.Context) (time.Time, error) {
	r, err := s.Read(ctx, aliveKey)
	return core.FromMillis(r.V), err
}
