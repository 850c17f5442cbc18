package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

type storedSkip struct {
	Count int64 `json:"count"`
	Rev   int64 `json:"rev,omitempty"`
	Made  int64 `json:"made,omitempty"`
}

// skipsOf returns the table of a job's skips. The version is the last skipped time, so that a write only extends a skip.
func skipsOf(job core.JobID) store.Table[core.Skip] {
	return store.Table[core.Skip]{Kind: "skip#" + job.String(),
		Name:    func(k *core.Skip) string { return fmt.Sprintf("%010d#%s", k.First, k.Reason) },
		Version: func(k *core.Skip) int64 { return int64(k.Last) },
		Encode: func(k *core.Skip) ([]byte, error) {
			return json.Marshal(storedSkip{k.Count, k.Rev, core.Millis(k.Made)})
		},
		Decode: func(r *store.Record) (core.Skip, error) {
			var v storedSkip
			err := json.Unmarshal(r.Body, &v)
			k := core.Skip{Job: job, Last: core.Instant(r.V), Count: v.Count, Rev: v.Rev, Made: core.FromMillis(v.Made)}
			_, reason, _ := strings.Cut(r.Name, "#")
			k.Reason = core.Reason(reason)
			_, bad := fmt.Sscanf(r.Name, "%d#", &k.First)
			return k, errors.Join(err, bad)
		}}
}

func (n *Nouns) PutSkips(ctx context.Context, skips []core.Skip) []error {
	jobs := make([]core.JobID, len(skips))
	for i := range skips {
		jobs[i] = skips[i].Job
	}
	groups := make([]store.Group, len(skips))
	for i, keep := range n.Keep(ctx, jobs...) {
		w, err := skipsOf(jobs[i]).Put(nil, skips[i], store.Lower)
		if err != nil {
			return all(err, len(skips))
		}
		w.Expires = expires(later(n.Now(), skips[i].Made), keep)
		groups[i].Writes = []store.Write{w}
	}
	errs := n.Records.Write(ctx, groups...)
	for i, err := range errs {
		if errors.Is(err, core.ErrRefused) { // a skip of this length or a longer one is stored
			errs[i] = nil
		}
	}
	return errs
}

// expires returns the end of a retention time; zero if it is 0, which means forever.
func expires(from time.Time, keep time.Duration) (at time.Time) {
	if keep > 0 {
		at = from.Add(keep)
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Skips returns the skips of a job that overlap a span of time, in the order of First.
func (n *Nouns) Skips(ctx context.Context, job core.JobID, from, to core.Instant) (list []core.Skip, err error) {
	t := skipsOf(job)
	page, err := n.Records.List(ctx, t.Kind, "", fmt.Sprintf("%010d$", max(to, 0)), math.MaxInt32)
	for i := 0; i < len(page) && err == nil; i++ {
		v := t.Value(&page[i], nil)
		if err = unread(t, &v); v.Is.Last >= from {
			list = append(list, v.Is)
		}
	}
	return list, err
}
