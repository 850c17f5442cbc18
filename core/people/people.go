// Package people combines the use cases of users and programs on one store: changes, queries, actions on
// runs, and bulk operations.
package people

import (
	"github.com/tickring/tickring/core/bulk"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
)

// People are the four use cases. Several People can share one store.
type People struct {
	*manage.Manage
	*query.Queries
	*operate.Operate
	*bulk.Bulk
}

// Store is the storage of the use cases.
type Store interface {
	query.Store
	manage.Store
	operate.Store
}

// Options of People.
type Options struct {
	// Reports may be nil if the caller cleans nothing.
	Reports operate.Reports
	// Plan is the planning options of this deployment's tick; changes plan runs that are due soon with
	// them.
	Plan   plan.Options
	Ask    query.Options
	Manage manage.Options
}

// New makes the use cases on a store; killer may be nil if the caller kills nothing.
func New(store Store, ring operate.Ring, f *finish.Finish, killer operate.Killer, o Options) *People {
	q := query.New(store, o.Ask)
	m := manage.New(store, ring, f, q, o.Plan, o.Manage)
	op := operate.New(store, ring, f, killer, q, o.Reports, o.Plan)
	return &People{Queries: q, Manage: m, Operate: op, Bulk: bulk.New(q, m, op, store)}
}
