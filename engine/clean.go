package engine

import (
	"context"
	"errors"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// cleanedKey identifies the record whose version is the scheduled time up to which runs of a job were cleaned up.
func cleanedKey(job core.JobID) store.Key { return store.Key{Kind: "cleaned", Name: job.String()} }

func (n *Nouns) Cleaned(ctx context.Context, job core.JobID) (core.Instant, error) {
	r, err := n.read(ctx, cleanedKey(job))
	return core.Instant(r.V), err
}

func (n *Nouns) PutCleaned(ctx context.Context, job core.JobID, upTo core.Instant) error {
	return n.writeLower(ctx, store.Write{Record: store.Record{Key: cleanedKey(job), V: int64(upTo)}})
}

// writeLower writes or deletes a record unless its version is at least the one of the write.
func (n *Nouns) writeLower(ctx context.Context, w store.Write) error {
	w.Was = store.Lower
	if err := n.write(ctx, w); !errors.Is(err, core.ErrRefused) {
		return err
	}
	return nil
}
