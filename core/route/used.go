package route

import "slices"

// Recent is the addresses of one job, least recently used first: the state of
// LRU where it is kept. Order needs none; see there.
type Recent []string

// Pick chooses the least recently used of addrs and says what to remember. An
// unknown address counts as used just now, those of one call in list order;
// addresses no longer listed are forgotten. Empty if addrs is. r is not changed.
func (r Recent) Pick(addrs []string) (string, Recent) {
	if len(addrs) == 0 {
		return "", nil
	}
	next := make(Recent, 0, len(addrs))
	for _, a := range r {
		if slices.Contains(addrs, a) {
			next = append(next, a)
		}
	}
	for _, a := range addrs {
		if !slices.Contains(next, a) {
			next = append(next, a)
		}
	}
	pick := next[0]
	copy(next, next[1:])
	next[len(next)-1] = pick
	return pick, next
}

// maxCount is where a count begins anew, as in xxl-job.
const maxCount = 1_000_000

// Counts is how often each address of one job was used: the state of LFU.
type Counts map[string]int64

// Pick chooses the least used of addrs (of equals the first listed) and says
// what to remember. An unknown address, and one over a million, begins at a
// random count below the number of addresses, drawn from rnd; addresses no
// longer listed are forgotten. Empty if addrs is. c is not changed.
func (c Counts) Pick(addrs []string, rnd uint64) (string, Counts) {
	order, next := c.Order(addrs, rnd)
	if len(order) == 0 {
		return "", nil
	}
	next[order[0]]++
	return order[0], next
}

// Order is addrs from the least to the most used, as Pick sees them, with the
// counts it saw; the caller adds one to that of the address that got the run.
func (c Counts) Order(addrs []string, rnd uint64) ([]string, Counts) {
	next := make(Counts, len(addrs))
	for i, a := range addrs {
		if n, ok := c[a]; ok && n <= maxCount {
			next[a] = n
		} else if _, ok := next[a]; !ok {
			next[a] = int64(mix(rnd+uint64(i)) % uint64(len(addrs)))
		}
	}
	order := slices.Clone(addrs)
	slices.SortStableFunc(order, func(a, b string) int { return int(next[a] - next[b]) })
	return order, next
}
