// Package engine defines the storage interfaces of all use cases, gathered in one struct. An engine (sqlite,
// dynamo) implements them, and enginetest tests each engine. The package decides nothing about runs.
package engine

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/store"
)

// Engine is one open store with its queues.
type Engine struct {
	Tick     tick.Store
	Leases   tick.Leases
	Dispatch dispatch.Store
	Finish   finish.Store
	Watch    finish.Watch
	Registry registry.Store
	Manage   people.Store
	Ring     Ring
	Queue    Queue
	Health   dispatch.Healths
	Uses     dispatch.Uses   // nil if one process dispatches everything: it has no other process to notify
	Pull     pullqueue.Store // queues that executors pull from; nil if they use SQS
	Dead     operate.DeadLetters
	PostRun  postrun.Store
	Notices  NoticeStore
	Upkeep   Maintenance
	Report   report.Store
	People   access.Store
	Secrets  Secrets // nil if secrets are not encrypted
	Records  store.Records
	Jobs     store.Jobs
	Runs     store.Runs
	// ByJournal reports that runs have no index by time: lists and reports find only the runs that journals name.
	ByJournal bool
	// Writes grows with each commit, so that a page can skip reading data that did not change. It is nil if no process learns
	// of every commit.
	Writes func() uint64
	// Newest returns the key of this hour's newest journal, zero if there is none. For an engine without Writes it is the
	// cheapest sign that something was sent.
	Newest func(ctx context.Context) (core.JournalKey, error)
	// Failed lists the jobs that may be failing; nil if reading the last runs of every job is fast.
	Failed query.FailedJobs
	// Close stops the engine and releases its files.
	Close func() error
}

// Secrets re-encrypts stored secrets.
type Secrets interface {
	// Reseal encrypts secrets that use an older key with the newest key. It starts at the record named by from (empty: the
	// first) and returns how many records it changed and the place to continue at; empty is the end.
	Reseal(ctx context.Context, from string) (changed int, next string, err error)
}

// NoticeStore is the storage that notifications are created from.
type NoticeStore interface {
	notification.Reads
	notification.Ends
	notification.States
	notification.Looks
	notification.ChannelStore
}

// Ring is the sending side of the queues of runs, slow runs, checks and post-run work.
type Ring interface {
	// Enqueue stores messages durably. Runs, runs of the slow queue, checks and post-run work each have their own queue. It
	// returns nil, core.ErrThrottled or an unknown result for each message.
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Bury moves a message to the dead-letter queue with the reason, so that a message that can never be dispatched is not
	// lost.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// Queue and Delivery are the queue of the store.
type (
	Queue    = store.Queue
	Delivery = store.Delivery
)

// KeepDead is the maximum number of dead-letter messages to keep.
const KeepDead = 5000

// Asks reports whether a planner pass may still look up a run of a retry chain. The parameters next and tail are the
// job's Next and Tail, run is the run, and first is the first run of its chain.
func Asks(next core.Instant, tail, run, first core.RunID) bool {
	if tail != 0 && (tail == run || tail == first) {
		return true
	}
	at, planned := run.Planned()
	return planned && next != 0 && at >= next
}

// Maintenance removes expired records, and records that the scheduler is alive.
type Maintenance interface {
	// Sweep removes expired records, at most limit, and returns how many it removed. These expire:
	//   - runs that ended longer ago than their job's keep (or than runs, if that is not zero), with their kept logs
	//   - journals and tombstones older than journals
	//   - records whose Expires has passed, such as skipped times, change records, and keys a day after their run ended
	//   - all dead-letter messages beyond the newest KeepDead
	//   - revisits of minutes that the watchdog's cursor has passed
	//
	// A store that expires records by itself follows the same rules, later.
	//
	// A journal goes earlier if no reader needs it: none of its runs is open or has a pending follow-up, and the watchdog has
	// checked the runs that it lists as left. A left run must be checked because another holder of a copy may claim it later.
	//
	// Records that may still be needed stay, whatever their age:
	//   - a run that is open or has a pending follow-up, and its earlier attempts: the first attempt names a permit,
	//     which would otherwise count as free
	//   - the attempts of a job's latest run: without them its chain never ends, or seems never to have begun
	//   - planned runs from the job's next time on: a planner pass that enqueued them and died before the advance repeats
	//   - a shard, and its other attempts, while its broadcast is open or has a pending follow-up
	//   - a closed run whose due time has a message on the delay queue, visible or not: the message may name the run, and a
	//     dispatch that finds no run sends it
	//   - a journal with an open run, a pending follow-up, such a shard or a left run, until the watchdog's cursor has
	//     passed it for the last time
	//   - a tombstone while its job has an open run, a pending follow-up, a waiting entry or a message: a run with neither
	//     job nor tombstone goes to the dead-letter queue
	//   - a key while its run is stored
	Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error)
	// Alive records that the scheduler is alive at the time `now`.
	Alive(ctx context.Context, now time.Time) error
	// LastAlive returns the time that the last call of Alive recorded; zero if Alive was never called.
	LastAlive(ctx context.Context) (time.Time, error)
}
