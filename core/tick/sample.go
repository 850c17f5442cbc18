package tick

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
)

const (
	// samples is how many jobs are looked at: others each time, out of so many that
	// are to be planned next. It is done every so many minutes.
	samples, sampledOf, sampleEvery = 2, 20, 3
	// sampleSpan is how much of what each was to do is looked at.
	sampleSpan = 2 * time.Minute
)

// sample compares, every third minute, what some jobs were just to do with their runs. Each
// job is compared when it is planned; but those that fire often are planned ten minutes
// at a time, and all at once, and until then a purge would go unseen. What it finds it
// notes: the walk sends it again.
func (t *Ticker) sample(ctx context.Context) error {
	now := t.o.Now()
	minute := int(now.Unix() / 60)
	if t.o.AuditAfter <= 0 || minute%sampleEvery != 0 {
		return nil
	}
	g, err := t.store.Global(ctx)
	if err != nil {
		return fmt.Errorf("read global item: %w", err)
	}
	if g.Loss.From != 0 || g.Loss.Again != 0 {
		return nil // a walk is to come
	}
	n := max(g.Readable, g.Partitions, 1)
	turn := minute / sampleEvery
	due, err := t.store.Due(ctx, turn%n, core.InstantOf(now.Add(t.o.Plan.Window)), core.DueItem{PlanAt: core.InstantOf(now)}, sampledOf)
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
	upTo, oldest := t.gone(ctx)
	if upTo.IsZero() {
		return nil
	}
	scheds, _, err := t.store.Scheds(ctx, jobs)
	if _, err = core.Besides(err); err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	names := map[string]bool{}
	for _, s := range scheds {
		names[s.App] = true
	}
	apps, unread, err := t.store.Apps(ctx, slices.Collect(maps.Keys(names)))
	if err != nil || len(unread) > 0 {
		return errors.Join(errors.New("apps could not be read"), err)
	}
	lost := core.Instant(0)
	for _, s := range scheds {
		if s.State != core.Started || s.Tail != 0 || s.PlanError != "" {
			continue
		}
		s.Compared = max(s.Compared, core.InstantOf(upTo.Add(-sampleSpan)))
		c, err := t.compare(ctx, &s, pausesOf(g, apps[s.App]), upTo)
		if err != nil {
			return fmt.Errorf("compare job %s: %w", s.ID, err)
		}
		for _, f := range c.lost {
			if !oldest.PutBack(f.Slot, f.Slot) {
				t.o.Log.Error("an instant had neither a run nor a record: all jobs are looked at", "job", s.ID, "run", f.Run, "instant", f.At)
				lost = earlier(lost, f.At)
			}
		}
	}
	return t.note(ctx, lost)
}
