package tick

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

const (
	// maxRecovered bounds the instants of one job that a pass sends again, maxRead the
	// runs that it reads: the next goes on where it ended.
	maxRecovered = 1000
	maxRead      = 5000
	// lookBack bounds how old an instant is that is compared: a store of queues
	// keeps runs for 15 days at least.
	lookBack = 14 * 24 * time.Hour
	// holdFor is for how long an instant without a run or a record is looked at
	// again, after it was sent again, or while it is put back: both may be lost too.
	holdFor = time.Hour
)

// gone is the time up to which no message is on the ring any more but those that
// were put back; zero where that is not known, or not to be compared.
func (t *Ticker) gone(ctx context.Context) (upTo time.Time, oldest ring.Oldest) {
	if t.o.AuditAfter <= 0 {
		return time.Time{}, oldest
	}
	oldest, err := t.store.OldestMessage(ctx)
	if err != nil {
		return time.Time{}, oldest
	}
	upTo = t.o.Now().Add(-t.o.AuditAfter)
	if !oldest.Due.IsZero() && oldest.Due.Before(upTo) { // what is due from there on may be on its way
		upTo = oldest.Due.Add(-1)
	}
	return upTo, oldest
}

// waits is for how long what was due of a job that is planned waits to be compared,
// since nobody knows what was on the ring after a time. A job of which nothing is older
// waits for nothing, whatever is not known of the ring.
func (t *Ticker) waits(plans []planned, upTo time.Time) (most time.Duration) {
	due := t.o.Now().Add(-t.o.AuditAfter)
	for i := range plans {
		s := plans[i].of
		if s.State != core.Started || s.Tail != 0 {
			continue
		}
		from := upTo
		if done := max(s.Compared, core.InstantOf(s.RevAt), core.InstantOf(t.o.Now().Add(-lookBack))).Time(); done.After(from) {
			from = done
		}
		most = max(most, due.Sub(from))
	}
	return most
}

// audit compares, for each job that is planned, what was demanded since its last
// comparison with its runs, and adds the fires of instants that have neither a run
// nor a record. It does so while messages are due or in flight too: what was due
// before the oldest of them is on none, unless one of its slot was put back.
// Up to where it came goes with the advance: what cannot be compared now is
// compared the next time.
func (t *Ticker) audit(ctx context.Context, g core.Global, plans []planned, upTo time.Time, oldest ring.Oldest) {
	if upTo.IsZero() || len(plans) == 0 {
		return
	}
	names := map[string]bool{}
	for i := range plans {
		names[plans[i].of.App] = true
	}
	list := make([]string, 0, len(names))
	for n := range names {
		list = append(list, n)
	}
	apps, unread, err := t.store.Apps(ctx, list)
	if err != nil || len(unread) > 0 {
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, t.o.AuditTogether)
	for i := range plans {
		s := plans[i].of
		if s.State != core.Started || plans[i].begun || plans[i].Advance.Change != nil || s.Tail != 0 || plans[i].Advance.PlanError != "" {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			c, err := t.compare(ctx, &s, pausesOf(g, apps[s.App]), upTo)
			if err != nil {
				t.o.Log.Warn("what was demanded of a job could not be compared with its runs", "job", s.ID, "err", err)
				return
			}
			fires := slices.DeleteFunc(c.lost, func(f core.Fire) bool { return oldest.PutBack(f.Slot, f.Slot) })
			plans[i].Advance.NewCompared = c.upTo
			for _, f := range fires {
				t.o.Log.Error("an instant had neither a run nor a record: it is sent again", "job", s.ID, "run", f.Run, "instant", f.At)
			}
			plans[i].lost = fires
		})
	}
	all.Wait()
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

// comparison is what was found of a job: up to where all has a run or a record, or
// was looked at for long enough, and what has neither.
type comparison struct {
	upTo core.Instant
	lost []core.Fire
}

// compare looks at what was demanded of a job since it was last compared, up to a
// time, or as much of that as one pass takes.
func (t *Ticker) compare(ctx context.Context, s *core.Sched, paused pauses, until time.Time) (c comparison, err error) {
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return c, err
	}
	upTo := core.InstantOf(until.Add(-s.Schedule.Jitter))
	if s.Next != 0 {
		upTo = min(upTo, s.Next-1) // from there on it is being planned
	}
	from := max(s.Compared, core.InstantOf(s.RevAt)) // instants after it are demanded
	if oldest := core.InstantOf(t.o.Now().Add(-lookBack)); from < oldest {
		if s.Compared != 0 {
			t.o.Log.Error("what was demanded of a job is so old that it cannot be compared any more", "job", s.ID, "from", from, "to", oldest)
		}
		from = oldest
	}
	if _, fixed := sch.FixedDelay(); fixed || upTo <= from {
		return c, nil
	}
	c.upTo = upTo
	at, ok := sch.Next(from)
	if !ok || at > upTo {
		return c, nil
	}
	have, upTo, err := t.runs(ctx, s.ID, at, upTo)
	if err != nil {
		return comparison{}, err
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
		case len(c.lost) == maxRecovered:
			upTo = at - 1
			continue
		}
		next, more := sch.Next(at)
		frequent := more && next-at < core.Instant(t.o.Plan.Window/time.Second)
		c.lost = append(c.lost, core.Fire{Run: id, Rev: s.Rev, At: at, Slot: sch.Slot(s.ID, at, next, frequent), Cause: core.CauseMisfire,
			Seq: s.Seq})
	}
	if unclear > 0 {
		t.o.Log.Warn("instants have neither a run nor a record, and may lie in a pause that is not known any more", "job", s.ID, "instants",
			unclear)
	}
	c.upTo = upTo
	if err := t.leaveOutRecorded(ctx, s.ID, &c); err != nil {
		return comparison{}, err
	}
	return c, nil
}

// runs reads the planned runs of a job from an instant up to another, or up to
// where it came.
func (t *Ticker) runs(ctx context.Context, job core.JobID, from, upTo core.Instant) (have map[core.RunID]bool, to core.Instant, err error) {
	first, last := core.RunRange(job, from, upTo)
	runs, err := t.store.RunSpan(ctx, first, last, min(int(last-first)+1, maxRead))
	if err != nil {
		return nil, 0, err
	}
	have = make(map[core.RunID]bool, len(runs))
	for i := range runs {
		have[runs[i].ID] = true
	}
	if len(runs) == maxRead {
		upTo, _ = runs[len(runs)-1].ID.Planned()
	}
	return have, upTo, nil
}

// leaveOutRecorded takes out of what is lost what records tell of, and holds the comparison
// before the first of the rest, for as long as that is looked at again.
func (t *Ticker) leaveOutRecorded(ctx context.Context, job core.JobID, c *comparison) error {
	if len(c.lost) == 0 {
		return nil
	}
	skips, err := t.store.Skips(ctx, job, c.lost[0].At, c.lost[len(c.lost)-1].At)
	if err != nil {
		return err
	}
	c.lost = slices.DeleteFunc(c.lost, func(f core.Fire) bool {
		return slices.ContainsFunc(skips, func(s core.Skip) bool { return s.Covers(f.At) })
	})
	recent := core.InstantOf(t.o.Now().Add(-holdFor))
	if i := slices.IndexFunc(c.lost, func(f core.Fire) bool { return f.Slot > recent }); i >= 0 {
		c.upTo = c.lost[i].At - 1
	}
	return nil
}

func covered(pauses []core.Pause, at core.Instant) bool {
	return slices.ContainsFunc(pauses, func(p core.Pause) bool { return p.Covers(at.Time()) })
}
