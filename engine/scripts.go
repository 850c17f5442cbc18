package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// ScriptKind returns the kind of a job's script records: the list of versions, and each source under its hash.
func ScriptKind(job core.JobID) string { return "script#" + job.String() }

func versionsKey(job core.JobID) store.Key { return store.Key{Kind: ScriptKind(job), Name: "versions"} }

func sourceKey(job core.JobID, hash string) store.Key {
	return store.Key{Kind: ScriptKind(job), Name: hash}
}

func (n *Nouns) Scripts(ctx context.Context, job core.JobID) (rec core.Scripts, err error) {
	r, err := n.read(ctx, versionsKey(job))
	if err == nil && r.V != 0 {
		err = json.Unmarshal(r.Body, &rec)
	}
	if rec.Job, rec.V = job, r.V; err != nil {
		err = fmt.Errorf("read the scripts of job %d: %w", job, err)
	}
	return rec, err
}

func (n *Nouns) PutScripts(ctx context.Context, rec core.Scripts) error {
	body, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("write the scripts of job %d: %w", rec.Job, err)
	}
	return n.write(ctx, store.Write{Record: store.Record{Key: versionsKey(rec.Job), V: rec.V, Body: body}, Was: rec.V - 1,
		Delete: len(rec.Old)+len(rec.Stored) == 0})
}

func (n *Nouns) Source(ctx context.Context, job core.JobID, hash string) (source string, found bool, err error) {
	r, err := n.read(ctx, sourceKey(job, hash))
	return string(r.Body), r.V != 0, err
}

func (n *Nouns) PutSource(ctx context.Context, job core.JobID, source string, at time.Time) error {
	return n.write(ctx, store.Write{Was: store.Any,
		Record: store.Record{Key: sourceKey(job, core.HashScript(source)), V: core.Millis(at), Body: []byte(source)}})
}

func (n *Nouns) DropSource(ctx context.Context, job core.JobID, hash string, before time.Time) error {
	return n.writeLower(ctx, store.Write{Record: store.Record{Key: sourceKey(job, hash), V: core.Millis(before)}, Delete: true})
}
