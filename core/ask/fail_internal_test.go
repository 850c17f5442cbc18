package ask

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/glance"
)

// listing is a store of the runs of jobs, the newest first, and of a list of those that may be failing.
type listing struct {
	Store
	runs   map[core.JobID][]core.Run
	failed map[core.JobID]time.Time
	read   []core.JobID // whose runs were read
}

func (l *listing) LastRuns(_ context.Context, jobs []core.JobID, _ core.Instant, n int) (map[core.JobID][]core.Run, error) {
	l.read = append(l.read, jobs...)
	found := map[core.JobID][]core.Run{}
	for _, job := range jobs {
		found[job] = l.runs[job][:min(n, len(l.runs[job]))]
	}
	return found, nil
}

func (*listing) RecentRuns(context.Context, Recent, RunPlace, int) ([]core.Run, RunPlace, error) {
	return nil, RunPlace{}, nil
}

func (l *listing) FailedJobs(context.Context) (map[core.JobID]time.Time, error) {
	return maps.Clone(l.failed), nil
}

func (l *listing) ForgetFailed(_ context.Context, jobs map[core.JobID]time.Time) error {
	for job := range jobs {
		delete(l.failed, job)
	}
	return nil
}

// TestPageReadsRunsOfListedJobs: for a page the runs of those jobs are read that may be failing; one that has recovered is
// forgotten, but not while its run may be about to end; behind runs that were skipped it reads on. Who asks for what only
// all runs tell, or is no page, gets it.
func TestPageReadsRunsOfListedJobs(t *testing.T) {
	now := time.Now()
	old := now.Add(-time.Hour)
	l := &listing{runs: map[core.JobID][]core.Run{}, failed: map[core.JobID]time.Time{1: old, 2: old, 3: now}}
	for job := range core.JobID(5) {
		r := core.Run{ID: core.PlannedRun(job, core.InstantOf(old)), Slot: core.InstantOf(old), State: core.Succeeded, Attempt: 1, EndedAt: old}
		if job == 1 {
			r.State = core.Failed
		}
		l.runs[job] = []core.Run{r}
	}
	skipped := core.Run{ID: core.PlannedRun(1, core.InstantOf(now)), Slot: core.InstantOf(old), State: core.Skipped, Attempt: 1}
	l.runs[1] = append(slices.Repeat([]core.Run{skipped}, 100), l.runs[1]...)
	q := New(l, Options{Now: func() time.Time { return now }, Failed: l})
	page, _ := glance.Begin(t.Context())
	jobs := []core.JobID{1, 2, 3, 4}
	s, unread, err := q.stands(page, &JobsAsk{Is: []Standing{IsFailing}}, jobs)
	if err != nil || !unread || s.failing(1) == nil || s.failing(2) != nil || s.neverRan(4) ||
		!slices.Equal(l.read, []core.JobID{1, 2, 3, 1, 1}) {
		t.Errorf("%+v, unread %v, read %v, %v", s, unread, l.read, err)
	}
	if got := slices.Sorted(maps.Keys(l.failed)); !slices.Equal(got, []core.JobID{1, 3}) {
		t.Errorf("listed are %v", got)
	}
	for what, ask := range map[string]struct {
		ctx context.Context
		a   JobsAsk
	}{"late": {page, JobsAsk{Is: []Standing{IsLate}}}, "never ran": {page, JobsAsk{Is: []Standing{IsNeverRan}}},
		"by last": {page, JobsAsk{By: ByLast}}, "no page": {t.Context(), JobsAsk{}}} {
		q := New(l, Options{Now: func() time.Time { return now }, Failed: l})
		if s, unread, err := q.stands(ask.ctx, &ask.a, jobs); err != nil || unread || s.last(4) == nil {
			t.Errorf("%s: unread %v, %v", what, unread, err)
		}
	}
}
