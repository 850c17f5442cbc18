package partition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Options of Leases. A field with its zero value gets the default in its comment.
type Options struct {
	Now func() time.Time
	ID  string // unique ID of the ticker
	// LeaseFor is the duration of a lease, and RenewEvery the interval of renewals.
	LeaseFor, RenewEvery time.Duration // defaults: 45 s and 15 s
	// Round is when the clock started the ticker's round, in which several tickers share the partitions. Round is zero for a
	// ticker of a server, which takes every partition that is free.
	Round time.Time
	// Skip is the number of free partitions that the ticker leaves to other tickers of the round.
	Skip int
}

// Leases are the leases of one ticker. They are not safe for concurrent use.
type Leases struct {
	s      *store.Store
	o      Options
	mine   map[int]*held
	stored map[string]core.Lease
	n      int
	skip   int
	began  time.Time // of the pass
}

type held struct {
	lease  core.Lease // as last stored
	looked time.Time  // last check
	due    bool       // something was due then
}

func New(s *store.Store, o Options) *Leases {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.LeaseFor = cmp.Or(o.LeaseFor, 45*time.Second)
	o.RenewEvery = cmp.Or(o.RenewEvery, o.LeaseFor/3)
	return &Leases{s: s, o: o, mine: map[int]*held{}, skip: o.Skip}
}

func name(p int) string { return "partition/" + strconv.Itoa(p) }

// Turn renews the leases, and returns the partitions to check in this pass, in order. The parameter n is the number of
// partitions. Call Take before you check a partition.
func (h *Leases) Turn(ctx context.Context, n int) ([]int, error) {
	all, err := h.s.Leases(ctx)
	if err != nil {
		return nil, fmt.Errorf("read leases: %w", err)
	}
	h.n, h.began = n, h.o.Now()
	h.stored = make(map[string]core.Lease, len(all))
	for _, l := range all {
		h.stored[l.Name] = l
	}
	for _, p := range slices.Sorted(maps.Keys(h.mine)) {
		if p < n || h.giveBack(ctx, p, h.began) != nil {
			h.renew(ctx, p)
		}
	}
	h.forget(ctx)
	list := turn(h.looks(), h.skip)
	h.skip = 0
	order := make([]int, len(list))
	for i, l := range list {
		order[i] = l.partition
	}
	return order, nil
}

func (h *Leases) looks() []look {
	return looks(h.n, h.o.ID, h.mine, h.stored, h.o.LeaseFor, h.o.Round, h.o.Now())
}

// renew extends a lease, or drops it if it is lost.
func (h *Leases) renew(ctx context.Context, p int) {
	l, ok := h.stored[name(p)]
	if !ok || l.Owner != h.o.ID || l.Epoch != h.mine[p].lease.Epoch {
		delete(h.mine, p) // taken while this process was stopped
		return
	}
	if l.Until.Sub(h.began) > h.o.LeaseFor-h.o.RenewEvery {
		return
	}
	next := l
	next.Until = h.began.Add(h.o.LeaseFor)
	switch err := h.s.PutLease(ctx, l, next); {
	case err == nil:
		h.mine[p].lease = next
	case errors.Is(err, core.ErrRefused), !h.began.Before(l.Until):
		delete(h.mine, p)
	}
}

// forget removes expired leases of partitions that are not read any more, after their number shrank.
func (h *Leases) forget(ctx context.Context) {
	known := make(map[string]bool, h.n)
	for p := range h.n {
		known[name(p)] = true
	}
	for n, l := range h.stored {
		if !known[n] && !h.began.Before(l.Until) {
			_ = h.s.DropLease(ctx, l) // the next pass finds it again
		}
	}
}

// Take takes the lease of partition p, which Turn returned, and records the current time as its last check. Take returns false
// if another ticker took the lease first.
func (h *Leases) Take(ctx context.Context, p int) (bool, error) {
	now := h.o.Now()
	if m, ok := h.mine[p]; ok {
		m.looked = now
		return true, nil
	}
	seen := h.stored[name(p)]
	next := core.Lease{Name: name(p), Owner: h.o.ID, Epoch: max(now.UnixMilli(), seen.Epoch+1), Until: now.Add(h.o.LeaseFor)}
	err := h.s.PutLease(ctx, seen, next)
	if errors.Is(err, core.ErrRefused) && h.stands(ctx, next) {
		err = nil
	}
	switch {
	case errors.Is(err, core.ErrRefused):
		next.Owner = "another" // any other ticker: the partition is being checked
		h.stored[next.Name] = next
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take the lease of partition %d: %w", p, err)
	}
	h.mine[p], h.stored[next.Name] = &held{lease: next, looked: now}, next
	return true, nil
}

// stands reports whether a lease is stored as this ticker wrote it. If the answer to a write is lost, the client
// repeats the write, and the repetition is refused.
func (h *Leases) stands(ctx context.Context, l core.Lease) bool {
	all, err := h.s.Leases(ctx)
	return err == nil && slices.ContainsFunc(all, func(x core.Lease) bool {
		return x.Name == l.Name && x.Owner == l.Owner &&
			x.Epoch == l.Epoch
	})
}

// Found records whether a check found something due in partition p.
func (h *Leases) Found(p int, due bool) {
	if m, ok := h.mine[p]; ok {
		m.due = due
	}
}

// Rest ends a pass. It releases the leases of partitions that the pass did not check. If something was due there at the last
// check, another ticker can check the partition again in this round. Rest returns the number of partitions that no ticker has
// checked in this round.
func (h *Leases) Rest(ctx context.Context) (unseen int) {
	if h.o.Round.IsZero() {
		return 0
	}
	for _, p := range slices.Sorted(maps.Keys(h.mine)) {
		m := h.mine[p]
		if !m.looked.Before(h.began) {
			continue
		}
		until := m.looked
		if m.due {
			until = h.o.Round.Add(-time.Millisecond)
		}
		_ = h.giveBack(ctx, p, until) // otherwise it stays, and is checked first
	}
	for _, l := range h.looks() {
		if l.unseen {
			unseen++
		}
	}
	return unseen
}

// Alone returns the longest time since the last check of a partition whose lease this ticker does not hold. Time before the
// parameter since does not count.
func (h *Leases) Alone(since time.Time) (longest time.Duration) {
	for _, l := range h.looks() {
		if l.mine {
			continue
		}
		if l.since.Before(since) {
			l.since = since
		}
		if !l.since.IsZero() {
			longest = max(longest, h.o.Now().Sub(l.since))
		}
	}
	return longest
}

// giveBack releases a partition and records the time of its last check.
func (h *Leases) giveBack(ctx context.Context, p int, until time.Time) error {
	if !h.mine[p].due && until.Before(h.o.Round) {
		until = h.o.Round // it was checked in the round, whatever this clock shows
	}
	seen := h.mine[p].lease
	next := seen
	next.Owner, next.Until = "", until
	if err := h.s.PutLease(ctx, seen, next); err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("give partition %d back: %w", p, err)
	}
	h.stored[next.Name] = next
	delete(h.mine, p)
	return nil
}

// Release releases all leases of the ticker, so that other tickers can take them before they expire.
func (h *Leases) Release(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(h.mine)) {
		if err := h.giveBack(ctx, p, h.o.Now()); err != nil {
			errs = append(errs, err)
		}
	}
	clear(h.mine)
	return errors.Join(errs...)
}
