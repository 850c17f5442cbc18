// Package people is all that people and programs ask for, on one store: to change
// what there is, to ask, to act on runs, and on many jobs at once. It makes the four and
// does nothing itself.
package people

import (
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/bulk"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/plan"
)

// People are the four use cases. Any number of them may work on one store.
type People struct {
	*manage.Manage
	*ask.Ask
	*operate.Operate
	*bulk.Bulk
}

// Store is what they read and write.
type Store interface {
	ask.Store
	manage.Store
	operate.Store
}

// Options of People.
type Options struct {
	// Reports may be nil for who cleans nothing.
	Reports operate.Reports
	// Plan is how a tick of this deployment plans: what is due soon is planned
	// at once by the same rules.
	Plan   plan.Options
	Ask    ask.Options
	Manage manage.Options
}

// New makes the use cases on a store; killer may be nil for who kills nothing.
func New(store Store, ring operate.Ring, f *finish.Finish, killer operate.Killer, o Options) *People {
	q := ask.New(store, o.Ask)
	m := manage.New(store, ring, f, q, o.Plan, o.Manage)
	op := operate.New(store, ring, f, killer, q, o.Reports, o.Plan)
	return &People{Ask: q, Manage: m, Operate: op, Bulk: bulk.New(q, m, op, store)}
}
