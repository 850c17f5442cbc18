package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// job fires each minute, at its own second.
type job struct {
	name   string // app/name
	second int
}

// instants returns the scheduled times in [from, to).
func (j job) instants(from, to time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		at := from.UTC().Truncate(time.Minute).Add(time.Duration(j.second) * time.Second)
		for ; at.Before(to); at = at.Add(time.Minute) {
			if !at.Before(from) && !yield(at) {
				return
			}
		}
	}
}

func cron(i int) string { return fmt.Sprintf("%d * * * * ?", i%60) }

// app is an app and how its executors are reached.
type app struct{ name, executors string }

// manifest is a file of n jobs, parted among apps.
func manifest(apps []app, token string, n int) string {
	var b strings.Builder
	b.WriteString("version: 1\napps:\n")
	for _, a := range apps {
		fmt.Fprintf(&b, "  - {name: %s, token: {file: %s}%s}\n", a.name, token, a.executors)
	}
	b.WriteString("jobs:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {app: %s, name: each-%04d, handler: work, schedule: {cron: %q}}\n", apps[i%len(apps)].name, i, cron(i))
	}
	return b.String()
}

// many is a file of n jobs of an app that fire once, all at the same time.
func many(n int, app string, at time.Time) string {
	var b strings.Builder
	b.WriteString("version: 1\njobs:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {app: %s, name: once-%05d, handler: work, schedule: {at: %s}}\n", app, i, at.UTC().Format(time.RFC3339))
	}
	return b.String()
}

func (p *proof) write(name, text string) (string, error) {
	file := filepath.Join(p.dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}

// jobs lists the jobs of the apps that are named each-N, or once-N.
func (p *proof) jobs(ctx context.Context, named string) (map[core.JobID]job, error) {
	all := map[core.JobID]job{}
	for _, a := range p.apps {
		for after := int32(0); ; {
			page, err := p.api.ListJobs(ctx, client.ListJobsParams{App: a.name, Limit: 500, After: after})
			if err != nil {
				return nil, fmt.Errorf("list the jobs of %s: %w", a.name, err)
			}
			for _, j := range page.Jobs {
				var i int
				if _, err := fmt.Sscanf(j.Name, named+"-%d", &i); err == nil {
					if named == "once" {
						i = 0
					}
					all[core.JobID(j.ID)] = job{a.name + "/" + j.Name, i % 60}
				}
			}
			if after = page.Next; after == 0 {
				break
			}
		}
	}
	return all, nil
}

// history returns the deployment's records of all runs due in [from, to).
func (p *proof) history(ctx context.Context, jobs map[core.JobID]job, from, to time.Time) (map[core.RunID]end, error) {
	all := map[core.RunID]end{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var first error
	places := make(chan struct{}, 8)
	for id, j := range jobs {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ends, err := p.ends(ctx, id, j, from, to)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && first == nil {
				first = err
			}
			for run, e := range ends {
				all[run] = e
			}
		})
	}
	wg.Wait()
	return all, first
}

// ends is the same of one job.
func (p *proof) ends(ctx context.Context, id core.JobID, j job, from, to time.Time) (map[core.RunID]end, error) {
	all := map[core.RunID]end{}
	for q := (client.ListRunsParams{Job: j.name, From: from, To: to, Limit: 500}); ; {
		page, err := p.api.ListRuns(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("the runs of %s: %w", j.name, err)
		}
		for _, s := range page.Skips {
			for at := range j.instants(s.FirstAt, s.LastAt.Add(time.Second)) {
				all[core.PlannedRun(id, core.InstantOf(at))] = end{state: "skipped", reason: s.Reason}
			}
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			all[core.RunID(r.LogID)] = end{r.State, r.Reason, cmp.Or(r.SentAt, r.EndedAt)}
		}
		if q.After = page.Next; q.After == "" {
			return all, nil
		}
	}
}
