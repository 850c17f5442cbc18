package sqlite

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// edit is a change of a job: an advance, or (nil) anything else.
type edit struct {
	job  core.JobID
	move *core.Advance
}

// jobCache caches jobs by ID. A job that a transaction changes is removed before the commit and added in its new form
// after it. A job that a reader read from the file is added only if it did not change since the read began. So the cache
// never returns a job older than the last commit. Reading a job from the file takes 52 µs of processor time, from the cache 0.6 µs.
type jobCache struct {
	most int // jobs, about 1 KB each

	mu      sync.RWMutex
	jobs    map[core.JobID]*core.Job // never changed in place
	clock   uint64
	changed [4096]uint64 // by ID: the clock at the last change of one of them; the maximum during a change
}

func newJobCache() *jobCache { return &jobCache{most: 64_000, jobs: map[core.JobID]*core.Job{}} }

func (c *jobCache) slot(id core.JobID) *uint64 { return &c.changed[uint32(id)%uint32(len(c.changed))] }

// get passes the cached jobs to found and returns the IDs of the others, and the clock for add.
func (c *jobCache) get(ids []core.JobID, found func(core.JobID, *core.Job)) (missing []core.JobID, clock uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, id := range ids {
		if j := c.jobs[id]; j != nil {
			found(id, j)
		} else {
			missing = append(missing, id)
		}
	}
	return missing, c.clock
}

// add caches jobs that were read from the file after a get.
func (c *jobCache) add(jobs []*core.Job, clock uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		if *c.slot(j.Def.ID) > clock {
			continue
		}
		if len(c.jobs) >= c.most {
			for id := range c.jobs { // any
				delete(c.jobs, id)
				break
			}
		}
		c.jobs[j.Def.ID] = j
	}
}

// block removes the jobs of edits until unblock, and returns the cached ones.
func (c *jobCache) block(edits []edit) map[core.JobID]*core.Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := make(map[core.JobID]*core.Job, len(edits))
	for _, e := range edits {
		*c.slot(e.job) = math.MaxUint64
		if j := c.jobs[e.job]; j != nil {
			old[e.job] = j
			delete(c.jobs, e.job)
		}
	}
	return old
}

// unblock adds the removed jobs, changed by the edits, if they were committed; otherwise none.
func (c *jobCache) unblock(edits []edit, old map[core.JobID]*core.Job, committed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	for _, e := range edits {
		*c.slot(e.job) = c.clock
		j := old[e.job]
		if j == nil {
			continue
		}
		if e.move == nil || !committed {
			delete(old, e.job)
			continue
		}
		moved := *j
		moved.Sched = j.Sched.Moved(*e.move)
		moved.Sched.RevAt = milli(moved.Sched.RevAt)
		old[e.job] = &moved
	}
	maps.Copy(c.jobs, old)
}

func milli(t time.Time) time.Time { return core.FromMillis(core.Millis(t)) }
