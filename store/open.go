package store

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// Store is one open store. Use cases take it, and tests replace its interfaces in a copy.
type Store struct {
	Records Records
	Jobs    Jobs
	Runs    Runs
	Queue   Queue
	Pull    Pull           // queues that executors pull from; nil if they use SQS
	Box     *secretbox.Box // encrypts the secrets of records; nil stores them as they are
	Now     func() time.Time
	// Keep returns how long the run records of each job stay; 0 is forever.
	Keep func(ctx context.Context, jobs ...core.JobID) []time.Duration
	// KeepJournals is how long journals and revisits stay; 0: a sweep of the engine removes them.
	KeepJournals time.Duration
	// Deployment must own the data, or Global returns an error. Empty: any deployment may.
	Deployment string
	// ByJournal reports that runs have no index by time: lists and reports find only the runs that journals name.
	ByJournal bool
	// Shared reports that several processes dispatch. They share their counts of the addresses that they chose.
	Shared bool
	// Writes grows with each commit, so that a page can skip reading data that did not change. It is nil if no process learns
	// of every commit.
	Writes func() uint64
	// Newest returns the key of this hour's newest journal, zero if there is none. For an engine without Writes it is the
	// cheapest sign that something was sent.
	Newest func(ctx context.Context) (core.JournalKey, error)
	// Failed lists the jobs that may be failing; nil if reading the last runs of every job is fast.
	Failed *FailedJobs
	Defs   Definitions
	// Sweep removes expired records, at most limit, and returns how many it removed. These expire:
	//   - runs that ended longer ago than their job's keep (or than runs, if that is not zero), with their kept logs
	//   - tombstones older than journals, and journals older than that or, in SQLite, than a day
	//   - records whose Expires has passed, such as skipped times, change records, and keys a day after their run ended
	//   - all dead-letter messages beyond the newest KeepDead
	//   - revisits of minutes that the watchdog's cursor has passed
	//
	// A store that expires records by itself follows the same rules, later. It has no KeepDead.
	//
	// Records that may still be needed stay, whatever their age:
	//   - a run that is open or has a pending follow-up, and its earlier attempts: the first attempt names a permit,
	//     which would otherwise count as free
	//   - the attempts of a job's latest run: without them its chain never ends, or seems never to have begun
	//   - planned runs from the job's next time on: a planner pass that enqueued them and died before the advance repeats
	//   - a shard, and its other attempts, while its broadcast is open or has a pending follow-up
	//   - a closed run whose due time has a message on the delay queue, visible or not: the message may name the run, and a
	//     dispatch that finds no run sends it
	//   - a journal until the watchdog's cursor has passed it for the last time: the watchdog reads a journal again while it has
	//     an open run, a pending follow-up, such a shard or a left run
	//   - a tombstone while its job has an open run, a pending follow-up, a waiting entry or a message: a run with neither
	//     job nor tombstone goes to the dead-letter queue
	//   - a key while its run is stored
	Sweep func(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error)
	// Close stops the engine and releases its files.
	Close func() error
}

// KeepDead is the maximum number of dead-letter messages to keep.
const KeepDead = 5000

// Write writes one record and the audit log's entries about it.
func (s *Store) Write(ctx context.Context, w Write, changes ...core.Change) error {
	return s.Records.Write(ctx, Group{Writes: []Write{w}, Changes: changes})[0]
}

// Read reads one record; its version is 0 if it does not exist.
func (s *Store) Read(ctx context.Context, k Key) (Record, error) {
	found, err := s.Records.Get(ctx, k)
	r := found[k]
	return r, cmp.Or(err, r.Err)
}

// WriteAny writes or deletes records without a condition.
func (s *Store) WriteAny(ctx context.Context, records []Record, drop bool) error {
	groups := each(records, func(r *Record) Group { return Group{Writes: []Write{{Record: *r, Was: Any, Delete: drop}}} })
	return errors.Join(s.Records.Write(ctx, groups...)...)
}

// maxAtOnce is how many requests one call makes at the same time.
const maxAtOnce = 16

// Sleep waits for d, and returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// AtOnce calls do for 0 to n-1, at most maxAtOnce at the same time, and waits for all.
func AtOnce(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, maxAtOnce)
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			do(i)
		})
	}
	all.Wait()
}
