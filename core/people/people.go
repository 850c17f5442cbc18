// Package people combines all operations for users and programs on one store: changes, queries, actions on runs, and
// bulk operations.
package people

import (
	"github.com/tickring/tickring/core/bulk"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
)

// People combines the four packages of operations for users: manage, query, operate and bulk. Several People values
// can share one store.
type People struct {
	*manage.Manage
	*query.Queries
	*operate.Operate
	*bulk.Bulk
}

// Store is the storage for all operations of People.
type Store interface {
	query.Store
	manage.Store
	operate.Store
}

// Options configures a People.
type Options struct {
	// Reports shows which ended runs the daily reports have counted; nil if the caller does not remove ended runs.
	Reports operate.Reports
	// Plan has the planning options of this deployment's ticker. When a job changes, these options are used to plan
	// runs that are due soon.
	Plan   plan.Options
	Ask    query.Options
	Manage manage.Options
}

// New returns a People on a store. killer can be nil if the caller kills no runs.
func New(store Store, ring operate.Ring, f *finish.Finish, killer operate.Killer, o Options) *People {
	q := query.New(store, o.Ask)
	m := manage.New(store, ring, f, q, o.Plan, o.Manage)
	op := operate.New(store, ring, f, killer, q, o.Reports, o.Plan)
	return &People{Queries: q, Manage: m, Operate: op, Bulk: bulk.New(q, m, op, store)}
}
