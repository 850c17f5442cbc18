package partition

import (
	"cmp"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// A look is one partition as a ticker sees it before a pass.
type look struct {
	partition int
	mine      bool
	since     time.Time // last check; zero: never
	unseen    bool      // no ticker holds it or checked it in this round
}

// turn returns the order in which a ticker checks partitions: the one left alone for longest comes first, so that none
// waits forever. A released lease ends at its release, and the lease of a dead ticker ends later. So a partition that
// kills tickers comes last.
func turn(all []look, skip int) []look {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b look) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.partition, b.partition)) })
	if skip <= 0 {
		return all
	}
	// The partitions before these are for the ticker that woke this one and for others that it woke.
	skip = min(skip, len(all)) // a short remainder belongs to no ticker in particular
	return append(slices.Clone(all[skip:]), all[:skip]...)
}

// looks returns the partitions of 0 to n-1 that a ticker may check: those it holds and free ones. In a round, free ones
// count only if unchecked since the round began. A lease that ends later than leaseFor allows was written before a
// clock was set, and is ignored.
func looks(n int, me string, mine map[int]*held, stored map[string]core.Lease, leaseFor time.Duration, round, now time.Time) []look {
	var list []look
	for p := range n {
		if m, ok := mine[p]; ok {
			list = append(list, look{partition: p, mine: true, since: m.looked})
			continue
		}
		l := stored[name(p)]
		if l.Until.Sub(now) > 2*leaseFor {
			l = core.Lease{}
		}
		if l.Owner != "" && l.Owner != me && now.Before(l.Until) {
			continue
		}
		if unseen := l.Owner == me || l.Until.Before(round); unseen || round.IsZero() {
			list = append(list, look{partition: p, since: l.Until, unseen: unseen})
		}
	}
	return list
}
