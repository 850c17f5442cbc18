package store

import (
	"context"

	"github.com/tickring/tickring/core"
)

var leases = Table[core.Lease]{Kind: "lease",
	Name:    func(l *core.Lease) string { return l.Name },
	Version: leaseVersion,
	Fill:    func(l *core.Lease, r *Record) { l.Name, l.Epoch = r.Name, r.V/2 }}

// leaseVersion grows when a lease is taken and when it is released. A renewal keeps it, because Until is no condition.
func leaseVersion(l *core.Lease) int64 {
	switch {
	case *l == core.Lease{}:
		return Absent
	case l.Owner == "":
		return 2*l.Epoch + 1
	}
	return 2 * l.Epoch
}

func (s *Store) Leases(ctx context.Context) ([]core.Lease, error) { return leases.ReadAll(ctx, s) }

func (s *Store) PutLease(ctx context.Context, seen, l core.Lease) error {
	milli(&l.Until)
	return leases.Save(ctx, s, leaseVersion(&seen), l)
}

func (s *Store) DropLease(ctx context.Context, seen core.Lease) error {
	return s.Write(ctx, leases.Delete(seen.Name, leaseVersion(&seen)))
}
