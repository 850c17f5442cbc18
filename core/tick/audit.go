package tick

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

const (
	// maxRecovered bounds the instants of one job that a pass sends again; the
	// next window's comparison goes on, and replan takes all.
	maxRecovered = 1000
	maxRead      = 5000 // runs of a window
	// lookBack bounds how old an instant is that is sent again: the record of its
	// run is kept for a day at least.
	lookBack = 24 * time.Hour
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

// audit compares, for each job that is planned, its last finished window with
// its runs, and adds the fires of instants that have neither a run nor a record.
// It does so while messages are due or in flight too: what was due before the
// oldest of them is on none, unless one of its slot was put back.
// It is a net below the ring: what cannot be compared now is left.
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
			fires, err := t.lost(ctx, t.o.Plan.With(g.Groups), s, pausesOf(g, apps[s.App]), upTo)
			if err != nil {
				t.o.Log.Warn("the last window of a job could not be compared with its runs", "job", s.ID, "err", err)
				return
			}
			fires = slices.DeleteFunc(fires, func(f core.Fire) bool { return oldest.PutBack(f.Slot, f.Slot) })
			for _, f := range fires {
				t.o.Log.Error("an instant had neither a run nor a record: it is sent again", "job", s.ID, "run", f.Run, "instant", f.At)
			}
			plans[i].lost = fires
		})
	}
	all.Wait()
}

var errUnclear = errors.New("of the pauses in the window the first are not known any more")

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

// lost is the fires of the job's last finished window that never became runs.
// Of a job that fires less than once a window it is what was due after its
// newest run. Where the number of groups has changed since, or the ring was behind
// by more than a part of a window and has caught up, some may be in no comparison;
// replan takes it.
func (t *Ticker) lost(ctx context.Context, o plan.Options, s core.Sched, paused pauses, until time.Time) ([]core.Fire, error) {
	sch, err := schedule.Compile(s.Schedule, s.ID)
	if err != nil {
		return nil, err
	}
	if _, fixed := sch.FixedDelay(); fixed {
		return nil, nil
	}
	upTo := core.InstantOf(until.Add(-s.Schedule.Jitter))
	if s.Next != 0 {
		upTo = min(upTo, s.Next-1) // from there on it is being planned
	}
	since := core.InstantOf(s.RevAt) // instants after it are demanded
	if upTo <= since {
		return nil, nil
	}
	end := o.WindowStart(s.ID, upTo) - 1
	from := o.WindowStart(s.ID, end) - 1
	if at, ok := sch.Next(from); !ok || at > end { // lonely
		end = upTo
		first, last := core.RunRange(s.ID, since+1, end)
		newest, err := t.store.RunSpan(ctx, last, first, 1)
		if err != nil {
			return nil, err
		}
		from = since
		if len(newest) > 0 {
			from, _ = newest[0].ID.Planned()
		}
	}
	from = max(from, since, upTo.Add(-lookBack))
	var lost []core.Fire
	have := map[core.RunID]bool{}
	read := false
	for at, ok := sch.Next(from); ok && at <= end && len(lost) < maxRecovered; {
		next, more := sch.Next(at)
		if !read {
			read = true
			first, last := core.RunRange(s.ID, at, end)
			runs, err := t.store.RunSpan(ctx, first, last, min(int(last-first)+1, maxRead))
			if err != nil {
				return nil, err
			}
			for i := range runs {
				have[runs[i].ID] = true
			}
			if len(runs) == maxRead { // no window has so many
				end, _ = runs[len(runs)-1].ID.Planned()
			}
		}
		id := core.PlannedRun(s.ID, at)
		if !have[id] && !covered(paused.list, at) {
			frequent := more && next-at < core.Instant(o.Window/time.Second)
			lost = append(lost, core.Fire{Run: id, Rev: s.Rev, At: at, Slot: sch.Slot(s.ID, at, next, frequent), Cause: core.CauseMisfire, Seq: s.Seq})
		}
		at, ok = next, more
	}
	if len(lost) == 0 {
		return nil, nil
	}
	if paused.known.After(from.Time()) {
		return nil, errUnclear
	}
	skips, err := t.store.Skips(ctx, s.ID, lost[0].At, lost[len(lost)-1].At)
	if err != nil {
		return nil, err
	}
	kept := lost[:0]
	for _, f := range lost {
		told := false
		for i := range skips {
			told = told || skips[i].Covers(f.At)
		}
		if !told {
			kept = append(kept, f)
		}
	}
	return kept, nil
}

func covered(pauses []core.Pause, at core.Instant) bool {
	for _, p := range pauses {
		if p.Covers(at.Time()) {
			return true
		}
	}
	return false
}
