package engine

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// storedGlobal is core.Global as it is stored: each time is in milliseconds.
type storedGlobal struct {
	Pause      storedPause `json:"pause,omitzero"`
	Past       storedPast  `json:"past,omitzero"`
	Partitions int         `json:"partitions,omitempty"`
	Readable   int         `json:"readable,omitempty"`
	Busy       int64       `json:"busy,omitempty"`
	Groups     int         `json:"groups,omitempty"`
	UpSince    int64       `json:"upSince,omitempty"`
	DownAt     int64       `json:"downAt,omitempty"`
	Holder     string      `json:"holder,omitempty"`
	Generation int         `json:"generation,omitempty"`
	Opening    bool        `json:"opening,omitempty"`
	Loss       storedLoss  `json:"loss,omitzero"`
	Notify     core.Notify `json:"notify,omitzero"`
}

type storedLoss struct {
	From  core.Instant `json:"from,omitempty"`
	Next  string       `json:"next,omitempty"`
	At    int64        `json:"at,omitempty"`
	Again core.Instant `json:"again,omitempty"`
}

const globalName = "-"

var globals = store.Table[core.Global]{Kind: "global",
	Name:    func(*core.Global) string { return globalName },
	Version: func(g *core.Global) int64 { return g.Rev },
	Encode: func(g *core.Global) ([]byte, error) {
		return json.Marshal(storedGlobal{Pause: encodePause(g.Pause), Past: encodePast(g.Past), Partitions: g.Partitions,
			Readable: g.Readable, Busy: core.Millis(g.Busy), Groups: g.Groups, UpSince: core.Millis(g.UpSince),
			DownAt: core.Millis(g.DownAt), Holder: g.Holder, Generation: g.Generation, Opening: g.Opening, Notify: g.Notify,
			Loss: storedLoss{From: g.Loss.From, Next: g.Loss.Next, At: core.Millis(g.Loss.At), Again: g.Loss.Again}})
	},
	Decode: func(r *store.Record) (core.Global, error) {
		var v storedGlobal
		err := json.Unmarshal(r.Body, &v)
		return core.Global{Pause: v.Pause.decode(), Past: v.Past.decode(), Partitions: v.Partitions, Readable: v.Readable,
			Busy: core.FromMillis(v.Busy), Groups: v.Groups, UpSince: core.FromMillis(v.UpSince), DownAt: core.FromMillis(v.DownAt),
			Holder: v.Holder, Generation: v.Generation, Opening: v.Opening, Notify: v.Notify, Rev: r.V,
			Loss: core.Loss{From: v.Loss.From, Next: v.Loss.Next, At: core.FromMillis(v.Loss.At), Again: v.Loss.Again}}, err
	}}

// Global returns a zero core.Global before the first PutGlobal.
func (n *Nouns) Global(ctx context.Context) (core.Global, error) {
	values, err := globals.Get(ctx, n.Records, n.Box, globalName)
	v := values[globalName]
	return v.Is, cmp.Or(err, v.Err)
}

// PutGlobal sets Past itself: to the earlier pauses and the one that g ends.
func (n *Nouns) PutGlobal(ctx context.Context, seen int64, g core.Global) error {
	old, err := n.Global(ctx) // the condition of the write checks that it is unchanged
	switch {
	case err != nil:
		return err
	case g.Rev <= seen:
		return core.ErrRefused
	}
	g.Past = old.Past.After(old.Pause, encodePause(g.Pause).decode()) // compared in milliseconds
	return put(ctx, n, globals, seen, g)
}
