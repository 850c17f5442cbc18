package engine

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// Rotator replaces the key that encrypts stored secrets, also while others use it.
type Rotator struct {
	Engine *Engine // fenced
	Box    *secretbox.Box
}

// Rotation is a part of a rotation.
type Rotation struct {
	Key     string // ID of the newest key
	Changed int    // records that were encrypted again
	Next    string // place to continue at; empty: the rotation has ended
}

const (
	rotateFor   = 10 * time.Second // one call encrypts again
	rotateLease = "rotate-key"
)

// Rotate adds a key, or continues with the key of an unfinished rotation, and re-encrypts the records from a place on.
// Both keys decrypt during and after the rotation. The first part creates a change record.
func (r Rotator) Rotate(ctx context.Context, actor core.Actor, from string) (res Rotation, err error) {
	if err := actor.Validate(); err != nil {
		return res, err
	}
	if r.Box == nil || r.Engine.Secrets == nil {
		return res, core.Errorf(core.CodeRefused, "this server has no secret key: stored secrets are not encrypted")
	}
	if _, err := r.Engine.Manage.Global(ctx); err != nil { // the fence
		return res, core.Retryable(err)
	}
	began := time.Now()
	if err := r.alone(ctx, began, func(ctx context.Context) (err error) {
		if res.Key, err = r.Box.Begin(ctx, from == ""); err != nil || from != "" {
			return err
		}
		at := began.UTC().Truncate(time.Millisecond)
		return r.Engine.Manage.PutChanges(ctx, []core.Change{actor.Did(
			core.Change{ID: core.Millis(at), At: at, Verb: core.VerbRotated, Why: "key " + res.Key})})
	}); err != nil {
		return res, core.Retryable(err)
	}
	for res.Next = from; ; {
		var changed int
		if changed, res.Next, err = r.Engine.Secrets.Reseal(ctx, res.Next); err != nil {
			return res, core.Retryable(err)
		}
		if res.Changed += changed; res.Next == "" {
			return res, r.alone(ctx, time.Now(), r.Box.End)
		}
		if time.Since(began) > rotateFor {
			return res, nil
		}
	}
}

// alone changes the keys while no other process does: a parameter of SSM has no conditional write.
func (r Rotator) alone(ctx context.Context, now time.Time, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	all, err := r.Engine.Leases.Leases(ctx)
	if err != nil {
		return core.Retryable(err)
	}
	var seen core.Lease
	for _, l := range all {
		if l.Name == rotateLease {
			seen = l
		}
	}
	mine := core.Lease{Name: rotateLease, Owner: rand.Text(), Epoch: max(now.UnixMilli(), seen.Epoch+1),
		Until: now.Add(time.Minute)}
	if seen.Until.After(now) || r.Engine.Leases.PutLease(ctx, seen, mine) != nil {
		return core.Errorf(core.CodeUnavailable, "another process is changing the keys: try again in a minute")
	}
	defer func() {
		_ = r.Engine.Leases.DropLease(context.WithoutCancel(ctx), mine) // otherwise it ends by itself
	}()
	return change(ctx)
}
