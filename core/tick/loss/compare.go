package loss

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

const (
	// holdFor is for how long an instant without a run or a record is looked at
	// again, after it was sent again, or while it is put back: both may be lost too.
	holdFor = time.Hour
)

// Reach is how far what was due can be compared, as the ring stood at a moment.
type Reach struct {
	// upTo is the time up to which no message is on the ring any more but those that
	// were put back; zero where that is not known, or not to be compared.
	upTo   time.Time
	oldest ring.Oldest
}

// Reach looks how far what was due can be compared.
func (f *Finder) Reach(ctx context.Context) (r Reach) {
	if f.o.After <= 0 {
		return r
	}
	oldest, err := f.store.OldestMessage(ctx)
	if err != nil {
		return r
	}
	upTo := f.o.Now().Add(-f.o.After)
	if !oldest.Due.IsZero() && oldest.Due.Before(upTo) { // what is due from there on may be on its way
		upTo = oldest.Due.Add(-1)
	}
	return Reach{upTo, oldest}
}

// Waits is for how long what was due of a job waits to be compared, since nobody knows
// what was on the ring after a time; the longest of some. A job of which nothing is older
// waits for nothing, whatever is not known of the ring.
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
		if done := max(s.Compared, core.InstantOf(s.RevAt), core.InstantOf(f.o.Now().Add(-bound.LookBack))).Time(); done.After(from) {
			from = done
		}
		most = max(most, due.Sub(from))
	}
	return most
}

// Found is what was found of a job: up to where all has a run or a record, or
// was looked at for long enough (0: nothing was compared), and what has neither.
type Found struct {
	UpTo core.Instant
	Lost []core.Fire
}

// Find compares, for each of some jobs, what was demanded since its last comparison
// with its runs. It does so while messages are due or in flight too: what was due
// before the oldest of them is on none, unless one of its slot was put back.
// Up to where it came is to go with the advance of the job: what cannot be compared
// now is compared the next time.
func (f *Finder) Find(ctx context.Context, g core.Global, jobs []*core.Sched, r Reach) []Found {
	found := make([]Found, len(jobs))
	if r.upTo.IsZero() || len(jobs) == 0 {
		return found
	}
	apps, bad, err := f.apps(ctx, jobs)
	if err != nil {
		return found
	}
	var all sync.WaitGroup
	places := make(chan struct{}, f.o.Together)
	for i, s := range jobs {
		if s.State != core.Started || s.Tail != 0 || bad[s.App] != nil {
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			c, err := f.compare(ctx, *s, pausesOf(g, apps[s.App]), r)
			if err != nil {
				f.o.Log.Warn("what was demanded of a job could not be compared with its runs", "job", s.ID, "err", err)
				return
			}
			for _, l := range c.Lost {
				f.o.Log.Error("an instant had neither a run nor a record: it is sent again", "job", s.ID, "run", l.Run, "instant", l.At)
			}
			found[i] = c
		})
	}
	all.Wait()
	return found
}

// apps reads those of some jobs, all that can be understood.
func (f *Finder) apps(ctx context.Context, jobs []*core.Sched) (map[string]core.App, core.UnreadableApps, error) {
	names := map[string]bool{}
	for _, s := range jobs {
		names[s.App] = true
	}
	apps, unread, err := f.store.Apps(ctx, slices.Collect(maps.Keys(names)))
	bad, err := core.BesidesApps(err)
	if err != nil || len(unread) > 0 {
		return nil, nil, errors.Join(errors.New("apps could not be read"), err)
	}
	return apps, bad, nil
}

// pauses are those of everything and of an app that are kept; known is from when on they are all.
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

// compare looks at what was demanded of a job since it was last compared, as far as
// that can be, or as much of that as one pass takes. What is put back is not lost.
func (f *Finder) compare(ctx context.Context, s core.Sched, paused pauses, r Reach) (c Found, err error) {
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return c, err
	}
	upTo := core.InstantOf(r.upTo.Add(-s.Schedule.Jitter))
	if s.Next != 0 {
		upTo = min(upTo, s.Next-1) // from there on it is being planned
	}
	from := max(s.Compared, core.InstantOf(s.RevAt)) // instants after it are demanded
	if oldest := core.InstantOf(f.o.Now().Add(-bound.LookBack)); from < oldest {
		if s.Compared != 0 {
			f.o.Log.Error("what was demanded of a job is so old that it cannot be compared any more", "job", s.ID, "from", from, "to", oldest)
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
	have, upTo, err := f.runs(ctx, s.ID, at, upTo)
	if err != nil {
		return Found{}, err
	}
	var unclear int
	for ; ok && at <= upTo; at, ok = sch.Next(at) {
		id := core.PlannedRun(s.ID, at)
		switch {
		case have[id] || covered(paused.list, at):
			continue
		case !at.Time().After(paused.known): // it may lie in a pause that is forgotten
			unclear++
			continue
		case len(c.Lost) == bound.Recovered:
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

// runs reads the planned runs of a job from an instant up to another, or up to
// where it came.
func (f *Finder) runs(ctx context.Context, job core.JobID, from, upTo core.Instant) (have map[core.RunID]bool, to core.Instant, err error) {
	first, last := core.RunRange(job, from, upTo)
	runs, err := f.store.RunSpan(ctx, first, last, min(int(last-first)+1, bound.Compared))
	if err != nil {
		return nil, 0, err
	}
	have = make(map[core.RunID]bool, len(runs))
	for i := range runs {
		have[runs[i].ID] = true
	}
	if len(runs) == bound.Compared {
		upTo, _ = runs[len(runs)-1].ID.Planned()
	}
	return have, upTo, nil
}

// leaveOutRecorded takes out of what is lost what records tell of and what may have been cleaned up, and holds the comparison
// before the first of the rest, for as long as that is looked at again.
func (f *Finder) leaveOutRecorded(ctx context.Context, job core.JobID, c *Found) error {
	if len(c.Lost) == 0 {
		return nil
	}
	skips, err := f.store.Skips(ctx, job, c.Lost[0].At, c.Lost[len(c.Lost)-1].At)
	if err != nil {
		return err
	}
	cleaned, err := f.store.Cleaned(ctx, job)
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
