package engine

import (
	"context"

	"github.com/tickring/tickring/store"
)

// CursorKey identifies the record whose version is the minute up to which the watchdog has checked journals. The version
// falls if the clock was set back.
var CursorKey = store.Key{Kind: "watch", Name: "cursor"}

func (n *Nouns) Cursor(ctx context.Context) (minute int64, err error) {
	r, err := n.read(ctx, CursorKey)
	return r.V, err
}

func (n *Nouns) MoveCursor(ctx context.Context, seen, minute int64) error {
	return n.write(ctx, store.Write{Record: store.Record{Key: CursorKey, V: minute}, Was: seen})
}
