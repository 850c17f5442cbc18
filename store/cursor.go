package store

import (
	"context"
)

// CursorKey identifies the record whose version is the minute up to which the watchdog has checked journals. The version
// falls if the clock was set back.
var CursorKey = Key{Kind: "watch", Name: "cursor"}

func (s *Store) Cursor(ctx context.Context) (minute int64, err error) {
	r, err := s.Read(ctx, CursorKey)
	return r.V, err
}

func (s *Store) MoveCursor(ctx context.Context, seen, minute int64) error {
	return s.Write(ctx, Write{Record: Record{Key: CursorKey, V: minute}, Was: seen})
}
