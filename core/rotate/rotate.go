// Package rotate replaces the key that encrypts stored secrets, also while other processes use it.
package rotate

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// A Result is the outcome of one call of Key.
type Result struct {
	Key     string // ID of the newest key
	Changed int    // records that were encrypted again
	Next    string // place to continue at; empty: the rotation has ended
}

const (
	rotateFor = 10 * time.Second // one call encrypts again
	leaseName = "rotate-key"
)

// Key adds a key, or continues with the key of an unfinished rotation, and re-encrypts the records from a place on. Both keys
// decrypt during and after the rotation. The first part creates a change record.
func Key(ctx context.Context, s *store.Store, actor core.Actor, from string) (res Result, err error) {
	if err := actor.Validate(); err != nil {
		return res, err
	}
	if s.Box == nil {
		return res, core.Errorf(core.CodeRefused, "this server has no secret key: stored secrets are not encrypted")
	}
	if _, err := s.Global(ctx); err != nil { // the fence
		return res, core.Retryable(err)
	}
	began := time.Now()
	if err := alone(ctx, s, began, func(ctx context.Context) (err error) {
		if res.Key, err = s.Box.Begin(ctx, from == ""); err != nil || from != "" {
			return err
		}
		at := began.UTC().Truncate(time.Millisecond)
		return s.PutChanges(ctx, []core.Change{actor.Did(
			core.Change{ID: core.Millis(at), At: at, Verb: core.VerbRotated, Why: "key " + res.Key})})
	}); err != nil {
		return res, core.Retryable(err)
	}
	for res.Next = from; ; {
		var changed int
		if changed, res.Next, err = s.Reseal(ctx, res.Next); err != nil {
			return res, core.Retryable(err)
		}
		if res.Changed += changed; res.Next == "" {
			return res, alone(ctx, s, time.Now(), s.Box.End)
		}
		if time.Since(began) > rotateFor {
			return res, nil
		}
	}
}

// alone changes the keys while no other process does: a parameter of SSM has no conditional write.
func alone(ctx context.Context, s *store.Store, now time.Time, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	all, err := s.Leases(ctx)
	if err != nil {
		return core.Retryable(err)
	}
	var seen core.Lease
	for _, l := range all {
		if l.Name == leaseName {
			seen = l
		}
	}
	mine := core.Lease{Name: leaseName, Owner: rand.Text(), Epoch: max(now.UnixMilli(), seen.Epoch+1),
		Until: now.Add(time.Minute)}
	if seen.Until.After(now) || s.PutLease(ctx, seen, mine) != nil {
		return core.Errorf(core.CodeUnavailable, "another process is changing the keys: try again in a minute")
	}
	defer func() {
		_ = s.DropLease(context.WithoutCancel(ctx), mine) // otherwise it ends by itself
	}()
	return core.Retryable(change(ctx))
}
