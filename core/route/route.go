package route

import (
	"slices"

	"github.com/tickring/tickring/core"
)

// Ask is the request that is sent to an address before a run is sent to it.
type Ask uint8

const (
	AskNothing Ask = iota
	AskBeat        // /beat, to check that the address is reachable
	AskIdle        // /idleBeat, to check that the executor runs nothing of the job
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

// Order returns the addresses in the order in which to try them. The caller tries the next address only if the previous one
// certainly does not have the run. An unknown route keeps the order of addrs. Without addresses, the result is empty. The
// result is a new slice.
//
// The order of addrs is the order in the app's settings. If executors registered themselves, addrs must be sorted. The
// parameter seq is the sequence number of the job's run, from which the routes "round" and "lru" compute their turn. The
// parameter rnd is a random number for "random" and "lfu". For "broadcast", every address gets a run; see Shard. For "lfu",
// Counts.Order replaces this order.
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

// Asks returns the request to send to each address before the run. The first address that accepts the request gets the run. If
// no address accepts it, the run fails.
func Asks(route core.Route) Ask { return table[route].ask }

// All reports whether the route sends a run to every address.
func All(route core.Route) bool { return table[route].all }

// Used reports whether the route depends on how often each address was used. Counts.Order then defines its order.
func Used(route core.Route) bool { return table[route].used }

// Shard returns the address of shard i of a broadcast; the first shard is 0. If addrs has become shorter and has no entry i,
// Shard returns the first address.
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
