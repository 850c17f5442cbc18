package core

import (
	"slices"
	"time"
)

// BeatExpiry is how long after its last heartbeat a registered executor counts
// as live.
const BeatExpiry = 90 * time.Second

// Live is those of an app's executors that a run may be sent to at now. Fixed
// ones always are, in the order given, before the others. A registered one is
// while its last stored beat is at most expiry ago; after an outage of the
// scheduler itself (g.DownAt to g.UpSince) nobody who was live when it began
// expires before there was an expiry's time to beat again. Addresses are
// distinct, those of registered ones sorted.
func Live(executors []Executor, g Global, now time.Time, expiry time.Duration) []Executor {
	var fixed, live []Executor
	known := make(map[string]bool, len(executors))
	for _, e := range executors {
		if e.Fixed && !known[e.Address] {
			known[e.Address] = true
			fixed = append(fixed, e)
		}
	}
	for _, e := range executors {
		if !e.Fixed && !known[e.Address] && beats(e, g, now, expiry) {
			known[e.Address] = true
			live = append(live, e)
		}
	}
	slices.SortFunc(live, func(a, b Executor) int {
		switch {
		case a.Address < b.Address:
			return -1
		case a.Address > b.Address:
			return 1
		}
		return 0
	})
	return append(fixed, live...)
}

// Silent reports whether an executor that sends heartbeats has stopped: at a
// queue, that nobody polls it any more. Of one that never sent any nothing is
// known.
func (e Executor) Silent(g Global, now time.Time, expiry time.Duration) bool {
	return !e.Beat.IsZero() && !beats(e, g, now, expiry)
}

func beats(e Executor, g Global, now time.Time, expiry time.Duration) bool {
	if !e.Beat.Add(expiry).Before(now) {
		return true
	}
	return !g.UpSince.IsZero() && !e.Beat.Add(expiry).Before(g.DownAt) && !g.UpSince.Add(expiry).Before(now)
}

// Candidates is the executors of the app: its fixed ones if it has any,
// otherwise those of the stored registrations that are live.
func (a *App) Candidates(stored []Executor, g Global, now time.Time, expiry time.Duration) []Executor {
	if len(a.Executors) == 0 {
		return Live(stored, g, now, expiry)
	}
	fixed := make([]Executor, len(a.Executors))
	for i, address := range a.Executors {
		fixed[i] = Executor{App: a.Name, Address: address, Fixed: true}
		for _, e := range stored { // what is known of the dialect, and when it was polled
			if e.Address == address {
				fixed[i].Dialect, fixed[i].Beat, fixed[i].Since = e.Dialect, e.Beat, e.Since
			}
		}
	}
	return Live(fixed, g, now, expiry)
}
