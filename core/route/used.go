package route

import "slices"

// maxCount is the count after which an address starts again, as in xxl-job.
const maxCount = 1_000_000

// Counts is how often each address of one job was used. Counts is the state of the route "lfu".
type Counts map[string]int64

// Order returns addrs from the least to the most used, and the counts to store. Addresses with equal counts keep their order.
// The caller increments the count of the address that got the run. A new address, or an address with a count over a million,
// gets a random count below the number of addresses. The new counts omit addresses that are not in addrs. c is not changed.
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
