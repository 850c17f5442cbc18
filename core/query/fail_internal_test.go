package query

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// listing is a store of runs, newest first, and of a list of possibly failing jobs.
type listing struct {
	store.Runs
	runs   map[core.JobID][]core.Run
	failed map[core.JobID]time.Time
	read   []core.JobID // jobs whose runs were read
}

func (l *listing) Last(_ context.Context, jobs []core.JobID, _ core.Instant, n int) (map[core.JobID][]core.Run, error) {
	l.read = append(l.read, jobs...)
	found := map[core.JobID][]core.Run{}
	for _, job := range jobs {
		found[job] = l.runs[job][:min(n, len(l.runs[job]))]
	}
	return found, nil
}

// noRecords is a store without small records.
type noRecords struct{ store.Records }

func (noRecords) Get(context.Context, ...store.Key) (map[store.Key]store.Record, error) {
	return nil, nil
}

func (noRecords) List(context.Context, string, string, string, int) ([]store.Record, error) {
	return nil, nil
}

// listed has the jobs of a listing.
type listed struct {
	store.Jobs
	*listing
}

func (l listed) List(_ context.Context, _ string, after core.JobID, _ int) (jobs []store.Got[*core.Job], next core.JobID, err error) {
	for id := range l.runs {
		if id > after {
			jobs = append(jobs, store.Got[*core.Job]{Is: &core.Job{Def: core.Def{ID: id}}})
		}
	}
	return jobs, 0, nil
}

func (*listing) Recent(context.Context, store.Recent, store.RunPlace, int) ([]core.Run, store.RunPlace, error) {
	return nil, store.RunPlace{}, nil
}

func (l *listing) store() *store.Store {
	return &store.Store{Records: noRecords{}, Jobs: listed{listing: l}, Runs: l,
		Failed: store.NewFailedJobs(&store.Store{Records: failedRecords{l: l}})}
}

// failedRecords are the records of the list of possibly failing jobs.
type failedRecords struct {
	noRecords
	l *listing
}

func (f failedRecords) List(_ context.Context, kind, _, _ string, _ int) (list []store.Record, err error) {
	for job, at := range f.l.failed {
		list = append(list, store.Record{Key: store.Key{Kind: kind, Name: store.JobName(job)}, V: core.Millis(at)})
	}
	return list, nil
}

func (f failedRecords) Write(_ context.Context, groups ...store.Group) []error {
	errs := make([]error, len(groups))
	for i := range groups {
		var job int
		job, errs[i] = strconv.Atoi(groups[i].Writes[0].Name)
		delete(f.l.failed, core.JobID(job))
	}
	return errs
}

func runOf(job core.JobID, at time.Time, state core.State) core.Run {
	slot := core.InstantOf(at)
	return core.Run{ID: core.PlannedRun(job, slot), Slot: slot, State: state, Attempt: 1, EndedAt: at}
}

// TestPageReadsRunsOfListedJobs checks that a page reads only the runs of possibly failing jobs. Recovered jobs are
// removed from the list, unless a run may be about to end. Behind skipped runs it reads further. Queries that need
// all runs, and queries outside pages, read them.
func TestPageReadsRunsOfListedJobs(t *testing.T) {
	now := time.Now()
	old := now.Add(-time.Hour)
	l := &listing{runs: map[core.JobID][]core.Run{}, failed: map[core.JobID]time.Time{1: old, 2: old, 3: now}}
	for job := range core.JobID(5) {
		l.runs[job] = []core.Run{runOf(job, old, core.Succeeded)}
	}
	l.runs[1][0].State = core.Failed
	skipped := runOf(1, old, core.Skipped)
	l.runs[1] = append(slices.Repeat([]core.Run{skipped}, 100), l.runs[1]...)
	q := New(l.store(), Options{Now: func() time.Time { return now }})
	page, _ := glance.Begin(t.Context())
	jobs := []core.JobID{1, 2, 3, 4}
	s, unread, err := q.stands(page, &JobsAsk{Is: []Standing{IsFailing}}, jobs)
	if err != nil || !unread || s.failing(1) == nil || s.failing(2) != nil || s.neverRan(4) ||
		!slices.Equal(l.read, []core.JobID{3, 1, 2, 1, 1}) {
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
		q := New(l.store(), Options{Now: func() time.Time { return now }})
		if s, unread, err := q.stands(ask.ctx, &ask.a, jobs); err != nil || unread || s.last(4) == nil {
			t.Errorf("%s: unread %v, %v", what, unread, err)
		}
	}
}

// TestPageReadsTheJobsThatFailedLast checks that a page reads the runs of the budget.FailingRead jobs that failed
// last, and counts the others, which an app's page reads. Recovered jobs make room on the next page. A bulk operation
// on the failing jobs is rejected.
func TestPageReadsTheJobsThatFailedLast(t *testing.T) {
	now := time.Now()
	for _, n := range []int{budget.FailingRead, budget.FailingRead + 1, 10_000} {
		l := &listing{runs: map[core.JobID][]core.Run{}, failed: map[core.JobID]time.Time{}}
		var jobs []core.JobID
		for job := core.JobID(1); int(job) <= n; job++ {
			at := now.Add(-time.Hour + time.Duration(job)*time.Millisecond)
			jobs, l.failed[job], l.runs[job] = append(jobs, job), at, []core.Run{runOf(job, at, core.Failed)}
		}
		q := New(l.store(), Options{Now: func() time.Time { return now }})
		page, _ := glance.Begin(t.Context())
		stands := func(jobs []core.JobID) *standing {
			s, _, err := q.stands(page, &JobsAsk{}, jobs)
			check.OK(t, err)
			return s
		}
		_, partial, err := q.CountFailing(page, nil)
		_, _, _, wrong := q.Select(page, JobsAsk{Is: []Standing{IsFailing}}, 0)
		if over := n > budget.FailingRead; err != nil || partial != over || (wrong != nil) != over {
			t.Errorf("%d jobs: partial %v, %v; a bulk operation: %v", n, partial, err, wrong)
		}
		l.read = nil
		s, last := stands(jobs), jobs[n-budget.FailingRead]
		if len(l.read) != budget.FailingRead || s.unchecked != n-budget.FailingRead || s.failing(last) == nil || s.failing(last-1) != nil {
			t.Errorf("%d jobs: runs of %d read, %d unchecked", n, len(l.read), s.unchecked)
		}
		l.runs[jobs[n-1]][0].State = core.Succeeded
		stands(jobs)
		if s := stands(jobs); s.unchecked != max(0, n-budget.FailingRead-1) {
			t.Errorf("%d jobs, one recovered: %d unchecked", n, s.unchecked)
		}
		if s := stands(jobs[:1]); s.unchecked != 0 || s.failing(1) == nil {
			t.Errorf("%d jobs, one asked for: %d unchecked", n, s.unchecked)
		}
	}
}
