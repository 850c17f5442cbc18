// Package iampolicy lists the permissions of each Lambda function on the tables and queues. The package infra creates
// IAM roles from this list. The simulation rejects requests that the list does not allow. The package sends no
// requests.
package iampolicy

import (
	"slices"
	"strings"
)

// Role is a set of permissions: DynamoDB actions on each table and on the index of due jobs, and uses of queues. Batch
// writes of runs are PartiQL statements, which need the PartiQL actions. A transaction needs the action of each of its
// items.
type Role struct {
	Jobs, Due, Runs, State []string
	// Sends has the names of the queues for each use; the use `counts` allows a role to read the number of
	// messages in the queue.
	Sends, Takes, Counts []string
}

// The queues.
const Fires, Slow, Checks, PostRuns, Results, Dead = "fires", "slow", "checks", "postrun", "results", "dead"

// Roles of parts of the code.
var (
	// finish closes runs and does what their ends owe.
	finishing = Role{
		// UpdateItem: a pause after failures, with its record; Query: how the job fared.
		Jobs: []string{"BatchGetItem", "BatchWriteItem", "PartiQLUpdate", "UpdateItem"},
		Runs: []string{"BatchGetItem", "PartiQLInsert", "PartiQLUpdate", "PutItem", "Query", "UpdateItem"},
		// BatchWriteItem: jobs that may be failing; DeleteItem: a run waits no more.
		State: []string{"BatchGetItem", "BatchWriteItem", "DeleteItem", "PutItem", "UpdateItem"},
	}
	planning = Role{
		Jobs:  []string{"BatchGetItem", "BatchWriteItem", "PartiQLUpdate", "UpdateItem"}, // the last: the end of a pause, with its record
		Due:   []string{"Query"},
		Runs:  []string{"BatchGetItem", "Query"},
		State: []string{"BatchGetItem", "BatchWriteItem", "DeleteItem", "PutItem", "Query", "UpdateItem"},
	}
	dispatching = Role{
		Jobs:  []string{"BatchGetItem"},
		Runs:  []string{"BatchGetItem", "PartiQLInsert", "PartiQLUpdate", "PutItem", "Query", "UpdateItem"}, // Query: a job's last success
		State: []string{"BatchGetItem", "BatchWriteItem", "PutItem", "Query"},
	}
	calledBack = Role{Runs: []string{"BatchGetItem"}, State: []string{"BatchGetItem", "Query"}} // the latter: all apps, for their tokens
	// Sends: a request to wake the waiting runs of an app.
	registering = Role{State: []string{"BatchGetItem", "DeleteItem", "PutItem", "Query"}, Sends: []string{Checks}}
	managing    = Role{
		Jobs:  []string{"BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "DeleteItem", "PartiQLUpdate", "PutItem", "Query", "UpdateItem"},
		Due:   []string{"Query"},
		Runs:  []string{"BatchGetItem", "DeleteItem", "PartiQLUpdate", "PutItem", "Query", "UpdateItem"}, // DeleteItem: a clean-up
		State: []string{"BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "DeleteItem", "PutItem", "Query", "UpdateItem"},
	}
	// ring is for code that puts messages on the ring.
	ring = Role{Sends: []string{Fires, Slow, Checks, PostRuns}}
	// counting is for functions that use the age of the ring: they call nothing lost or missing
	// while a message may be on its way.
	counting = Role{Counts: []string{Fires, Slow, Checks}}
	// keeping is for the post-run queue; BatchGetItem: the sign of life, and an outage.
	keeping = Role{
		Jobs:  []string{"BatchGetItem"},
		Runs:  []string{"BatchGetItem", "PartiQLUpdate", "Query"}, // the last: the results of a job, for notifications
		State: []string{"BatchGetItem", "BatchWriteItem", "DeleteItem", "PutItem"},
	}
	// canary creates the job by which a deployment watches itself.
	canary  = Role{Jobs: []string{"PutItem"}, State: []string{"ConditionCheckItem"}}
	sending = dispatching.and(finishing, ring, counting, Role{Sends: []string{Dead}})
)

// The roles of the functions. The function api also answers executors.
var (
	Tick     = planning.and(finishing, ring, counting, canary, Role{Takes: []string{Dead}})
	Dispatch = sending.and(Role{Takes: []string{Fires, Checks}})
	PostRun  = keeping.and(Role{Sends: []string{PostRuns, Dead}, Takes: []string{PostRuns}})
	SlowLane = sending.and(Role{Takes: []string{Slow}})
	Callback = finishing.and(calledBack, ring, Role{Sends: []string{Dead}, Takes: []string{Results}})
	Registry = registering
	// Api has the permissions for `tickring doctor`.
	Api = managing.and(finishing, calledBack, registering, ring, counting, Role{Counts: []string{PostRuns}})
)

// and returns a role with the permissions of all.
func (r Role) and(more ...Role) Role {
	for _, m := range more {
		for _, of := range []struct {
			list *[]string
			more []string
		}{{&r.Jobs, m.Jobs}, {&r.Due, m.Due}, {&r.Runs, m.Runs}, {&r.State, m.State}, {&r.Sends, m.Sends}, {&r.Takes, m.Takes},
			{&r.Counts, m.Counts}} {
			*of.list = slices.Compact(slices.Sorted(slices.Values(slices.Concat(*of.list, of.more))))
		}
	}
	return r
}

// The SQS actions for each use of a queue.
var (
	SendActions  = []string{"SendMessage"}
	TakeActions  = []string{"ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes"}
	CountActions = []string{"GetQueueAttributes"}
)

// Allows reports whether the role allows an action of DynamoDB or SQS, such as PutItem. The action is on a table
// (jobs, runs, state), on the index jobs/due, or on a queue.
func (r Role) Allows(action, on string) bool {
	switch on {
	case "jobs":
		return slices.Contains(r.Jobs, action)
	case "jobs/due":
		return slices.Contains(r.Due, action)
	case "runs":
		return slices.Contains(r.Runs, action)
	case "state":
		return slices.Contains(r.State, action)
	}
	action = strings.TrimSuffix(action, "Batch") // a batch needs the permission for one message
	return slices.Contains(r.Sends, on) && slices.Contains(SendActions, action) ||
		slices.Contains(r.Takes, on) && slices.Contains(TakeActions, action) ||
		slices.Contains(r.Counts, on) && slices.Contains(CountActions, action)
}
