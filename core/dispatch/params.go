package dispatch

import (
	"context"
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

// success is the instant of a job's last success, 0 where none was found, or why that
// cannot be known now.
type success struct {
	at  core.Instant
	err error
}

// successes are those of the jobs of a batch whose templates name them. No other job's
// fires wait for what is read for one.
func (b *batch) successes(ctx context.Context, k *known) map[core.JobID]success {
	var ids []core.JobID
	for id, j := range k.jobs {
		if !j.Def.Template {
			continue
		}
		if t, err := core.ParseTemplate(j.Def.Params); err == nil && t.NeedsLastSuccess() {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	found := make(map[core.JobID]success, len(ids))
	places := make(chan struct{}, successAtOnce)
	now := core.InstantOf(b.now())
	for _, id := range ids {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			var last success
			low, high := core.RunRange(id, 0, now)
			numberedLow, numberedHigh := core.NumberedRange(id)
			for _, span := range [][2]core.RunID{{high, low}, {numberedHigh, numberedLow}} {
				at, err := b.lastSuccess(ctx, span[0], span[1])
				if last.at = max(last.at, at); err != nil {
					last.err = err
				}
			}
			mu.Lock()
			found[id] = last
			mu.Unlock()
		})
	}
	all.Wait()
	return found
}

// lastSuccess is the instant of the newest run between two that succeeded.
func (b *batch) lastSuccess(ctx context.Context, high, low core.RunID) (core.Instant, error) {
	for range successPages {
		runs, err := b.d.store.RunSpan(ctx, high, low, successPage)
		if err != nil {
			return 0, err
		}
		for i := range runs {
			if runs[i].State == core.Succeeded {
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
