package route

import (
	"slices"

	"github.com/tickring/tickring/core"
)

// Ask is the request to an address before a run is sent to it.
type Ask uint8

const (
	AskNothing Ask = iota
	AskBeat        // /beat: is it reachable
	AskIdle        // /idleBeat: does it run nothing of that job
)

// input is everything that an order may depend on.
type input struct {
	addrs []string // at least one, not to be changed
	job   core.JobID
	seq   int64
	rnd   uint64
}

// table defines every route.
var table = map[core.Route]struct {
	order func(in input) []string
	ask   Ask
	all   bool // every address gets a run of its own
	used  bool // it goes by Counts
}{
	core.RouteFirst:     {order: listed},
	core.RouteLast:      {order: reversed},
	core.RouteRound:     {order: turns},
	core.RouteRandom:    {order: shuffled},
	core.RouteHash:      {order: func(in input) []string { return newHashRing(in.addrs).order(in.job) }},
	core.RouteLFU:       {order: shuffled, used: true}, // the order without counts
	core.RouteLRU:       {order: turns},                // equals LRU because each run has a sequence number: no state to write
	core.RouteFailover:  {order: listed, ask: AskBeat},
	core.RouteBusyover:  {order: listed, ask: AskIdle},
	core.RouteBroadcast: {order: listed, all: true},
}

// Order returns the addresses in the order in which to try them, the route's choice first. The next address is only tried if
// the address before it certainly does not have the run. The slice is new; it is empty if there are no addresses. An unknown
// route keeps the order of the list.
//
// addrs are in the order of the app's settings, or distinct and sorted if executors registered themselves. seq is the
// sequence number of the job's run, which routes "round" and "lru" follow exactly. rnd is a random number for "random" and
// "lfu". With "broadcast" each address gets a run: shard i goes to the ith, see Shard.
//
// Order does not use counts: see Counts for "lfu".
func Order(route core.Route, addrs []string, job core.JobID, seq int64, rnd uint64) []string {
	if len(addrs) == 0 {
		return nil
	}
	in := input{addrs, job, seq, rnd}
	if r, ok := table[route]; ok {
		return r.order(in)
	}
	return listed(in)
}

// Asks returns the request to each address before the run is sent. The first address that accepts gets the run; if none
// accepts, the run fails.
func Asks(route core.Route) Ask { return table[route].ask }

// All reports whether every address gets its own run.
func All(route core.Route) bool { return table[route].all }

// Used reports whether the route depends on how often each address was used; Counts has its order.
func Used(route core.Route) bool { return table[route].used }

// Shard returns the address of shard i of a broadcast: the ith, or the first if the list has shrunk since.
func Shard(addrs []string, i int) string {
	if i < 0 || i >= len(addrs) {
		i = 0
	}
	return addrs[i]
}

func listed(in input) []string { return slices.Clone(in.addrs) }

func reversed(in input) []string {
	addrs := slices.Clone(in.addrs)
	slices.Reverse(addrs)
	return addrs
}

// turns begins at the address whose turn it is.
func turns(in input) []string {
	n := int64(len(in.addrs))
	i := (in.seq%n + n) % n
	return slices.Concat(in.addrs[i:], in.addrs[:i])
}

// shuffled returns a random order. Its first address is uniform to within 1 in 2^48.
func shuffled(in input) []string {
	addrs := slices.Clone(in.addrs)
	for i := range len(addrs) - 1 {
		j := i + int(mix(in.rnd+uint64(i))%uint64(len(addrs)-i))
		addrs[i], addrs[j] = addrs[j], addrs[i]
	}
	return addrs
}

// mix spreads a number over 64 bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
