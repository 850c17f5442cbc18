package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// params are what a run is sent with: those that its trigger gave, byte for byte, or
// else the job's.
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

// A job's last success is sought among its newest runs: planned, and numbered (retries,
// by hand).
const (
	successPage   = 100
	successPages  = 3
	successAtOnce = 16 // jobs that are read about side by side
)

// successFor bounds what is read for templates, before anything of the batch is claimed.
const successFor = time.Second

// success is the instant of a job's last success, 0 where none was found, or why that
// cannot be known now.
type success struct {
	at  core.Instant
	err error
}

// templates reads the last successes that the templates of fires to be sent name. What
// cannot be understood here (its version may be newer) or be read in time comes again,
// and holds up no other job's fires for longer.
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
			found[it.job.Def.ID] = &success{err: core.ErrThrottled}
			of = append(of, it)
		}
	}
	if len(of) == 0 {
		return
	}
	reads, cancel := context.WithTimeout(ctx, successFor)
	defer cancel()
	var all sync.WaitGroup
	places := make(chan struct{}, successAtOnce)
	now := core.InstantOf(b.now())
	for id, last := range found {
		all.Go(func() {
			select {
			case places <- struct{}{}:
			case <-reads.Done():
				return
			}
			defer func() { <-places }()
			low, high := core.RunRange(id, 0, now)
			numberedLow, numberedHigh := core.NumberedRange(id)
			planned, err := b.lastSuccess(reads, high, low)
			if err == nil {
				last.at, err = b.lastSuccess(reads, numberedHigh, numberedLow)
			}
			last.at, last.err = max(last.at, planned), err
		})
	}
	all.Wait()
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

// lastSuccess is the instant of the newest run between two that succeeded.
func (b *batch) lastSuccess(ctx context.Context, high, low core.RunID) (core.Instant, error) {
	for range successPages {
		runs, err := b.d.store.RunSpan(ctx, high, low, successPage)
		if err != nil {
			return 0, err
		}
		for i := range runs {
			if runs[i].State == core.Succeeded && runs[i].Shard.Of == 0 {
				return runs[i].At, nil
			}
		}
		if len(runs) < successPage || runs[len(runs)-1].ID == low {
			return 0, nil
		}
		high = runs[len(runs)-1].ID - 1
	}
	return 0, nil
}
