package dispatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// params returns the parameters to send: the trigger's, byte for byte, or else the job's.
func (it *item) params() (string, error) {
	d := &it.job.Def
	switch {
	case it.run.Params != nil:
		return *it.run.Params, nil
	case !d.Template:
		return d.Params, nil
	}
	t, err := core.ParseTemplate(d.Params)
	if err != nil {
		return "", err
	}
	zone, err := time.LoadLocation(it.job.Sched.Schedule.Timezone) // empty is UTC
	if err != nil {
		return "", err
	}
	return t.Fill(core.Filling{Run: it.run.ID, Attempt: it.run.Attempt, At: it.run.At, LastSuccess: it.success, Zone: zone})
}

// A job's last success is sought among its newest planned runs and its newest numbered runs (retries, manual triggers).
const successRuns = 300

// successFor limits the reads for templates, which happen before the batch claims anything.
const successFor = time.Second

// success is the scheduled time of a job's last success, 0 if none was found, or the error that prevented the search.
type success struct {
	at  core.Instant
	err error
}

// templates reads the last successes that templates of runs to be sent need. Runs whose template cannot be decoded (it
// may come from a newer version) or read in time are retried. Other jobs wait no longer than successFor.
func (b *batch) templates(ctx context.Context) {
	found := map[core.JobID]*success{}
	var of []*item
	for _, it := range b.items {
		if it.phase != (undecided{}) || it.falls != sends || !it.job.Def.Template || it.run.Params != nil {
			continue
		}
		t, err := core.ParseTemplate(it.job.Def.Params)
		if err == nil {
			_, err = time.LoadLocation(it.job.Sched.Schedule.Timezone)
		}
		if err != nil {
			it.phase = damaged(it, fmt.Errorf("the template of job %d: %w", it.job.Def.ID, err))
		} else if t.NeedsLastSuccess() {
			found[it.job.Def.ID] = &success{}
			of = append(of, it)
		}
	}
	if len(of) == 0 {
		return
	}
	reads, cancel := context.WithTimeout(ctx, successFor)
	defer cancel()
	jobs := slices.Collect(maps.Keys(found))
	store.AtOnce(len(jobs), func(i int) {
		last := found[jobs[i]]
		last.at, last.err = b.lastSuccess(reads, jobs[i])
	})
	for _, it := range of {
		switch last := found[it.job.Def.ID]; {
		case last.err == nil:
			it.success = last.at
		case errors.Is(last.err, core.ErrThrottled), reads.Err() != nil:
			it.phase = passing{why: fmt.Errorf("the last success of job %d: %w", it.job.Def.ID, last.err)}
		default:
			it.phase = damaged(it, fmt.Errorf("the last success of job %d: %w", it.job.Def.ID, last.err))
		}
	}
}

// lastSuccess returns the scheduled time of a job's last success; 0: none was found.
func (b *batch) lastSuccess(ctx context.Context, job core.JobID) (at core.Instant, _ error) {
	spans := core.RunRanges(job)
	_, spans[0][1] = core.RunRange(job, 0, core.InstantOf(b.now()))
	for _, span := range spans {
		for r, err := range b.d.store.NewestRuns(ctx, span, successRuns) {
			if err != nil {
				return 0, err
			}
			if r.State == core.Succeeded && r.Shard.Of == 0 {
				at = max(at, r.At)
				break
			}
		}
	}
	return at, nil
}
