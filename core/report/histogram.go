package report

import (
	"math/bits"
	"slices"
	"time"
)

// parts is into how many buckets each span from a power of two of milliseconds to the
// next is cut, as a power of two: 8, so that a bucket is at most an eighth wide.
const parts = 3

// Histogram counts durations in buckets that grow with them: up to 16 ms each its own,
// beyond that each an eighth as wide as the power of two below it. So a quantile is told
// within 6.25 %; the longest exactly. Two are added by their buckets. The zero value is
// empty.
type Histogram struct {
	Buckets []Bucket // by At, none empty
	Most    time.Duration
}

// Bucket is how many durations lie in one; At is its number.
type Bucket struct {
	At int
	N  int64
}

// bucketOf is the number of the bucket of so many milliseconds.
func bucketOf(ms int64) int {
	octave := bits.Len64(uint64(max(ms, 1))) - 1
	if octave <= parts {
		return int(max(ms, 0))
	}
	return (octave-parts)<<parts + int(ms>>(octave-parts)) // the highest bit of what is left adds one octave
}

// middle is the middle of a bucket, in milliseconds.
func middle(bucket int) int64 {
	if bucket < 2<<parts {
		return int64(bucket)
	}
	shift := bucket>>parts - 1
	low := int64(bucket&(1<<parts-1)|1<<parts) << shift
	return low + int64(1)<<shift/2
}

// Add counts one duration; what is less than none counts as none.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.put(bucketOf(d.Milliseconds()), 1)
	h.Most = max(h.Most, d)
}

func (h *Histogram) put(at int, n int64) {
	i, is := slices.BinarySearchFunc(h.Buckets, at, func(b Bucket, at int) int { return b.At - at })
	if !is {
		h.Buckets = slices.Insert(h.Buckets, i, Bucket{At: at})
	}
	h.Buckets[i].N += n
}

// Merge adds another.
func (h *Histogram) Merge(o Histogram) {
	for _, b := range o.Buckets {
		h.put(b.At, b.N)
	}
	h.Most = max(h.Most, o.Most)
}

// N is how many durations were counted.
func (h *Histogram) N() (n int64) {
	for _, b := range h.Buckets {
		n += b.N
	}
	return n
}

// Quantile is the duration that a share of all (0 to 1) does not exceed, within the width
// of a bucket; 0 of none.
func (h *Histogram) Quantile(share float64) time.Duration {
	rank := int64(share * float64(h.N()))
	for _, b := range h.Buckets {
		if rank -= b.N; rank < 0 {
			return min(time.Duration(middle(b.At))*time.Millisecond, h.Most)
		}
	}
	return h.Most
}
