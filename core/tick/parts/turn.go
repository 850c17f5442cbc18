package parts

import (
	"cmp"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// look is one partition as a ticker sees it before a pass.
type look struct {
	partition int
	mine      bool
	since     time.Time // since when nobody looked at it; zero: nobody ever did
	unseen    bool      // nobody looked at it in this round, and nobody holds it
}

// turn is in which order a ticker looks at the partitions that it may take: the
// one that was left alone for longest comes first, whatever its number, so that
// none waits behind another for ever. A lease that was given back ends when that
// was done; one whose ticker died ends later than those, so that what kills
// tickers comes last.
func turn(all []look, skip int) []look {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b look) int { return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.partition, b.partition)) })
	if skip <= 0 {
		return all
	}
	// Those before are for the ticker that woke this one and for the others that it woke.
	skip = min(skip, len(all)) // what is left of a short list is nobody's in particular
	return append(slices.Clone(all[skip:]), all[:skip]...)
}

// looks are the partitions of 0 to n-1 that a ticker may look at: what it holds,
// and what is free. In a round that is what nobody looked at since the round
// began; without one all that is free. A lease that ends later than any taken now
// could, by leaseFor, was written before a clock was set: it says nothing.
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
