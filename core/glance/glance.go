// Package glance marks reads that a store may answer with data that is some seconds old, if such data is cheaper. These are
// the reads that fill a page for a user, and reads whose used result no later write changes. The package counts the cost of
// a page, and reads nothing twice for a page.
package glance

import (
	"context"
	"sync"
	"sync/atomic"
)

// Glance collects the reads of one page.
type Glance struct {
	halves atomic.Int64
	mu     sync.Mutex
	known  map[string]*answer
}

type answer struct {
	mu   sync.Mutex
	read bool
	is   any
}

type key struct{}

// Begin returns a context whose reads belong to a page.
func Begin(ctx context.Context) (context.Context, *Glance) {
	g := &Glance{known: map[string]*answer{}}
	return context.WithValue(ctx, key{}, g), g
}

// First returns a context in which reads are eventually consistent: they may return an older state. The caller must read
// strongly afterwards, except in three cases: the run has ended for good; a conditional write rejects decisions based on the
// older state; or a slow caller could act on the older state anyway.
func First(ctx context.Context) context.Context {
	ctx, _ = Begin(ctx)
	return ctx
}

// Of returns the glance that the reads of a context belong to; nil means strong reads.
func Of(ctx context.Context) *Glance {
	g, _ := ctx.Value(key{}).(*Glance)
	return g
}

// End returns a context whose reads belong to no page, and so are strong.
func End(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, nil) }

// Spend adds read units; a store counts halves.
func (g *Glance) Spend(units float64) { g.halves.Add(int64(2 * units)) }

// Units returns the read units spent.
func (g *Glance) Units() float64 { return float64(g.halves.Load()) / 2 }

// Once returns the earlier result of read for a name, or calls read. The result may be shared and must not be changed.
// Errors are not kept.
func (g *Glance) Once(name string, read func() (any, error)) (any, error) {
	g.mu.Lock()
	a := g.known[name]
	if a == nil {
		a = &answer{}
		g.known[name] = a
	}
	g.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read {
		return a.is, nil
	}
	is, err := read()
	a.is, a.read = is, err == nil
	return is, err
}

// Known returns the result of Once for a name; nil if there is none, or a read is in progress.
func (g *Glance) Known(name string) any {
	g.mu.Lock()
	a := g.known[name]
	g.mu.Unlock()
	if a == nil || !a.mu.TryLock() {
		return nil
	}
	defer a.mu.Unlock()
	if !a.read {
		return nil
	}
	return a.is
}
