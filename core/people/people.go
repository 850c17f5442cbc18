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
	"github.com/tickring/tickring/store"
)

// People combines the four packages of operations for users: manage, query, operate and bulk. Several People values
// can share one store.
type People struct {
	*manage.Manage
	*query.Queries
	*operate.Operate
	*bulk.Bulk
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
func New(s *store.Store, f *finish.Finish, killer operate.Killer, o Options) *People {
	q := query.New(s, o.Ask)
	m := manage.New(s, f, q, o.Plan, o.Manage)
	op := operate.New(s, f, killer, q, o.Reports, o.Plan)
	return &People{Queries: q, Manage: m, Operate: op, Bulk: bulk.New(q, m, op, s)}
}
