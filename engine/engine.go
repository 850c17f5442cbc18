// Package engine is where state lives: the ports of all use cases as one
// struct of small interfaces. An engine (sqlite, awsengine, and the testkit's memory) fills it;
// enginetest holds what all of them must do. It decides nothing about fires.
package engine

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/aside"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/notice"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/pull"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
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
	Uses     dispatch.Uses // nil where one process dispatches all: it has nobody to tell
	Pull     pull.Store    // queues that executors pull from; nil where SQS has them
	Dead     operate.DeadLetters
	Aside    aside.Store
	Notices  NoticeStore
	Upkeep   Upkeep
	Report   report.Store
	People   access.Store
	Secrets  Secrets // nil where secrets are not encrypted
	// ByJournal says that runs have no index by time: lists and reports find the runs that journals name, and no others.
	ByJournal bool
	// Writes grows with each commit, so that who shows what is stored need not ask; nil where
	// no process hears of all of them.
	Writes func() uint64
	// Newest returns the key of the newest journal of this hour, zero if there is none: of an
	// engine without Writes it is the cheapest sign that something was sent.
	Newest func(ctx context.Context) (core.JournalKey, error)
	// Failed lists the jobs that may be failing; nil where the last runs of all are soon read.
	Failed ask.FailedJobs
	// Close ends what the engine runs and releases its files.
	Close func() error
}

// Secrets is how stored secrets are encrypted again.
type Secrets interface {
	// Reseal encrypts again with the newest key the records that have a secret with an older one, of the records from a place on (empty:
	// all). It returns how many records it changed and the place to continue at; empty is the end.
	Reseal(ctx context.Context, from string) (changed int, next string, err error)
}

// NoticeStore is what people are told from.
type NoticeStore interface {
	notice.Reads
	notice.Ends
	notice.States
	notice.Looks
	notice.ChannelStore
}

// Ring is the sending side of the queues; it is the Ring port of every use case.
type Ring interface {
	// Enqueue puts messages on the ring durably: fires on one queue, those of the
	// slow lane on another, checks on a third, the aside lane's on a fourth. Answers nil, core.ErrThrottled or unknown for each.
	Enqueue(ctx context.Context, out []ring.Out) []error
	// Bury keeps a message among the dead letters with the reason: what can
	// never be dispatched is not thrown away.
	Bury(ctx context.Context, m ring.Message, reason string) error
}

// Queue is the receiving side, for what drives dispatch on one machine.
type Queue interface {
	// Receive waits until a message of the kind (ring.KindSlow: of the slow lane) is
	// visible or ctx ends, and
	// answers the visible ones in the order of NotBefore, at most limit. A
	// received message is invisible to others for the engine's visibility, and
	// then comes again.
	Receive(ctx context.Context, kind ring.Kind, limit int) ([]Delivery, error)
	// Ack removes deliveries for good.
	Ack(ctx context.Context, done []Delivery) []error
	// Release makes deliveries visible again at a moment, without an ack.
	Release(ctx context.Context, back []Delivery, at time.Time) []error
	// Depth counts messages of a kind: due, waiting for their time, and in flight.
	Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error)
}

// Delivery is one message as received.
type Delivery struct {
	ID       int64
	Receives int // how often it was received, this time included
	Message  ring.Message
}

// KeepDead is how many dead letters are kept.
const KeepDead = 5000

// Asks reports whether a tick may still ask for a run of a chain: next and tail
// are the job's.
func Asks(next core.Instant, tail, run, first core.RunID) bool {
	if tail != 0 && (tail == run || tail == first) {
		return true
	}
	at, planned := run.Planned()
	return planned && next != 0 && at >= next
}

// Upkeep keeps the store small.
type Upkeep interface {
	// Sweep removes what is past its keeping, at most limit things, and tells
	// how many it removed: runs that ended longer ago than their job's keep (or
	// than runs, if that is not zero), skipped records and change records of the
	// same age; journals, tombstones, dead letters and registered executors not
	// heard of for longer than journals, and dead letters beyond the newest
	// KeepDead; keys a day after their run ended; revisits of minutes that the
	// watchdog's cursor has passed. A kept log goes with its run. A store that removes by itself does so by the
	// same rules, later.
	//
	// A journal goes before that as soon as nobody can ask it anything: none of
	// its runs is open or owes, for whoever finds a run closed reads no journal;
	// and what it lists as left was judged by the watchdog, for another holder of
	// a copy may claim such a run later.
	//
	// What somebody may still ask for stays, however old it is:
	//   - a run that is open or owes something, and the earlier attempts of one: a permit
	//     is named by the first, and would be taken for free;
	//   - the attempts of a job's tail, for without them its chain is never over,
	//     or seems never to have begun, and planned runs from the job's next on,
	//     for a tick that enqueued them and died before the advance does it again;
	//   - a shard, and its other attempts, while its broadcast is open or owes something;
	//   - a closed run whose slot is that of a message of fires on the ring, visible
	//     or not: the message may name it, and a dispatch that finds no run sends;
	//   - a journal with a run that is open or owes, or with such a shard, or with
	//     one that was left, while the watchdog's cursor has not passed it, or is
	//     to read it again;
	//   - a tombstone while a run of its job is open or owes, or an entry waits, or
	//     a message with a fire of the job: a fire of neither job nor tombstone is
	//     buried;
	//   - a key whose run is open, or ended within a day.
	Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error)
	// Alive notes that the scheduler is alive at now, and answers the moment noted before.
	Alive(ctx context.Context, now time.Time) (before time.Time, err error)
	// LastAlive is the moment noted last; zero none.
	LastAlive(ctx context.Context) (time.Time, error)
}
