package lossdetect

import (
	"context"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

const (
	// samples is the number of jobs checked every sampleEvery minutes. They rotate among the sampledOf jobs that are
	// planned next.
	samples, sampledOf, sampleEvery = 2, 20, 3
	// sampleSpan is how far back each job is checked.
	sampleSpan = 2 * time.Minute
)

// Sample compares the last scheduled times of a few jobs with their runs. Sample works only in every third minute, and records
// losses. Sample finds lost messages of frequent jobs early, because frequent jobs are planned and compared only every eleven
// minutes. A scan then sends the runs again.
func (f *Finder) Sample(ctx context.Context) error {
	now := f.o.Now()
	minute := int(now.Unix() / 60)
	if f.o.After <= 0 || minute%sampleEvery != 0 {
		return nil
	}
	g, err := f.s.Global(ctx)
	if err != nil {
		return fmt.Errorf("read the global item: %w", err)
	}
	if g.Loss.From != 0 || g.Loss.Again != 0 {
		return nil // a scan will follow
	}
	n := max(g.Readable, g.Partitions, 1)
	turn := minute / sampleEvery
	due, err := f.s.Jobs.Due(ctx, turn%n, core.InstantOf(now.Add(f.o.Plan.Window)), core.DueItem{PlanAt: core.InstantOf(now)}, sampledOf)
	if err != nil {
		return fmt.Errorf("read the due index: %w", err)
	}
	var jobs []core.JobID
	for i := range due {
		if d := due[(turn/n*samples+i)%len(due)]; d.Run == 0 && len(jobs) < samples {
			jobs = append(jobs, d.Job)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	r := f.Reach(ctx)
	if r.upTo.IsZero() {
		return nil
	}
	found, err := f.s.Jobs.Get(ctx, store.Planning, jobs)
	if err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	var some []*core.Sched
	for _, j := range found {
		if j.Err != nil {
			continue
		}
		if s := j.Is.Sched; s.State == core.Started && s.Tail == 0 && s.PlanError == "" {
			s.Compared = max(s.Compared, core.InstantOf(r.upTo.Add(-sampleSpan)))
			some = append(some, &s)
		}
	}
	if len(some) == 0 {
		return nil
	}
	apps, bad, err := f.apps(ctx, some)
	if err != nil {
		return err
	}
	lost := core.Instant(0)
	for _, s := range some {
		if bad[s.App] != nil {
			continue
		}
		c, err := f.compare(ctx, *s, pausesOf(g, apps[s.App]), r)
		if err != nil {
			return fmt.Errorf("compare job %s: %w", s.ID, err)
		}
		for _, l := range c.Lost {
			f.o.Log.Error("scheduled time without run or record found: scan of all jobs started", "job", s.ID, "run", l.Run, "scheduledAt", l.At)
			lost = Earlier(lost, l.At)
		}
	}
	return f.Note(ctx, lost)
}
