package store

import (
	"context"
	"iter"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
)

// Run reads a run, nil if it does not exist.
func (s *Store) Run(ctx context.Context, id core.RunID) (*core.Run, error) {
	runs, err := Complete(s.Runs.Get(ctx, []core.RunID{id}))
	return runs[id], err
}

// NewestPage is how many runs NewestRuns reads at a time.
const NewestPage = 100

// NewestRuns returns the runs between two IDs, newest first, at most the given number.
func (s *Store) NewestRuns(ctx context.Context, span [2]core.RunID, most int) iter.Seq2[*core.Run, error] {
	return func(yield func(*core.Run, error) bool) {
		last := span[1]
		for left := most; left > 0 && last >= span[0]; left -= NewestPage {
			page, err := s.Runs.Span(ctx, last, span[0], min(NewestPage, left))
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
			if len(page) < NewestPage {
				return
			}
			last = page[len(page)-1].ID - 1
		}
	}
}

// CreateRuns stores new runs, each on the condition that it is not stored.
func (s *Store) CreateRuns(ctx context.Context, runs []core.Run) []error {
	return s.Runs.Put(ctx, each(runs, func(r *core.Run) RunPut { return RunPut{Create: r} }))
}

// ChangeRuns changes stored runs, each on the condition in its core.RunPut.
func (s *Store) ChangeRuns(ctx context.Context, changes []core.RunPut) []error {
	return s.Runs.Put(ctx, each(changes, func(p *core.RunPut) RunPut { return RunPut{Change: p} }))
}

// WaitingRuns reads open runs of a job that have no owner, with IDs lower than below, in descending order. They include all
// queued and released runs. Fewer than limit runs mean that no runs follow.
func (s *Store) WaitingRuns(ctx context.Context, job core.JobID, below core.RunID, limit int) (list []core.Run, err error) {
	last, _ := core.RunRange(job, 0, 0)
	for next := below - 1; next != 0 && len(list) < limit && err == nil; {
		var page []core.Run
		page, next, err = s.Runs.Open(ctx, next, last, true, limit-len(list))
		list = append(list, page...)
	}
	return list, err
}

// OpenRuns calls the function each with every open run of a job, until the function returns false. Triggered runs and retries
// come before scheduled runs, and newer runs before older ones. OpenRuns returns true if it passed all open runs to the
// function.
//
// A store without an index of open runs searches only a limited number of runs in one call. OpenRuns then makes another call
// only if the function more is not nil and returns true.
func (s *Store) OpenRuns(ctx context.Context, job core.JobID, more func() bool, each func(*core.Run) bool) (all bool, err error) {
	all = true
	var spans [2][2]core.RunID
	spans[0][0], spans[0][1] = core.NumberedRange(job)
	spans[1][0], spans[1][1] = core.RunRange(job, 0, core.Horizon)
	for _, span := range spans {
		for next := span[1]; next != 0; {
			var runs []core.Run
			if runs, next, err = s.Runs.Open(ctx, next, span[0], false, budget.OpenAtOnce); err != nil {
				return false, err
			}
			for i := range runs {
				if !each(&runs[i]) {
					return false, nil
				}
			}
			if next != 0 && len(runs) < budget.OpenAtOnce && (more == nil || !more()) {
				all = false
				break
			}
		}
	}
	return all, nil
}

// LastAttempts reads the last stored attempt of each retry chain. The parameter firsts lists the first run of each chain. The
// results are in the order of firsts. The result is the zero Run if no attempt is stored.
func (s *Store) LastAttempts(ctx context.Context, firsts []core.RunID) ([]core.Run, error) {
	last, at := make([]core.Run, len(firsts)), slices.Clone(firsts)
	for todo := slices.Clone(firsts); len(todo) > 0; {
		var next []core.RunID
		for some := range slices.Chunk(todo, budget.AtOnce) {
			runs, err := Complete(s.Runs.Get(ctx, some))
			if err != nil {
				return nil, core.Retryable(err)
			}
			for i, id := range at {
				if r := runs[id]; r != nil {
					if last[i], at[i] = *r, r.Then; r.Then != 0 {
						next = append(next, r.Then)
					}
				}
			}
		}
		todo = next
	}
	return last, nil
}

// RunNumbers allocates n consecutive run numbers of a job and returns the first.
func (s *Store) RunNumbers(ctx context.Context, job core.JobID, n int) (uint32, error) {
	return numbers[uint32](ctx, s, job, n)
}

// JobIDs allocates n consecutive job IDs and returns the first.
func (s *Store) JobIDs(ctx context.Context, n int) (core.JobID, error) {
	return numbers[core.JobID](ctx, s, 0, n)
}

func numbers[N uint32 | core.JobID](ctx context.Context, s *Store, job core.JobID, n int) (N, error) {
	if err := s.Fence(ctx); err != nil {
		return 0, err
	}
	first, err := s.Jobs.Numbers(ctx, job, n)
	return N(first), err
}

// Advance updates the planning fields of jobs, each on the condition that the stored Rev, Next and Tail equal its fields.
func (s *Store) Advance(ctx context.Context, moves []core.Advance) []error {
	return s.Jobs.Put(ctx, each(moves, func(a *core.Advance) JobPut { return JobPut{Advance: a} }))
}

// Enter adds entries to the due index. An entry that exists is not an error.
func (s *Store) Enter(ctx context.Context, entries []core.DueItem) []error {
	return s.Jobs.Put(ctx, each(entries, func(d *core.DueItem) JobPut { return JobPut{Enter: d} }))
}

// Leave removes entries from the due index. A missing entry is not an error.
func (s *Store) Leave(ctx context.Context, entries []core.DueItem) []error {
	return s.Jobs.Put(ctx, each(entries, func(d *core.DueItem) JobPut { return JobPut{Leave: d} }))
}

// each returns the result of a function for each item of a list.
func each[T, R any](list []T, of func(item *T) R) []R {
	results := make([]R, len(list))
	for i := range list {
		results[i] = of(&list[i])
	}
	return results
}

// Asks reports whether a planner pass may still look up a run of a retry chain. The parameters next and tail are the
// job's Next and Tail, run is the run, and first is the first run of its chain.
func Asks(next core.Instant, tail, run, first core.RunID) bool {
	if tail != 0 && (tail == run || tail == first) {
		return true
	}
	at, planned := run.Planned()
	return planned && next != 0 && at >= next
}
