package fakeaws

import (
	"time"
)

// Capacity that an account serves a second of a table on demand. The fake takes all items of one hash key as a partition, the
// strictest assumption for a design, because AWS does not promise which keys share one, or that an idle one may burst. (DynamoDB
// developer guide, "Burst and adaptive capacity", and "On-demand capacity mode": a young table serves 4,000 write and 12,000 read
// units, and twice its last peak within 30 minutes.)
const (
	partitionWrites, partitionReads = 1000, 3000
	youngWrites, youngReads         = 4000, 12000
	ramp                            = 30 * time.Minute
)

// load is the capacity used in one second, or in the busiest of several.
type load struct{ read, write float64 }

func (l load) most(o load) load { return load{max(l.read, o.read), max(l.write, o.write)} }

// room is the capacity of a table, or of an index.
type room struct {
	second int64
	all    load            // in that second
	parts  map[value]*load // the same, by partition
	since  time.Time       // when this ramp began
	peak   load            // of its seconds
	before load            // the peak before it, for which the table is ready
}

// at is the load of a partition in this second.
func (r *room) at(hash value, now time.Time) *load {
	if now.Sub(r.since) >= ramp {
		r.since, r.before, r.peak = now, r.before.most(r.peak), load{}
	}
	if s := now.Unix(); r.second != s || r.parts == nil {
		r.second, r.all, r.parts = s, load{}, map[value]*load{}
	}
	if r.parts[hash] == nil {
		r.parts[hash] = &load{}
	}
	return r.parts[hash]
}

// served reports whether a write, or a read, of a partition is served now. A served one may use more than is left of the second.
func (f *Fault) served(r *room, hash value, write bool) bool {
	part := r.at(hash, time.Now())
	var ok bool
	switch {
	case f.Capacity == 0:
		return true
	case write:
		ok = r.all.write < max(youngWrites*f.Capacity, 2*r.before.write) && part.write < partitionWrites*f.Capacity
	default:
		ok = r.all.read < max(youngReads*f.Capacity, 2*r.before.read) && part.read < partitionReads*f.Capacity
	}
	if !ok && f.Dry != nil {
		f.Dry()
	}
	return ok
}

// takes records used capacity.
func (r *room) takes(hash value, now time.Time, read, write float64) {
	part := r.at(hash, now)
	*part = load{part.read + read, part.write + write}
	r.all = load{r.all.read + read, r.all.write + write}
	r.peak = r.peak.most(r.all)
}
