package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// early measures how early before their slots messages come, over a minute: the
// cut of the ring is set by it.
type early struct {
	mu     sync.Mutex
	since  time.Time
	lonely []time.Duration
	herd   []time.Duration
}

const (
	maxEarly = 2000 // samples of a minute
	// What comes later than this after its slot was kept waiting: no cut helps.
	tooLate = -time.Second
)

// measure notes a batch as it was received. Once a minute it answers what was
// measured in the last.
func (d *Dispatcher) measure(msgs []ring.Message, now time.Time) (lonely, herd []time.Duration) {
	if d.o.EarlyEvery <= 0 {
		return nil, nil
	}
	m := &d.early
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since.IsZero() {
		m.since = now
	}
	if now.Sub(m.since).Abs() >= d.o.EarlyEvery {
		lonely, herd = m.lonely, m.herd
		m.since, m.lonely, m.herd = now, nil, nil
	}
	for i := range msgs {
		e := msgs[i].Slot.Time().Sub(now)
		if msgs[i].Slow || msgs[i].Try > 0 || len(msgs[i].Fires) == 0 || msgs[i].Fires[0].Cause != core.CauseSchedule || e < tooLate || e > d.o.HoldAhead {
			continue
		}
		into := &m.herd
		if len(msgs[i].Fires) == 1 {
			into = &m.lonely
		}
		if len(*into) < maxEarly {
			*into = append(*into, e)
		}
	}
	return lonely, herd
}

// tellEarly tells what was measured, and stores it if nobody else did in that
// minute. It comes after a batch, which it must not make late.
func (d *Dispatcher) tellEarly(ctx context.Context, lonely, herd []time.Duration) {
	if len(lonely)+len(herd) == 0 {
		return
	}
	low, median := quantiles(lonely)
	herdLow, herdMedian := quantiles(herd)
	d.o.Log.Info("how early messages came", "lonely", len(lonely), "lonelyLowMs", low.Milliseconds(), "lonelyMedianMs", median.Milliseconds(),
		"herd", len(herd), "herdLowMs", herdLow.Milliseconds(), "herdMedianMs", herdMedian.Milliseconds())
	if len(lonely) == 0 {
		return
	}
	now := d.o.Now()
	g, err := d.store.Global(ctx)
	if err == nil && now.Sub(g.Early.At).Abs() < d.o.EarlyEvery {
		return
	}
	if err == nil {
		err = d.store.NoteEarly(ctx, g.Early.At, d.o.Plan.Cut.Follow(g.Early, core.Early{At: now, Messages: len(lonely), Low: low, Median: median}))
	}
	if answerOf(err) > refused {
		d.o.Log.Warn("how early messages came was not noted", "err", err)
	}
}

// quantiles are the value that a tenth is below, and the median; the list is sorted.
func quantiles(list []time.Duration) (low, median time.Duration) {
	if len(list) == 0 {
		return 0, 0
	}
	slices.Sort(list)
	return list[len(list)/10], list[len(list)/2]
}
