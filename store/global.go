package store

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/tickring/tickring/core"
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

var globals = Table[core.Global]{Kind: "global",
	Name:    func(*core.Global) string { return globalName },
	Version: func(g *core.Global) int64 { return g.Rev },
	Encode: func(g *core.Global) ([]byte, error) {
		return json.Marshal(storedGlobal{Pause: encodePause(g.Pause), Past: encodePast(g.Past), Partitions: g.Partitions,
			Readable: g.Readable, Busy: core.Millis(g.Busy), Groups: g.Groups, UpSince: core.Millis(g.UpSince),
			DownAt: core.Millis(g.DownAt), Holder: g.Holder, Generation: g.Generation, Opening: g.Opening, Notify: g.Notify,
			Loss: storedLoss{From: g.Loss.From, Next: g.Loss.Next, At: core.Millis(g.Loss.At), Again: g.Loss.Again}})
	},
	Decode: func(r *Record) (core.Global, error) {
		var v storedGlobal
		err := json.Unmarshal(r.Body, &v)
		return core.Global{Pause: v.Pause.decode(), Past: v.Past.decode(), Partitions: v.Partitions, Readable: v.Readable,
			Busy: core.FromMillis(v.Busy), Groups: v.Groups, UpSince: core.FromMillis(v.UpSince), DownAt: core.FromMillis(v.DownAt),
			Holder: v.Holder, Generation: v.Generation, Opening: v.Opening, Notify: v.Notify, Rev: r.V,
			Loss: core.Loss{From: v.Loss.From, Next: v.Loss.Next, At: core.FromMillis(v.Loss.At), Again: v.Loss.Again}}, err
	}}

// Global returns the item with the state of the whole deployment, zero before the first PutGlobal. It returns an error if the
// data belongs to another deployment.
func (s *Store) Global(ctx context.Context) (core.Global, error) {
	values, err := globals.Get(ctx, s, globalName)
	v := values[globalName]
	if err = cmp.Or(err, v.Err); err == nil && s.Deployment != "" {
		err = v.Is.Admits(s.Deployment)
	}
	return v.Is, err
}

// Fence returns an error if the data belongs to another deployment. It is for writes that do not read the global item
// anyway: allocating numbers, creating the follow-ups of ended runs, and the checks of notifications. On the queue of an
// inactive deployment a message would wait forever and count as sent. Writes that are correct from any deployment need no
// fence: ends of runs, the permits that they free, heartbeats and kept logs. A process keeps acting on data that it read
// before the fence until its invocation ends.
func (s *Store) Fence(ctx context.Context) error {
	if s.Deployment == "" {
		return nil
	}
	_, err := s.Global(ctx)
	return err
}

// Own returns the global item like Global. Data without an owner becomes the data of this deployment, so that no other
// deployment can use a copy.
func (s *Store) Own(ctx context.Context) (core.Global, error) {
	g, err := s.Global(ctx)
	if err != nil || s.Deployment == "" || g.Holder != "" || g.Opening {
		return g, err
	}
	bound := g
	bound.Holder, bound.Generation, bound.Rev = s.Deployment, max(g.Generation, 1), g.Rev+1
	if err := s.PutGlobal(ctx, g.Rev, bound); err != nil {
		return g, err // another process bound it first: the next pass reads the owner
	}
	return bound, nil
}

// PutGlobal sets Past itself: to the earlier pauses and the one that g ends.
func (s *Store) PutGlobal(ctx context.Context, seen int64, g core.Global) error {
	unfenced := *s
	unfenced.Deployment = ""
	old, err := unfenced.Global(ctx) // the condition of the write checks that it is unchanged
	switch {
	case err != nil:
		return err
	case g.Rev <= seen:
		return core.ErrRefused
	}
	g.Past = old.Past.After(old.Pause, encodePause(g.Pause).decode()) // compared in milliseconds
	return globals.Save(ctx, s, seen, g)
}
