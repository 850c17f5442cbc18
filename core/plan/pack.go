package plan

import (
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// Pack packs runs into messages, sorted by due time. All runs of a message have one due time. The parameter limit is the
// maximum number of runs in a message. If it is not between 1 and ring.MaxFires, ring.MaxFires applies. Runs with one due time
// keep their order. The parameter fires is not changed.
//
// The function lead returns the lead time for a number of runs with one due time. The messages of these runs become visible
// that long before the due time. A nil lead means no lead time.
func Pack(fires []core.Fire, limit int, lead func(slot core.Instant, fires int) time.Duration) []ring.Out {
	if len(fires) == 0 {
		return nil
	}
	if limit <= 0 || limit > ring.MaxFires {
		limit = ring.MaxFires
	}
	sorted := bySlot(fires)
	out := make([]ring.Out, 0, len(sorted)/limit+64)
	var slot core.Instant
	var visibleBefore time.Duration
	for len(sorted) > 0 {
		if len(out) == 0 || sorted[0].Slot != slot {
			slot = sorted[0].Slot
			if lead != nil {
				all := 1
				for all < len(sorted) && sorted[all].Slot == slot {
					all++
				}
				visibleBefore = lead(slot, all)
			}
		}
		n := 1
		for n < len(sorted) && n < limit && sorted[n].Slot == slot {
			n++
		}
		out = append(out, ring.Out{
			NotBefore: slot.Time().Add(-visibleBefore),
			Message:   ring.Message{Kind: ring.KindFires, Slot: slot, Fires: sorted[:n:n]},
		})
		sorted = sorted[n:]
	}
	return out
}

// bySlot returns a copy of runs, stably sorted by slot.
func bySlot(fires []core.Fire) []core.Fire {
	first, last, inOrder := fires[0].Slot, fires[0].Slot, true
	for i := 1; i < len(fires); i++ {
		first, last = min(first, fires[i].Slot), max(last, fires[i].Slot)
		inOrder = inOrder && fires[i-1].Slot <= fires[i].Slot
	}
	if inOrder {
		return slices.Clone(fires)
	}
	sorted := make([]core.Fire, len(fires))
	// The slots of a pass are minutes apart, so counting sort is fastest; late runs can make the span long.
	if span := int(last-first) + 1; span <= 4*len(fires)+1024 {
		start := make([]int32, span+1)
		for i := range fires {
			start[fires[i].Slot-first+1]++
		}
		for i := range span {
			start[i+1] += start[i]
		}
		for i := range fires {
			k := fires[i].Slot - first
			sorted[start[k]] = fires[i]
			start[k]++
		}
		return sorted
	}
	copy(sorted, fires)
	slices.SortStableFunc(sorted, func(a, b core.Fire) int { return int(a.Slot - b.Slot) })
	return sorted
}
