package finish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// piece is how many children are made together.
const piece = 25

// Children makes the runs that come after the end of a chain, place by place: C1 and F2 to
// F4 of the protocol. Any number of callers may do it any number of times.
func (f *Finish) Children(ctx context.Context, run *core.Run) error {
	r := *run
	for tries := 0; r.OwesChildren(); {
		parent, err := f.job(ctx, r.ID.Job())
		if err != nil {
			return err
		}
		var list []core.Child // of a job that is gone: none
		if parent != nil {
			list = parent.Def.ChildrenAfter(&r)
		}
		put, err := f.nextPlace(ctx, &r, list)
		if err != nil {
			return fmt.Errorf("children of run %d: %w", r.ID, err)
		}
		switch err := f.store.PutRuns(ctx, []core.RunPut{put})[0]; {
		case err == nil:
			put.Apply(&r)
			tries = 0
		case errors.Is(err, core.ErrThrottled), ctx.Err() != nil, tries == readTries:
			return fmt.Errorf("note the children of run %d: %w", r.ID, err)
		default: // refused or unknown: by what is stored
			tries++
			found, unread, err := f.store.Runs(ctx, []core.RunID{r.ID})
			if err == nil && len(unread) > 0 {
				err = core.ErrThrottled
			}
			if err != nil {
				return fmt.Errorf("read run %d, whose children follow: %w", r.ID, err)
			}
			r = found[r.ID]
		}
	}
	return nil
}

// nextPlace draws the IDs of the next children in list; of those that are drawn it makes
// the runs and sends them. It answers what is to be noted of that.
func (f *Finish) nextPlace(ctx context.Context, r *core.Run, list []core.Child) (put core.RunPut, err error) {
	switch {
	case len(r.Owes) == 0 && len(list) == 0:
		put = r.NoteChildren(0)
		put.If |= core.RunOwes
		return put, nil
	case len(r.Owes) == 0:
		owes, err := f.draw(ctx, list[:min(len(list), piece)])
		return r.Draw(owes), err
	}
	if err := f.makeChildren(ctx, r); err != nil {
		return put, err
	}
	last, place := r.Owes[len(r.Owes)-1].Run.Job(), int64(0)
	if slices.ContainsFunc(list, func(c core.Child) bool { return c.Job > last }) {
		place = core.PlaceAfter(last)
	}
	return r.NoteChildren(place), nil
}

// draw draws the IDs of children, each of its own job's, side by side.
func (f *Finish) draw(ctx context.Context, list []core.Child) ([]core.Owed, error) {
	owes, errs := make([]core.Owed, len(list)), make([]error, len(list))
	slot := core.InstantOf(f.o.Now())
	var lanes sync.WaitGroup
	for i, c := range list {
		lanes.Go(func() {
			n, err := f.store.Numbers(ctx, c.Job, 1)
			if err != nil {
				err = fmt.Errorf("draw a number of job %d: %w", c.Job, err)
			}
			owes[i], errs[i] = core.Owed{Run: core.NumberedRun(c.Job, n), Kind: core.CauseParent, Slot: slot}, err
		})
	}
	lanes.Wait()
	return owes, errors.Join(errs...)
}

