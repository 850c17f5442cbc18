package store

import (
	"cmp"
	"context"

	"github.com/tickring/tickring/core"
)

const globalName = "-"

var globals = Table[core.Global]{Kind: "global",
	Name:    func(*core.Global) string { return globalName },
	Version: func(g *core.Global) int64 { return g.Rev },
	Fill:    func(g *core.Global, r *Record) { g.Rev = r.V }}

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
	milli(&g.Pause.From, &g.Pause.To, &g.Busy, &g.UpSince, &g.DownAt, &g.Loss.At)
	g.Past = old.Past.After(old.Pause, g.Pause)
	return globals.Save(ctx, s, seen, g)
}
