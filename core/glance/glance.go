// Package glance marks the reads that fill a page for a user. A store may answer them some seconds behind
// what was written, if that is cheaper, counts what they cost, and reads nothing twice for a page.
package glance

import (
	"context"
	"sync"
	"sync/atomic"
)

// Glance is the reads of one page.
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

// Begin returns a context whose reads are those of a page.
func Begin(ctx context.Context) (context.Context, *Glance) {
	g := &Glance{known: map[string]*answer{}}
	return context.WithValue(ctx, key{}, g), g
}

// Of returns the glance that the reads of a context belong to; nil if they must be strong.
func Of(ctx context.Context) *Glance {
	g, _ := ctx.Value(key{}).(*Glance)
	return g
}

// End returns a context whose reads belong to no page, and so are strong.
func End(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, nil) }

// Spend adds read units, of which a store counts halves.
func (g *Glance) Spend(units float64) { g.halves.Add(int64(2 * units)) }

// Units returns how many read units were spent.
func (g *Glance) Units() float64 { return float64(g.halves.Load()) / 2 }

// Once returns what read returned for a name before, or calls it. The answer may be shared and is not to be changed.
// An error is not kept.
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

// Known returns what Once read for a name; nil if it did not yet, or is about to.
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
