package lossdetect

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

const (
	// holdFor is how long a missing run is rechecked after it was sent again or while it is requeued: the new message
	// may be lost too.
	holdFor = time.Hour
)

// A Reach is the time up to which scheduled times can be compared with runs. Later runs may still be in the delay queue.
type Reach struct {
	// upTo is the time before which only requeued messages remain in the delay queue; zero: unknown, or nothing is to
	// be compared.
	upTo   time.Time
	oldest ring.Oldest
}

// Reach returns the current Reach. Reach reads the state of the delay queue.
func (f *Finder) Reach(ctx context.Context) (r Reach) {
	if f.o.After <= 0 {
		return r
	}
	oldest, err := f.s.Queue.Oldest(ctx)
	if err != nil {
		return r
	}
	upTo := f.o.Now().Add(-f.o.After)
	if !oldest.Due.IsZero() && oldest.Due.Before(upTo) { // runs due later may be in the delay queue
		upTo = oldest.Due.Add(-1)
	}
	return Reach{upTo, oldest}
}

// Waits returns how long due times of jobs have waited for their comparison, because their runs may still be in the delay
// queue. Waits returns the longest wait, and 0 if the state of the delay queue is unknown.
func (f *Finder) Waits(jobs []*core.Sched, r Reach) (most time.Duration) {
	if r.upTo.IsZero() {
		return 0
	}
	due := f.o.Now().Add(-f.o.After)
	for _, s := range jobs {
		if s.State != core.Started || s.Tail != 0 {
			continue
		}
		from := r.upTo
		if done := max(s.Compared, core.InstantOf(s.RevAt), core.InstantOf(f.o.Now().Add(-budget.LookBack))).Time(); done.After(from) {
			from = done
		}
		most = max(most, due.Sub(from))
	}
	return most
}

// A Found is the result of the comparison for one job. Lost are the missing runs. Every scheduled time up to UpTo has a run or
// a record, or was rechecked for an hour. UpTo is 0 if nothing was compared.
type Found struct {
	UpTo core.Instant
	Lost []core.Fire
}

// Find compares the scheduled times of each job since its last comparison with its runs. Find returns one result for each job,
// in order. Find compares only scheduled times whose messages, according to r, have left the delay queue. The caller must
// store UpTo in the advance of the job, because the next comparison starts there.
func (f *Finder) Find(ctx context.Context, g core.Global, jobs []*core.Sched, r Reach) []Found {
	found := make([]Found, len(jobs))
	if r.upTo.IsZero() || len(jobs) == 0 {
		return found
	}
	apps, bad, err := f.apps(ctx, jobs)
	if err != nil {
		return found
	}
	store.AtOnce(len(jobs), func(i int) {
		s := jobs[i]
		if s.State != core.Started || s.Tail != 0 || bad[s.App] != nil {
			return
		}
		c, err := f.compare(ctx, *s, pausesOf(g, apps[s.App]), r)
		if err != nil {
			f.o.Log.Warn("expected runs of a job not compared", "job", s.ID, "err", err)
			return
		}
		for _, l := range c.Lost {
			f.o.Log.Error("scheduled time without run or record found: it is sent again", "job", s.ID, "run", l.Run, "scheduledAt", l.At)
		}
		found[i] = c
	})
	return found
}

// apps reads the apps of jobs. An app that cannot be decoded is in bad; a throttled app fails the read.
func (f *Finder) apps(ctx context.Context, jobs []*core.Sched) (apps map[string]core.App, bad map[string]error, err error) {
	names := map[string]bool{}
	for _, s := range jobs {
		names[s.App] = true
	}
	if apps, bad, err = store.Split(f.s.Apps(ctx, slices.Collect(maps.Keys(names))...)); err != nil {
		err = fmt.Errorf("read apps: %w", err)
	}
	return apps, bad, err
}

// pauses are the stored pauses of everything and of an app; the list is complete from known on.
type pauses struct {
	list  []core.Pause
	known time.Time
}

func pausesOf(g core.Global, a core.App) pauses {
	p := pauses{list: slices.Concat(g.Past.Pauses, a.Past.Pauses, []core.Pause{g.Pause, a.Pause}), known: g.Past.From}
	if a.Past.From.After(p.known) {
		p.known = a.Past.From
	}
	return p
}

