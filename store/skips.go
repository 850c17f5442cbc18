package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

// skipsOf returns the table of a job's skips. The version is the last skipped time, so that a write only extends a skip.
func skipsOf(job core.JobID) Table[core.Skip] {
	return Table[core.Skip]{Kind: "skip#" + job.String(),
		Name:    func(k *core.Skip) string { return fmt.Sprintf("%010d#%s", k.First, k.Reason) },
		Version: func(k *core.Skip) int64 { return int64(k.Last) }}
}

func (s *Store) PutSkips(ctx context.Context, skips []core.Skip) []error {
	jobs := make([]core.JobID, len(skips))
	for i := range skips {
		jobs[i] = skips[i].Job
	}
	groups := make([]Group, len(skips))
	for i, keep := range s.Keep(ctx, jobs...) {
		skip := skips[i]
		milli(&skip.Made)
		w, err := skipsOf(jobs[i]).Put(nil, skip, Lower)
		if err != nil {
			return slices.Repeat([]error{err}, len(skips))
		}
		w.Expires = expires(later(s.Now(), skips[i].Made), keep)
		groups[i].Writes = []Write{w}
	}
	errs := s.Records.Write(ctx, groups...)
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
func (s *Store) Skips(ctx context.Context, job core.JobID, from, to core.Instant) (list []core.Skip, err error) {
	t := skipsOf(job)
	page, err := s.Records.List(ctx, t.Kind, "", fmt.Sprintf("%010d$", max(to, 0)), math.MaxInt32)
	for i := 0; i < len(page) && err == nil; i++ {
		v := t.Value(&page[i], nil)
		if err = t.usable(&v); v.Is.Last >= from {
			list = append(list, v.Is)
		}
	}
	return list, err
}
