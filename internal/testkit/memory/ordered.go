package memory

import (
	"iter"
	"slices"
)

// chunkMax is how many keys a chunk holds before it is split in two.
const chunkMax = 512

// ordered is a set of keys in order, as a list of short sorted slices: an
// insertion moves at most one slice.
type ordered[K any] struct {
	less   func(a, b K) bool
	chunks [][]K
}

func newOrdered[K any](less func(a, b K) bool) *ordered[K] { return &ordered[K]{less: less} }

// find is where k is, or where it would be put.
func (o *ordered[K]) find(k K) (chunk, at int, found bool) {
	lo, hi := 0, len(o.chunks) // the last chunk that begins at or before k
	for lo < hi {
		mid := (lo + hi) / 2
		if o.less(k, o.chunks[mid][0]) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo == 0 {
		return 0, 0, false
	}
	chunk = lo - 1
	c := o.chunks[chunk]
	lo, hi = 0, len(c)
	for lo < hi {
		mid := (lo + hi) / 2
		if o.less(c[mid], k) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return chunk, lo, lo < len(c) && !o.less(k, c[lo])
}

// insert puts k in; false if it was present.
func (o *ordered[K]) insert(k K) bool {
	ci, at, found := o.find(k)
	if found {
		return false
	}
	if len(o.chunks) == 0 {
		o.chunks = append(o.chunks, append(make([]K, 0, chunkMax), k))
		return true
	}
	c := o.chunks[ci]
	if len(c) == chunkMax {
		if ci == len(o.chunks)-1 && at == len(c) { // keys that only grow leave full chunks behind
			o.chunks = append(o.chunks, append(make([]K, 0, chunkMax), k))
			return true
		}
		right := append(make([]K, 0, chunkMax), c[chunkMax/2:]...)
		clear(c[chunkMax/2:])
		o.chunks[ci] = c[:chunkMax/2]
		o.chunks = slices.Insert(o.chunks, ci+1, right)
		if at > chunkMax/2 {
			ci, at = ci+1, at-chunkMax/2
		}
		c = o.chunks[ci]
	}
	o.chunks[ci] = slices.Insert(c, at, k)
	return true
}

// remove takes k out; false if it was not there.
func (o *ordered[K]) remove(k K) bool {
	ci, at, found := o.find(k)
	if !found {
		return false
	}
	if c := slices.Delete(o.chunks[ci], at, at+1); len(c) > 0 {
		o.chunks[ci] = c
	} else {
		o.chunks = slices.Delete(o.chunks, ci, ci+1)
	}
	return true
}

// up walks the keys from the first that is not less than k.
func (o *ordered[K]) up(k K) iter.Seq[K] {
	return func(yield func(K) bool) {
		ci, at, _ := o.find(k)
		for ; ci < len(o.chunks); ci, at = ci+1, 0 {
			for _, key := range o.chunks[ci][at:] {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// down walks the keys backwards from the last that is not greater than k.
func (o *ordered[K]) down(k K) iter.Seq[K] {
	return func(yield func(K) bool) {
		ci, at, found := o.find(k)
		if !found {
			at--
		}
		for ci < len(o.chunks) {
			for ; at >= 0; at-- {
				if !yield(o.chunks[ci][at]) {
					return
				}
			}
			if ci--; ci < 0 {
				return
			}
			at = len(o.chunks[ci]) - 1
		}
	}
}
