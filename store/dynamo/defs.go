package dynamo

import (
	"sync"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// known is a definition as stored under a revision. A revision's definition never changes, so it is valid while the sched
// item names that revision.
type known struct {
	store.Record     // V is the revision, 0 if the job does not exist; each reader decodes its own copy
	days         int // number of days to keep its runs
}

const (
	knownSize = 200      // of a definition, beside its body, in bytes
	mostKnown = 32 << 20 // that are remembered together
)

// defs caches definitions. It does not decide which one is in force: the sched item does, which is read for each run.
type defs struct {
	mu   sync.Mutex
	is   map[core.JobID]known
	size int
}

func (d *defs) of(job core.JobID) (known, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, is := d.is[job]
	return k, is
}

// unknown returns the jobs whose definitions are not cached.
func (d *defs) unknown(jobs []core.JobID) (list []core.JobID) {
	for _, job := range jobs {
		if _, is := d.of(job); !is {
			list = append(list, job)
		}
	}
	return list
}

func (d *defs) note(job core.JobID, k known) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
	for other := range d.is { // any of them: the next read restores it
		if d.size+len(k.Body)+knownSize <= mostKnown {
			break
		}
		d.drop(other)
	}
	d.is[job] = k
	d.size += len(k.Body) + knownSize
}

func (d *defs) forget(job core.JobID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
}

func (d *defs) drop(job core.JobID) {
	if k, is := d.is[job]; is {
		d.size -= len(k.Body) + knownSize
		delete(d.is, job)
	}
}
