// Package memory is the engine that keeps everything in maps, for tests and
// simulations: nothing survives the process. It starts no goroutine, makes no
// system call, and holds its one mutex only while it touches its maps, so that
// it runs in a testing/synctest bubble and as the base of a simulation.
package memory

import (
	"context"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/store"
)

// Options of Open. The zero value is usable.
type Options struct {
	// Visibility is how long a received message is invisible to others; 60 s if 0.
	Visibility time.Duration
	// Now is the clock of the queue and of the dates that the store sets; time.Now if nil.
	// Waits use standard timers.
	Now func() time.Time
}

// Open returns an empty engine.
func Open(o Options) *engine.Engine {
	return New(o).Engine()
}

// Engine returns the store as an engine.
func (s *Store) Engine() *engine.Engine {
	return &engine.Engine{
		Tick: s, Leases: s, Dispatch: s, Finish: s, Watch: s, Registry: s, Manage: s,
		Ring: s, Queue: s, Pull: s, Health: s, Dead: s, PostRun: s, Notices: s, Upkeep: s, Report: s, People: s, Records: s, Close: s.Close,
	}
}

// Store implements the interfaces of package engine. Each call is atomic and copies its arguments and results. Times are
// kept in whole milliseconds, as every engine does, except for the NotBefore of a message, which is exact. A call whose ctx
// has ended does nothing and returns its error.
type Store struct {
	*engine.Nouns
	now        func() time.Time
	visibility time.Duration

	mu       sync.Mutex
	jobs     map[core.JobID]*core.Job
	jobIDs   *ordered[core.JobID]
	names    map[jobName]core.JobID
	due      map[int]*ordered[core.DueItem]
	entries  map[core.JobID]map[core.DueItem]struct{}
	tombs    map[core.JobID]core.Tombstone
	records  map[string]map[string]store.Record // by kind and name
	runs     map[core.RunID]*record
	logs     map[core.RunID]core.KeptLog
	runIDs   *ordered[core.RunID]
	made     *ordered[madeRun]
	journals map[core.JournalKey]core.Journal
	minutes  map[int64]map[core.JournalKey]struct{}
	skips    map[core.JobID][]core.Skip
	changes  []core.Change
	counters map[core.JobID]uint32
	lastJob  core.JobID
	edges    int64
	keys     map[boundKey]boundRun
	revisits map[int64]map[core.JournalKey]struct{}
	alive    time.Time
	queues   map[ring.Kind]*queue
	lastMsg  int64
	dead     []DeadLetter

	pulled     []*pulled
	lastPulled int64
}

type (
	jobName struct{ app, name string }
	record  struct {
		run  core.Run
		made int64
	}
	madeRun struct {
		ms  int64
		run core.RunID
	}
	boundKey struct {
		job core.JobID
		key string
	}
	boundRun struct {
		run core.RunID
		at  time.Time
	}
)

// New returns an empty store.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Visibility <= 0 {
		o.Visibility = time.Minute
	}
	s := &Store{
		now: o.Now, visibility: o.Visibility,
		jobs:     map[core.JobID]*core.Job{},
		jobIDs:   newOrdered(func(a, b core.JobID) bool { return a < b }),
		names:    map[jobName]core.JobID{},
		due:      map[int]*ordered[core.DueItem]{},
		entries:  map[core.JobID]map[core.DueItem]struct{}{},
		tombs:    map[core.JobID]core.Tombstone{},
		runs:     map[core.RunID]*record{},
		logs:     map[core.RunID]core.KeptLog{},
		runIDs:   newOrdered(func(a, b core.RunID) bool { return a < b }),
		made:     newOrdered(func(a, b madeRun) bool { return a.ms < b.ms || a.ms == b.ms && a.run < b.run }),
		journals: map[core.JournalKey]core.Journal{},
		minutes:  map[int64]map[core.JournalKey]struct{}{},
		skips:    map[core.JobID][]core.Skip{},
		counters: map[core.JobID]uint32{},
		keys:     map[boundKey]boundRun{},
		revisits: map[int64]map[core.JournalKey]struct{}{},
		queues:   map[ring.Kind]*queue{ring.KindFires: newQueue(), ring.KindSlow: newQueue(), ring.KindCheck: newQueue()},
		records:  map[string]map[string]store.Record{},
	}
	s.Nouns = &engine.Nouns{Records: s, Now: s.now}
	return s
}

// Close does nothing; the store stays usable.
func (s *Store) Close() error { return nil }

// each calls do for each item under the mutex.
func each[T any](ctx context.Context, s *Store, items []T, do func(*T) error) []error {
	answers := make([]error, len(items))
	if err := ctx.Err(); err != nil {
		for i := range answers {
			answers[i] = err
		}
		return answers
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range items {
		answers[i] = do(&items[i])
	}
	return answers
}

// one calls do once under the mutex.
func (s *Store) one(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}

// pick returns copies of the requested items that exist.
func pick[K comparable, V, R any](ctx context.Context, s *Store, asked []K, from map[K]V, copied func(V) R) (map[K]R, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[K]R, len(asked))
	for _, k := range asked {
		if v, ok := from[k]; ok {
			found[k] = copied(v)
		}
	}
	return found, nil
}

func same[T any](v T) T { return v }