// compare checks the scheduled times of a job since its last comparison, up to r or as many as one pass handles.
// Requeued runs are not lost.
func (f *Finder) compare(ctx context.Context, s core.Sched, paused pauses, r Reach) (c Found, err error) {
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return c, err
	}
	upTo := core.InstantOf(r.upTo.Add(-s.Schedule.Jitter))
	if s.Next != 0 {
		upTo = min(upTo, s.Next-1) // later ones are being planned
	}
	from := max(s.Compared, core.InstantOf(s.RevAt)) // expected times come after it
	if oldest := core.InstantOf(f.o.Now().Add(-budget.LookBack)); from < oldest {
		if s.Compared != 0 {
			f.o.Log.Error("expected runs of a job too old to compare", "job", s.ID, "from", from, "to", oldest)
		}
		from = oldest
	}
	if _, fixed := sch.FixedDelay(); fixed || upTo <= from {
		return c, nil
	}
	c.UpTo = upTo
	at, ok := sch.Next(from)
	if !ok || at > upTo {
		return c, nil
	}
	have, upTo, err := f.runs(ctx, s.ID, sch, at, upTo)
	if err != nil {
		return Found{}, err
	}
	var unclear int
	for ; ok && at <= upTo; at, ok = sch.Next(at) {
		id := core.PlannedRun(s.ID, at)
		switch {
		case have[id] || covered(paused.list, at):
			continue
		case !at.Time().After(paused.known): // it may lie in a pause that is not stored any more
			unclear++
			continue
		case len(c.Lost) == budget.Recovered:
			upTo = at - 1
			continue
		}
		next, more := sch.Next(at)
		frequent := more && next-at < core.Instant(f.o.Plan.Window/time.Second)
		c.Lost = append(c.Lost, core.Fire{Run: id, Rev: s.Rev, At: at, Slot: sch.Slot(s.ID, at, next, frequent), Cause: core.CauseMisfire,
			Seq: s.Seq})
	}
	if unclear > 0 {
		f.o.Log.Warn("instants have neither a run nor a record, and may lie in a pause that is not known any more", "job", s.ID, "instants",
			unclear)
	}
	c.UpTo = upTo
	if err := f.leaveOutRecorded(ctx, s.ID, &c); err != nil {
		return Found{}, err
	}
	c.Lost = slices.DeleteFunc(c.Lost, func(l core.Fire) bool { return r.oldest.PutBack(l.Slot, l.Slot) })
	return c, nil
}

// runs returns the planned runs of a job from one of its times to another, and how far the result reaches. A run that is there
// stays, so a first read may be of an older state. If a run is missing in it, the runs are read strongly.
func (f *Finder) runs(ctx context.Context, job core.JobID, sch *schedule.Schedule, from, upTo core.Instant) (have map[core.RunID]bool,
	to core.Instant, err error) {
	have, to, err = f.read(glance.First(ctx), job, from, upTo)
	for at, ok := from, err == nil; ok && at <= to; at, ok = sch.Next(at) {
		if !have[core.PlannedRun(job, at)] {
			return f.read(ctx, job, from, upTo)
		}
	}
	return have, to, err
}

func (f *Finder) read(ctx context.Context, job core.JobID, from, upTo core.Instant) (have map[core.RunID]bool, to core.Instant, err error) {
	first, last := core.RunRange(job, from, upTo)
	runs, err := f.s.Runs.Span(ctx, first, last, min(int(last-first)+1, budget.Compared))
	if err != nil {
		return nil, 0, err
	}
	have = make(map[core.RunID]bool, len(runs))
	for i := range runs {
		have[runs[i].ID] = true
	}
	if len(runs) == budget.Compared {
		upTo, _ = runs[len(runs)-1].ID.Planned()
	}
	return have, upTo, nil
}

// leaveOutRecorded removes runs from c.Lost that have a skip or that a clean-up may have removed. If the first
// remaining one is recent, it sets UpTo before that run, so that it is rechecked.
func (f *Finder) leaveOutRecorded(ctx context.Context, job core.JobID, c *Found) error {
	if len(c.Lost) == 0 {
		return nil
	}
	skips, err := f.s.Skips(ctx, job, c.Lost[0].At, c.Lost[len(c.Lost)-1].At)
	if err != nil {
		return err
	}
	cleaned, err := f.s.Cleaned(ctx, job)
	if err != nil {
		return err
	}
	c.Lost = slices.DeleteFunc(c.Lost, func(l core.Fire) bool {
		return l.At <= cleaned || slices.ContainsFunc(skips, func(s core.Skip) bool { return s.Covers(l.At) })
	})
	recent := core.InstantOf(f.o.Now().Add(-holdFor))
	if i := slices.IndexFunc(c.Lost, func(l core.Fire) bool { return l.Slot > recent }); i >= 0 {
		c.UpTo = c.Lost[i].At - 1
	}
	return nil
}

func covered(pauses []core.Pause, at core.Instant) bool {
	return slices.ContainsFunc(pauses, func(p core.Pause) bool { return p.Covers(at.Time()) })
}
