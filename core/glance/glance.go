// Package glance marks store reads that can return data that is some seconds old, because these reads are cheaper.
// For example, all reads for one page of the console are marked. The package also counts the cost of these reads, and
// prevents repeated reads for one page.
package glance

import (
	"context"
	"sync"
	"sync/atomic"
)

// Glance collects the store reads for one page of the console.
type Glance struct {
	halves atomic.Int64
	mu     sync.Mutex
	known  map[string]*answer
}

type answer struct {
	mu sync.Mutex
	is any // nil: not read
}

type key struct{}

// Begin returns a context and the Glance that collects all reads with this context.
func Begin(ctx context.Context) (context.Context, *Glance) {
	g := &Glance{known: map[string]*answer{}}
	return context.WithValue(ctx, key{}, g), g
}

// First returns a context with which reads are eventually consistent, so that a read may return an older state.
// Before the caller acts on the result, the caller must repeat the read with strong consistency. A repeat is not
// needed if the result is a closed run without a further attempt. A repeat is also not needed if a conditional write
// rejects decisions based on an older state, or if an older state does no harm.
func First(ctx context.Context) context.Context {
	ctx, _ = Begin(ctx)
	return ctx
}

// Of returns the Glance that collects the reads of a context. Nil means that the reads are strongly consistent.
func Of(ctx context.Context) *Glance {
	g, _ := ctx.Value(key{}).(*Glance)
	return g
}

// End returns a context without a Glance, so that reads are strongly consistent.
func End(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, nil) }

// Spend adds read units of the store, in multiples of 0.5.
func (g *Glance) Spend(units float64) { g.halves.Add(int64(2 * units)) }

// Units returns the sum of the read units from Spend.
func (g *Glance) Units() float64 { return float64(g.halves.Load()) / 2 }

// Once returns the result of an earlier call with this name for the same page. If no result is stored, Once calls the function
// `read` and stores its result, unless it returns an error. If the context has no Glance, Once only calls read. Callers must not change
// the result, because several callers can get the same result.
func Once[T any](ctx context.Context, name string, read func() (T, error)) (is T, err error) {
	g := Of(ctx)
	if g == nil {
		return read()
	}
	g.mu.Lock()
	a := g.known[name]
	if a == nil {
		a = &answer{}
		g.known[name] = a
	}
	g.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.is == nil {
		is, err = read()
		if err != nil {
			return is, err
		}
		a.is = is
	}
	return a.is.(T), nil
}

// Known returns the stored result of Once for a name; zero if no result is stored, or the read is in progress.
func Known[T any](ctx context.Context, name string) (is T) {
	g := Of(ctx)
	if g == nil {
		return is
	}
	g.mu.Lock()
	a := g.known[name]
	g.mu.Unlock()
	if a != nil && a.mu.TryLock() {
		defer a.mu.Unlock()
		is, _ = a.is.(T)
	}
	return is
}
