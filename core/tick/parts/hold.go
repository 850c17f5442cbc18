package parts

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
)

// Leases are the locks of the partitions.
type Leases interface {
	// Leases reads all of them.
	Leases(ctx context.Context) ([]core.Lease, error)
	// PutLease stores l; condition: the stored one has the Owner and Epoch of
	// seen, or with seen zero: there is none.
	PutLease(ctx context.Context, seen, l core.Lease) error
	// DropLease removes one; condition: as seen.
	DropLease(ctx context.Context, seen core.Lease) error
}

// Options of a Hold. The zero value of a field means its default.
type Options struct {
	Now func() time.Time
	ID  string // of its ticker, different from all others
	// LeaseFor is how long a lease holds without renewal, RenewEvery when it is renewed.
	LeaseFor, RenewEvery time.Duration // 45 s, 15 s
	// Round is when the round began in which this ticker looks at partitions; zero:
	// it lives on, and holds what it can get.
	Round time.Time
	// Skip is how many of the partitions that are free in the round are left to others.
	Skip int
}

// Hold is what one ticker holds. It is used by one goroutine.
type Hold struct {
	leases Leases
	o      Options
	mine   map[int]*held
	stored map[string]core.Lease
	n      int
	skip   int
	began  time.Time // of the pass
}

type held struct {
	lease  core.Lease // as last stored
	looked time.Time  // when it was last looked at
	due    bool       // and something was due then
}

func New(leases Leases, o Options) *Hold {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.LeaseFor = cmp.Or(o.LeaseFor, 45*time.Second)
	o.RenewEvery = cmp.Or(o.RenewEvery, o.LeaseFor/3)
	return &Hold{leases: leases, o: o, mine: map[int]*held{}, skip: o.Skip}
}

func name(p int) string { return "partition/" + strconv.Itoa(p) }

// Turn renews what is held and answers in which order the partitions of 0 to n-1
// are to be looked at in this pass; each is to be taken first.
func (h *Hold) Turn(ctx context.Context, n int) ([]int, error) {
	all, err := h.leases.Leases(ctx)
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

func (h *Hold) looks() []look {
	return looks(h.n, h.o.ID, h.mine, h.stored, h.o.LeaseFor, h.o.Round, h.o.Now())
}

// renew keeps a lease that is held, or gives up what is none any more.
func (h *Hold) renew(ctx context.Context, p int) {
	l, ok := h.stored[name(p)]
	if !ok || l.Owner != h.o.ID || l.Epoch != h.mine[p].lease.Epoch {
		delete(h.mine, p) // taken while we were away
		return
	}
	if l.Until.Sub(h.began) > h.o.LeaseFor-h.o.RenewEvery {
		return
	}
	next := l
	next.Until = h.began.Add(h.o.LeaseFor)
	switch err := h.leases.PutLease(ctx, l, next); {
	case err == nil:
		h.mine[p].lease = next
	case errors.Is(err, core.ErrRefused), !h.began.Before(l.Until):
		delete(h.mine, p)
	}
}

// forget removes leases that have run out and are of no partition that is read:
// those that are left when partitions are fewer.
func (h *Hold) forget(ctx context.Context) {
	known := make(map[string]bool, h.n)
	for p := range h.n {
		known[name(p)] = true
	}
	for n, l := range h.stored {
		if !known[n] && !h.began.Before(l.Until) {
			_ = h.leases.DropLease(ctx, l) // the next pass finds it again
		}
	}
}

// Take takes the lease of a partition that Turn named, and notes that it is looked
// at now; false: another was faster.
func (h *Hold) Take(ctx context.Context, p int) (bool, error) {
	now := h.o.Now()
	if m, ok := h.mine[p]; ok {
		m.looked = now
		return true, nil
	}
	seen := h.stored[name(p)]
	next := core.Lease{Name: name(p), Owner: h.o.ID, Epoch: seen.Epoch + 1, Until: now.Add(h.o.LeaseFor)}
	err := h.leases.PutLease(ctx, seen, next)
	if errors.Is(err, core.ErrRefused) && h.stands(ctx, next) {
		err = nil
	}
	switch {
	case errors.Is(err, core.ErrRefused):
		next.Owner = "another" // whoever it is: it is looked at
		h.stored[next.Name] = next
		return false, nil
	case err != nil:
		return false, fmt.Errorf("take the lease of partition %d: %w", p, err)
	}
	h.mine[p], h.stored[next.Name] = &held{lease: next, looked: now}, next
	return true, nil
}

// stands reports whether a lease is stored as this ticker wrote it: a write whose
// answer was lost is repeated by what sends it, and refused then.
func (h *Hold) stands(ctx context.Context, l core.Lease) bool {
	all, err := h.leases.Leases(ctx)
	return err == nil && slices.ContainsFunc(all, func(x core.Lease) bool {
		return x.Name == l.Name && x.Owner == l.Owner &&
			x.Epoch == l.Epoch
	})
}

// Found notes whether something was due when a partition was looked at.
func (h *Hold) Found(p int, due bool) {
	if m, ok := h.mine[p]; ok {
		m.due = due
	}
}

// Rest ends a pass that came to its end before all partitions did: of what is
// held, that which it did not look at is given back for others to take; as unseen
// if something was due there before. It answers how many partitions of the round
// are unseen.
func (h *Hold) Rest(ctx context.Context) (unseen int) {
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
		_ = h.giveBack(ctx, p, until) // else it stays, and is looked at first
	}
	for _, l := range h.looks() {
		if l.unseen {
			unseen++
		}
	}
	return unseen
}

// Alone is for how long the partition that was left alone for longest was, though
// it was free to be taken; those that are new since are as old as that.
func (h *Hold) Alone(since time.Time) (longest time.Duration) {
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

// giveBack frees a partition and notes until when it was looked at.
func (h *Hold) giveBack(ctx context.Context, p int, until time.Time) error {
	if !h.mine[p].due && until.Before(h.o.Round) {
		until = h.o.Round // it was looked at in it, whatever this clock says
	}
	seen := h.mine[p].lease
	next := seen
	next.Owner, next.Until = "", until
	if err := h.leases.PutLease(ctx, seen, next); err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("give partition %d back: %w", p, err)
	}
	h.stored[next.Name] = next
	delete(h.mine, p)
	return nil
}

// Release gives all back, so that others need not wait until the leases run out.
func (h *Hold) Release(ctx context.Context) error {
	var errs []error
	for _, p := range slices.Sorted(maps.Keys(h.mine)) {
		if err := h.giveBack(ctx, p, h.o.Now()); err != nil {
			errs = append(errs, err)
		}
	}
	clear(h.mine)
	return errors.Join(errs...)
}
