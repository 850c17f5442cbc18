package awsengine

import (
	"sync"

	"github.com/tickring/tickring/core"
)

// known is a definition as it was stored under a revision. Nothing else is ever
// stored under that revision, so it is true for as long as the sched item names it.
type known struct {
	rev  int64  // 0: the job is gone
	text string // as it is stored: who reads it gets one of its own
	days int    // that its runs are kept
}

const (
	knownSize = 200      // of a definition, beside its text, in bytes
	mostKnown = 32 << 20 // that are remembered together
)

// defs remembers definitions. It says nothing of which is in force: the sched item
// does, which is read for each fire.
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

func (d *defs) note(job core.JobID, k known) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
	for other := range d.is { // any of them: the next read brings it back
		if d.size+len(k.text)+knownSize <= mostKnown {
			break
		}
		d.drop(other)
	}
	d.is[job] = k
	d.size += len(k.text) + knownSize
}

func (d *defs) forget(job core.JobID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(job)
}

func (d *defs) drop(job core.JobID) {
	if k, is := d.is[job]; is {
		d.size -= len(k.text) + knownSize
		delete(d.is, job)
	}
}