// makeChildren is F2 and F3 of the children that a run owes.
func (f *Finish) makeChildren(ctx context.Context, r *core.Run) error {
	ids := make([]core.JobID, len(r.Owes))
	for i, o := range r.Owes {
		ids[i] = o.Run.Job()
	}
	jobs, unread, err := f.store.Jobs(ctx, ids)
	bad, err := core.Besides(err)
	if err := core.Unread(unread, err); err != nil {
		return err
	}
	apps, err := f.appsOf(ctx, ids, jobs, bad)
	if err != nil {
		return err
	}
	owed, fires := make([]core.Run, 0, len(r.Owes)), make([]core.Fire, 0, len(r.Owes))
	var joins []core.Owed
	for _, o := range r.Owes {
		if job := jobs[o.Run.Job()]; job != nil && job.Def.Joins() {
			joins = append(joins, o)
			continue
		}
		n, _ := o.Run.Number()
		c := core.Run{ID: o.Run, App: apps[o.Run.Job()], State: core.Planned, Cause: o.Kind, At: o.Slot, Slot: o.Slot, Seq: int64(n),
			Attempt: 1, First: o.Run, Parent: r.ID}
		if job := jobs[o.Run.Job()]; job != nil {
			d := &job.Def
			c.App, c.Rev, c.Retries = d.App, job.Sched.Rev, d.Retry.Max
			c.Follow(d)
			if c.Params, err = handedOn(job, &c, r.Data); err != nil {
				return fmt.Errorf("params of job %d: %w", d.ID, err)
			}
		}
		owed, fires = append(owed, c), append(fires, c.Fire())
	}
	for _, o := range joins {
		if err := f.join(ctx, jobs[o.Run.Job()], r, o.Run); err != nil {
			return err
		}
	}
	if len(owed) == 0 {
		return nil
	}
	there, err := f.create(ctx, owed)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		if err := f.sendThere(ctx, there); err != nil {
			return err
		}
	}
	return f.enqueue(ctx, ring.Out{NotBefore: r.Owes[0].Slot.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: r.Owes[0].Slot,
		Fires: fires}})
}

// sendThere sends those of some runs on their way that are stored and that nobody has, as
// they are stored. Their job may have been edited since they were made, to come after each
// of its parents or after all: a message of another slot would find them moved.
func (f *Finish) sendThere(ctx context.Context, ids []core.RunID) error {
	found, unread, err := f.store.Runs(ctx, ids)
	if err := core.Unread(unread, err); err != nil {
		return fmt.Errorf("read children that are there: %w", err)
	}
	for _, id := range ids {
		if r, is := found[id]; is && r.State == core.Planned && r.Owner == "" && !r.MaybeSent {
			if err := f.send(ctx, &r); err != nil {
				return err
			}
		}
	}
	return nil
}

// handedOn are the params of a child whose template names the data of its parent; nil where
// it does not.
func handedOn(job *core.Job, c *core.Run, data string) (*string, error) {
	if !job.Def.Template {
		return nil, nil
	}
	t, err := core.ParseTemplate(job.Def.Params)
	if err != nil || !t.NeedsParent() {
		return nil, err
	}
	zone, err := time.LoadLocation(job.Sched.Schedule.Timezone) // empty is UTC
	if err != nil {
		return nil, err
	}
	text, err := t.Fill(core.Filling{Run: c.ID, Attempt: c.Attempt, At: c.At, Zone: zone, ParentData: data})
	return &text, err
}

// appsOf names the apps of the jobs that are gone or cannot be understood: their fires
// are judged as any.
func (f *Finish) appsOf(ctx context.Context, ids []core.JobID, jobs map[core.JobID]*core.Job, bad core.Unreadable) (map[core.JobID]string,
	error) {
	apps := map[core.JobID]string{}
	rest := slices.DeleteFunc(slices.Clone(ids), func(id core.JobID) bool { return jobs[id] != nil })
	if len(rest) == 0 {
		return nil, nil
	}
	tombs, err := f.store.Tombstones(ctx, rest)
	if err != nil {
		return nil, fmt.Errorf("read tombstones: %w", err)
	}
	scheds, _, err := f.store.Scheds(ctx, rest)
	if _, err = core.Besides(err); err != nil {
		return nil, fmt.Errorf("read schedules: %w", err)
	}
	for _, id := range rest {
		if apps[id] = tombs[id].App; bad[id] != nil {
			apps[id] = scheds[id].App
		}
	}
	return apps, nil
}

// job reads one; nil where it is gone.
func (f *Finish) job(ctx context.Context, id core.JobID) (*core.Job, error) {
	found, unread, err := f.store.Jobs(ctx, []core.JobID{id})
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return nil, fmt.Errorf("read job %d: %w", id, err)
	}
	return found[id], nil
}
