package report

import (
	"math/bits"
	"slices"
	"time"
)

// parts is the binary logarithm of the buckets for each power of two of milliseconds: 2^3 buckets, each at
// most an eighth wide.
const parts = 3

// A Histogram counts durations in buckets. Buckets are 1 ms wide up to 16 ms. Above that, each power of two of milliseconds
// has eight buckets, so quantiles are exact within 6.25 %. Most is the longest duration, and is exact. The zero value is
// empty. Histograms can be merged.
type Histogram struct {
	Buckets []Bucket // sorted by At; empty buckets are omitted
	Most    time.Duration
}

// A Bucket is the number of durations (N) in the bucket with the number At.
type Bucket struct {
	At int
	N  int64
}

// bucketOf returns the number of the bucket for some milliseconds.
func bucketOf(ms int64) int {
	octave := bits.Len64(uint64(max(ms, 1))) - 1
	if octave <= parts {
		return int(max(ms, 0))
	}
	return (octave-parts)<<parts + int(ms>>(octave-parts)) // the highest bit of the shifted value adds one octave
}

// middle returns the middle of a bucket, in milliseconds.
func middle(bucket int) int64 {
	if bucket < 2<<parts {
		return int64(bucket)
	}
	shift := bucket>>parts - 1
	low := int64(bucket&(1<<parts-1)|1<<parts) << shift
	return low + int64(1)<<shift/2
}

// Add counts the duration d. A negative duration counts as zero.
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

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o Histogram) {
	for _, b := range o.Buckets {
		h.put(b.At, b.N)
	}
	h.Most = max(h.Most, o.Most)
}

// N returns the number of counted durations.
func (h *Histogram) N() (n int64) {
	for _, b := range h.Buckets {
		n += b.N
	}
	return n
}

// Quantile returns the duration that the given share of all durations does not exceed, within the width of a bucket. The
// parameter share is between 0 and 1. The result is 0 if the histogram is empty.
func (h *Histogram) Quantile(share float64) time.Duration {
	rank := int64(share * float64(h.N()))
	for _, b := range h.Buckets {
		if rank -= b.N; rank < 0 {
			return min(time.Duration(middle(b.At))*time.Millisecond, h.Most)
		}
	}
	return h.Most
}
