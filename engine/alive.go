package engine

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// aliveKey identifies the record whose version is the time of the last call of Alive.
var aliveKey = store.Key{Kind: "alive", Name: "-"}

func (n *Nouns) Alive(ctx context.Context, now time.Time) error {
	return n.write(ctx, store.Write{Record: store.Record{Key: aliveKey, V: core.Millis(now)}, Was: store.Any})
}

func (n *Nouns) LastAlive(ctx context.Context) (time.Time, error) {
	r, err := n.read(ctx, aliveKey)
	return core.FromMillis(r.V), err
}
