package engine

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// KindHealth is the kind of the records of jobs and addresses that are slow or were until recently. It is listed every few
// seconds, only to choose the queue of a message. So a list can be some seconds old, if this is cheaper.
const KindHealth = "health"

// keepHealth is how long a health stays after its measurement.
const keepHealth = 24 * time.Hour

var healths = store.Table[core.Health]{Kind: KindHealth,
	Name:    func(h *core.Health) string { return h.Of },
	Version: func(h *core.Health) int64 { return core.Millis(h.At) },
	Encode: func(h *core.Health) ([]byte, error) {
		if h.Slow {
			return []byte("slow"), nil
		}
		return []byte{}, nil
	},
	Decode: func(r *store.Record) (core.Health, error) {
		return core.Health{Of: r.Name, Slow: len(r.Body) > 0, At: core.FromMillis(r.V)}, nil
	}}

func (n *Nouns) Healths(ctx context.Context) (list []core.Health, err error) {
	values, err := healths.All(ctx, n.Records, n.Box)
	for _, v := range values {
		if err == nil {
			err = v.Err
		}
		list = append(list, v.Is)
	}
	return list, err
}

func (n *Nouns) PutHealths(ctx context.Context, list []core.Health) []error {
	return putAll(ctx, n, healths, list, func(h *core.Health) (int64, time.Time) { return store.Lower, h.At.Add(keepHealth) })
}
