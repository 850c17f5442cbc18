package tick

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tickring/tickring/core"
)

const (
	partitionLease = "partition/"
	tickerLease    = "ticker/"
)

// hold makes this ticker hold its share of n partitions: live tickers, sorted
// by ID, split them evenly; a dead one's are free once its leases have run out.
// It answers how many nobody holds after that.
func (t *Ticker) hold(ctx context.Context, n int) (free int, err error) {
	now := t.o.Now()
	all, err := t.leases.Leases(ctx)
	if err != nil {
		return 0, fmt.Errorf("read leases: %w", err)
	}
	stored := make(map[string]core.Lease, len(all))
	tickers := []string{t.o.ID}
	for _, l := range all {
		stored[l.Name] = l
		if id, ok := strings.CutPrefix(l.Name, tickerLease); ok && id != t.o.ID && now.Before(l.Until) {
			tickers = append(tickers, id)
		}
	}
	slices.Sort(tickers)
	if err := t.renewSign(ctx, stored); err != nil {
		return 0, err
	}
	at := slices.Index(tickers, t.o.ID)
	share := n / len(tickers)
	if at < n%len(tickers) {
		share++
	}
	if t.o.MaxLeases > 0 {
		share = min(share, t.o.MaxLeases)
	}
	// What is held: renew while it is in the share, give back the rest.
	held := make([]int, 0, len(t.mine))
	for p := range t.mine {
		held = append(held, p)
	}
	slices.Sort(held)
	for _, p := range held {
		l, ok := stored[partitionLease+strconv.Itoa(p)]
		if !ok || l.Owner != t.o.ID || l.Epoch != t.mine[p].Epoch {
			delete(t.mine, p) // taken while we were away
			continue
		}
		if len(t.mine) > share || p >= n {
			if err := t.leases.DropLease(ctx, l); err == nil || errors.Is(err, core.ErrRefused) {
				delete(t.mine, p)
			}
			continue
		}
		if l.Until.Sub(now) > t.o.LeaseFor-t.o.RenewEvery {
			continue
		}
		next := l
		next.Until = now.Add(t.o.LeaseFor)
		switch err := t.leases.PutLease(ctx, l, next); {
		case err == nil:
			t.mine[p] = next
		case errors.Is(err, core.ErrRefused), !now.Before(l.Until):
			delete(t.mine, p)
		}
	}
	for p := range n {
		if _, ok := t.mine[p]; ok {
			continue
		}
		l := stored[partitionLease+strconv.Itoa(p)]
		if l.Name != "" && l.Owner != t.o.ID && now.Before(l.Until) {
			continue
		}
		if len(t.mine) >= share {
			free++
			continue
		}
		next := core.Lease{Name: partitionLease + strconv.Itoa(p), Owner: t.o.ID, Epoch: l.Epoch + 1, Until: now.Add(t.o.LeaseFor)}
		if err := t.leases.PutLease(ctx, l, next); err == nil {
			t.mine[p] = next
		}
		// Any other answer: the next pass reads who holds it.
	}
	return free, nil
}

// renewSign keeps this ticker's sign of life.
func (t *Ticker) renewSign(ctx context.Context, stored map[string]core.Lease) error {
	now := t.o.Now()
	name := tickerLease + t.o.ID
	l := stored[name]
	if l.Name != "" && l.Until.Sub(now) > t.o.LeaseFor-t.o.RenewEvery {
		return nil
	}
	next := core.Lease{Name: name, Owner: t.o.ID, Epoch: l.Epoch + 1, Until: now.Add(t.o.LeaseFor)}
	if err := t.leases.PutLease(ctx, l, next); err != nil && !errors.Is(err, core.ErrRefused) {
		return fmt.Errorf("renew sign of life: %w", err)
	}
	return nil
}

// Release gives all leases back, so that others need not wait for them to run out.
func (t *Ticker) Release(ctx context.Context) error {
	all, err := t.leases.Leases(ctx)
	if err != nil {
		return fmt.Errorf("read leases: %w", err)
	}
	var errs []error
	for _, l := range all {
		if l.Owner == t.o.ID {
			if err := t.leases.DropLease(ctx, l); err != nil && !errors.Is(err, core.ErrRefused) {
				errs = append(errs, err)
			}
		}
	}
	clear(t.mine)
	return errors.Join(errs...)
}
