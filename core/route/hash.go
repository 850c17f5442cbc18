package route

import (
	"crypto/md5" //nolint:gosec // xxl-job's choice of an executor
	"encoding/binary"
	"slices"
	"sort"
	"strconv"

	"github.com/tickring/tickring/core"
)

// pointsPerAddress is the number of points of an address on the ring, as in xxl-job.
const pointsPerAddress = 100

// hashRing is the consistent hash of xxl-job over one list of addresses: a job keeps its address while the
// list changes elsewhere. It is immutable. The order of the list only matters for hash collisions.
type hashRing struct {
	points []point // ordered by hash, each hash once
	addrs  int     // number of different addresses
}

type point struct {
	hash uint32
	addr string
}

// newHashRing takes 100 MD5 sums an address.
func newHashRing(addrs []string) *hashRing {
	r := &hashRing{points: make([]point, 0, len(addrs)*pointsPerAddress)}
	seen := make(map[string]bool, len(addrs))
	var key []byte
	for _, a := range addrs {
		if seen[a] {
			continue
		}
		seen[a] = true
		for i := range pointsPerAddress {
			key = append(key[:0], "SHARD-"...)
			key = append(key, a...)
			key = append(key, "-NODE-"...)
			key = strconv.AppendInt(key, int64(i), 10)
			r.points = append(r.points, point{hash(key), a})
		}
	}
	r.addrs = len(seen)
	// If hashes collide, the last listed address has the point, as in Java's map.
	slices.Reverse(r.points)
	slices.SortStableFunc(r.points, func(a, b point) int {
		switch {
		case a.hash < b.hash:
			return -1
		case a.hash > b.hash:
			return 1
		}
		return 0
	})
	r.points = slices.CompactFunc(r.points, func(a, b point) bool { return a.hash == b.hash })
	return r
}

// order returns all addresses in ring order from the job's place on: each is the first of a ring without
// the ones before it.
func (r *hashRing) order(job core.JobID) []string {
	order := make([]string, 0, r.addrs)
	for i, k := 0, r.start(job); i < len(r.points) && len(order) < r.addrs; i++ {
		if a := r.points[(k+i)%len(r.points)].addr; !slices.Contains(order, a) {
			order = append(order, a)
		}
	}
	return order
}

// start returns the index of the first point at or after the job's hash, or else of the lowest.
func (r *hashRing) start(job core.JobID) int {
	h := hash(strconv.AppendInt(nil, int64(job), 10))
	i := sort.Search(len(r.points), func(i int) bool { return r.points[i].hash >= h })
	return i % len(r.points)
}

// hash returns the first four bytes of the MD5 as a little-endian number.
func hash(key []byte) uint32 {
	sum := md5.Sum(key) //nolint:gosec // xxl-job's choice of an executor
	return binary.LittleEndian.Uint32(sum[:])
}
