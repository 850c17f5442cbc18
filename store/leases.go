package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tickring/tickring/core"
)

type storedLease struct {
	Owner string    `json:"owner,omitempty"`
	Until time.Time `json:"until,omitzero"`
}

var leases = Table[core.Lease]{Kind: "lease",
	Name:    func(l *core.Lease) string { return l.Name },
	Version: leaseVersion,
	Encode: func(l *core.Lease) ([]byte, error) {
		return json.Marshal(storedLease{l.Owner, core.FromMillis(core.Millis(l.Until))})
	},
	Decode: func(r *Record) (core.Lease, error) {
		var v storedLease
		err := json.Unmarshal(r.Body, &v)
		return core.Lease{Name: r.Name, Owner: v.Owner, Epoch: r.V / 2, Until: v.Until}, err
	}}

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
	return leases.Save(ctx, s, leaseVersion(&seen), l)
}

func (s *Store) DropLease(ctx context.Context, seen core.Lease) error {
	return s.Write(ctx, leases.Delete(seen.Name, leaseVersion(&seen)))
}
