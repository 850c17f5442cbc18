package dispatch

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/route"
	"github.com/tickring/tickring/store"
)

// uses counts how often each address of a job was chosen, for jobs whose route depends on it. Dispatchers share the
// counts at most once per usesEvery, and the last write wins, so they are approximate. If the store is not shared, the
// counts start at zero with the process.
type uses struct {
	s  *store.Store
	o  *Options
	mu sync.Mutex
	of map[core.JobID]*used
}

type used struct {
	counts route.Counts
	since  time.Time        // when the counts were last at zero; they restart after usesFor
	more   map[string]int64 // counted here since the last write
	read   time.Time        // when the shared counts were last read
	told   time.Time
}

// maxTold limits the jobs written after a batch, maxUses the jobs that are counted. After usesFor the counts of a job restart.
const (
	maxTold = 100
	maxUses = 10_000
	usesFor = 24 * time.Hour
	// usesEvery is the minimum interval between two reads and two writes of the counts of a job.
	usesEvery = 10 * time.Second
)

func newUses(s *store.Store, o *Options) *uses { return &uses{s: s, o: o, of: map[core.JobID]*used{}} }

// job returns the counts of a job. Callers hold mu.
func (u *uses) job(id core.JobID, now time.Time) *used {
	x := u.of[id]
	if x == nil {
		if len(u.of) >= maxUses {
			clear(u.of)
		}
		x = &used{since: now}
		u.of[id] = x
	}
	if age := now.Sub(x.since); age >= usesFor || age < -usesFor {
		*x = used{since: now, read: x.read, told: x.told}
	}
	return x
}

// read reads the shared counts of jobs if the last read is usesEvery ago. The counts only affect the choice, so an
// error waits for the next read.
func (u *uses) read(ctx context.Context, jobs []core.JobID, now time.Time) {
	if !u.s.Shared {
		return
	}
	var ask []core.JobID
	u.mu.Lock()
	for _, id := range jobs {
		if x := u.job(id, now); now.Sub(x.read).Abs() >= usesEvery {
			x.read = now
			ask = append(ask, id)
		}
	}
	u.mu.Unlock()
	if len(ask) == 0 {
		return
	}
	found, err := u.s.Uses(ctx, ask)
	if err != nil {
		u.o.Log.Warn("address usage not read", "err", err)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, of := range found {
		if now.Sub(of.Since).Abs() >= usesFor {
			continue
		}
		x := u.job(id, now)
		x.counts, x.since = maps.Clone(of.Counts), of.Since
		for address, n := range x.more {
			if x.counts == nil {
				x.counts = route.Counts{}
			}
			x.counts[address] += n
		}
	}
}

// order returns addresses, the least used first, and counts the first one as used.
func (u *uses) order(id core.JobID, addresses []string, now time.Time) []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	x := u.job(id, now)
	order, counts := x.counts.Order(addresses, rand.Uint64())
	x.counts = counts
	x.counts[order[0]]++
	if u.s.Shared {
		if x.more == nil {
			x.more = map[string]int64{}
		}
		x.more[order[0]]++
	}
	return order
}

// tell writes each job's counts that changed here, at most once per usesEvery.
func (u *uses) tell(ctx context.Context, now time.Time) {
	if !u.s.Shared {
		return
	}
	var list []core.Uses
	u.mu.Lock()
	for id, x := range u.of {
		if len(x.more) > 0 && now.Sub(x.told).Abs() >= usesEvery && len(list) < maxTold {
			list = append(list, core.Uses{Job: id, Since: x.since, Counts: maps.Clone(x.counts)})
			x.told, x.more = now, nil
		}
	}
	u.mu.Unlock()
	if len(list) == 0 {
		return
	}
	for i, err := range u.s.PutUses(ctx, list) {
		if err != nil {
			u.o.Log.Warn("address usage not stored", "job", list[i].Job, "err", err)
		}
	}
}
