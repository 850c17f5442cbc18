package report

import (
	"maps"
	"math/bits"
	"slices"
	"time"
)

// A Histogram counts durations in fixed buckets. Buckets are 1 ms wide up to 16 ms. Above that, each power of two of
// milliseconds has eight buckets, so quantiles are exact within 6.25 %. Most is the longest duration, and is exact. The zero
// value is empty. Histograms can be merged.
type Histogram struct {
	Buckets map[int64]int64 `json:",omitempty"` // number of durations by the middle of their bucket, in milliseconds
	Most    time.Duration
}

// middle returns the middle of the bucket of some milliseconds.
func middle(ms int64) int64 {
	width := max(1, int64(1)<<bits.Len64(uint64(ms))>>4)
	return ms/width*width + width/2
}

// Add counts the duration d. A negative duration counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.Merge(Histogram{map[int64]int64{middle(d.Milliseconds()): 1}, d})
}

// Merge adds the counts of o to h.
func (h *Histogram) Merge(o Histogram) {
	if h.Buckets == nil {
		h.Buckets = make(map[int64]int64, len(o.Buckets))
	}
	for ms, n := range o.Buckets {
		h.Buckets[ms] += n
	}
	h.Most = max(h.Most, o.Most)
}

// N returns the number of counted durations.
func (h *Histogram) N() (n int64) {
	for _, of := range h.Buckets {
		n += of
	}
	return n
}

// Quantile returns the duration that the given share of all durations does not exceed, within the width of a bucket. The
// parameter share is between 0 and 1. The result is 0 if the histogram is empty.
func (h *Histogram) Quantile(share float64) time.Duration {
	rank := int64(share * float64(h.N()))
	for _, ms := range slices.Sorted(maps.Keys(h.Buckets)) {
		if rank -= h.Buckets[ms]; rank < 0 {
			return min(time.Duration(ms)*time.Millisecond, h.Most)
		}
	}
	return h.Most
}

// Over returns the number of durations that are longer than d, within the width of a bucket.
func (h *Histogram) Over(d time.Duration) (n int64) {
	for ms, of := range h.Buckets {
		if time.Duration(ms)*time.Millisecond > d {
			n += of
		}
	}
	return n
}
