package finish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// piece is how many children are created together.
const piece = 25

// A family holds the progress of creating the children of one ended chain.
type family struct {
	run    core.Run
	parent *core.Job    // as read for the children after its place; nil if deleted or unread
	list   []core.Child // children of parent after its place
	put    core.RunPut  // the next write to the run
	tries  int
	err    error
	left   []core.Owed // children that could not be created and stay pending
	why    error       // first error of left
}

// families creates the pending child runs of runs whose retry chains have ended, step by step for all, with one answer for
// each. These are the steps C1 and F2 to F4 in docs/internals/claim-protocol.md. Repeated and concurrent calls are safe.
func (f *Finish) families(ctx context.Context, runs ...*core.Run) []error {
	all := make([]*family, len(runs))
	for i, r := range runs {
		all[i] = &family{run: *r}
	}
	for {
		var drawn, rest []*family
		for _, fam := range all {
			switch {
			case fam.err != nil || !fam.run.OwesChildren():
			case len(fam.run.Owes) > 0:
				drawn = append(drawn, fam)
			default:
				fam.parent, rest = nil, append(rest, fam)
			}
		}
		if len(drawn)+len(rest) == 0 {
			break
		}
		f.lists(ctx, slices.Concat(drawn, rest))
		f.draw(ctx, rest)
		f.makeChildren(ctx, drawn)
		f.noteMade(ctx, slices.Concat(drawn, rest))
		for _, fam := range drawn {
			fam.err = cmp.Or(fam.err, fam.why)
		}
	}
	errs := make([]error, len(all))
	for i, fam := range all {
		if fam.err != nil {
			errs[i] = fmt.Errorf("children of run %d: %w", fam.run.ID, fam.err)
		}
	}
	return errs
}

// without returns the families that have no error.
func without(all []*family) []*family {
	return slices.DeleteFunc(slices.Clone(all), func(fam *family) bool { return fam.err != nil })
}

// lists reads the children of each family that has not read them since its place last changed.
func (f *Finish) lists(ctx context.Context, all []*family) {
	var ids []core.JobID
	for _, fam := range all {
		if fam.parent == nil {
			ids = append(ids, fam.run.ID.Job())
		}
	}
	if len(ids) == 0 {
		return
	}
	jobs, err := f.s.Jobs.Get(ctx, store.Whole, distinct(ids))
	for _, fam := range all {
		job := fam.run.ID.Job()
		got, is := jobs[job]
		switch {
		case fam.parent != nil:
		case err != nil:
			fam.err = fmt.Errorf("read job %d: %w", job, err)
		case got.Err != nil:
			fam.err = core.UnreadableJob(job, got.Err)
		case !is:
			fam.list = nil
		default:
			fam.parent, fam.list = got.Is, got.Is.Def.ChildrenAfter(&fam.run)
		}
	}
}

// draw allocates the IDs of the next children: one call for each child job, in parallel.
func (f *Finish) draw(ctx context.Context, all []*family) {
	type want struct {
		fam   *family
		place int
	}
	wants := map[core.JobID][]want{}
	for _, fam := range without(all) {
		if len(fam.list) == 0 {
			fam.put = fam.run.NoteChildren(0, nil)
			continue
		}
		next := fam.list[:min(len(fam.list), piece)]
		for i, c := range next {
			wants[c.Job] = append(wants[c.Job], want{fam, i})
		}
		fam.put = fam.run.Draw(make([]core.Owed, len(next)))
	}
	jobs, slot := slices.Collect(maps.Keys(wants)), core.InstantOf(f.o.Now())
	first, errs := make([]uint32, len(jobs)), make([]error, len(jobs))
	store.AtOnce(len(jobs), func(k int) { first[k], errs[k] = f.s.RunNumbers(ctx, jobs[k], len(wants[jobs[k]])) })
	for k, job := range jobs {
		for i, w := range wants[job] {
			w.fam.put.To.Owes[w.place] = core.Owed{Run: core.NumberedRun(job, first[k]+uint32(i)), Kind: core.CauseParent, Slot: slot}
			if errs[k] != nil && w.fam.err == nil {
				w.fam.err = fmt.Errorf("allocate run IDs of job %d: %w", job, errs[k])
			}
		}
	}
}

// noteMade records on each run the children that were allocated or created.
func (f *Finish) noteMade(ctx context.Context, all []*family) {
	all = without(all)
	puts, again := make([]core.RunPut, len(all)), []core.RunID{}
	for i, fam := range all {
		puts[i] = fam.put
	}
	if len(puts) == 0 {
		return
	}
	answers := f.s.ChangeRuns(ctx, puts)
	for i, fam := range all {
		switch err := answers[i]; {
		case err == nil:
			puts[i].Apply(&fam.run)
			fam.tries = 0
		case errors.Is(err, core.ErrThrottled), ctx.Err() != nil, fam.tries == budget.ReadTries:
			fam.err = fmt.Errorf("note them: %w", err)
		default: // conflict or unknown: go on from the stored run
			fam.tries++
			fam.parent, again = nil, append(again, fam.run.ID)
		}
	}
	if len(again) == 0 {
		return
	}
	found, err := f.s.Runs.Get(ctx, again)
	for i, fam := range all {
		got, is := found[fam.run.ID]
		switch err := cmp.Or(err, got.Err); {
		case answers[i] == nil || fam.err != nil:
		case err != nil:
			fam.err = fmt.Errorf("read the run: %w", err)
		case !is:
			fam.run = core.Run{ID: fam.run.ID}
		default:
			fam.run = *got.Is
		}
	}
}

// A child is a run that must be created.
type child struct {
	of  *family
	run core.Run
}

// makeChildren is F2 and F3 for the pending children of runs.
func (f *Finish) makeChildren(ctx context.Context, all []*family) {
	owed, joins := f.owed(ctx, without(all))
	f.joins(ctx, joins)
	if len(owed) > 0 {
		f.sendChildren(ctx, f.createChildren(ctx, owed))
	}
	for _, fam := range without(all) {
		owes := fam.run.Owes
		place := max(fam.run.Place, core.PlaceAfter(owes[len(owes)-1].Run.Job()))
		behind := func(c core.Child) bool { return core.PlaceAfter(c.Job) > place }
		switch {
		case len(fam.left) == len(owes):
			fam.err = fam.why // no change to record
		case len(fam.left) == 0 && !slices.ContainsFunc(fam.list, behind):
			place = 0
		}
		fam.put = fam.run.NoteChildren(place, fam.left)
	}
}

// leave keeps a child that could not be created among the pending ones. Created children do not
// stay pending, because their runs may end and be deleted before the others are created.
func (fam *family) leave(id core.RunID, why error) {
	for _, o := range fam.run.Owes {
		if o.Run == id && !slices.Contains(fam.left, o) {
			fam.left = append(fam.left, o)
		}
	}
	fam.why = cmp.Or(fam.why, why)
}

// A joining is an ended parent run to record for a join.
type joining struct {
	of    *family
	drawn core.RunID
}

// owed returns the pending children of families; joins are returned by their jobs.
func (f *Finish) owed(ctx context.Context, all []*family) (owed []child, joins map[*core.Job][]joining) {
	var ids []core.JobID
	for _, fam := range all {
		for _, o := range fam.run.Owes {
			ids = append(ids, o.Run.Job())
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	ids = distinct(ids)
	jobs, err := f.s.Jobs.Get(ctx, store.Whole, ids)
	var gone map[core.JobID]core.Tombstone
	if err == nil {
		gone, err = f.gone(ctx, slices.DeleteFunc(ids, func(id core.JobID) bool {
			_, is := jobs[id]
			return is
		}))
	}
	joins = map[*core.Job][]joining{}
	for _, fam := range all {
		if fam.err = err; err != nil {
			continue
		}
		for _, o := range fam.run.Owes {
			id := o.Run.Job()
			got := jobs[id]
			job := got.Is
			if job != nil && got.Err == nil && job.Def.Joins() {
				joins[job] = append(joins[job], joining{fam, o.Run})
				continue
			}
			n, _ := o.Run.Number()
			c := core.Run{ID: o.Run, App: gone[id].App, State: core.Planned, Cause: o.Kind, At: o.Slot, Slot: o.Slot, Seq: int64(n),
				Attempt: 1, First: o.Run, Parent: fam.run.ID}
			var why error
			switch {
			case got.Err != nil: // stored, so not deleted
				why = core.UnreadableJob(id, got.Err)
			case job != nil:
				d := &job.Def
				c.App, c.Rev, c.Retries = d.App, job.Sched.Rev, d.Retry.Max
				c.Follow(d)
				if c.Params, why = handedOn(job, &c, fam.run.Data); why != nil {
					why = fmt.Errorf("params of job %d: %w", id, why)
				}
			}
			if why != nil {
				fam.leave(o.Run, why)
				continue
			}
			owed = append(owed, child{fam, c})
		}
	}
	return owed, joins
}

// joins records ends for joins: in order for one join, joins in parallel.
func (f *Finish) joins(ctx context.Context, of map[*core.Job][]joining) {
	var mu sync.Mutex
	var lanes sync.WaitGroup
	for job, list := range of {
		lanes.Go(func() {
			for _, j := range list {
				if err := f.join(ctx, job, &j.of.run, j.drawn); err != nil {
					mu.Lock()
					j.of.leave(j.drawn, err)
					mu.Unlock()
				}
			}
		})
	}
	lanes.Wait()
}

// createChildren is F2. It returns the children that must be sent.
func (f *Finish) createChildren(ctx context.Context, owed []child) (fires []child) {
	runs := make([]core.Run, len(owed))
	for i, c := range owed {
		runs[i] = c.run
	}
	var there []child
	for i, err := range f.createEach(ctx, runs) {
		switch c := owed[i]; {
		case errors.Is(err, core.ErrRefused):
			there = append(there, c)
			fires = append(fires, c)
		case err != nil:
			c.of.leave(c.run.ID, err)
		default:
			fires = append(fires, c)
		}
	}
	if len(there) > 0 {
		ids := make([]core.RunID, len(there))
		for i, c := range there {
			ids[i] = c.run.ID
		}
		if err := f.sendThere(ctx, ids); err != nil {
			for _, c := range there {
				c.of.leave(c.run.ID, err)
			}
		}
	}
	return fires
}

// sendChildren is F3 for the created children. Fires of one due time share messages.
func (f *Finish) sendChildren(ctx context.Context, made []child) {
	bySlot := map[core.Instant][]child{}
	for _, c := range made {
		bySlot[c.run.Slot] = append(bySlot[c.run.Slot], c)
	}
	for slot, of := range bySlot {
		for part := range slices.Chunk(of, ring.MaxFires) {
			m := ring.Message{Kind: ring.KindFires, Slot: slot}
			for _, c := range part {
				m.Fires = append(m.Fires, c.run.Fire())
			}
			if err := f.enqueue(ctx, ring.Out{NotBefore: slot.Time(), Message: m}); err != nil {
				for _, c := range part {
					c.of.leave(c.run.ID, err)
				}
			}
		}
	}
}

// sendThere sends the runs of ids that are stored and have no owner, with their stored due time. An edit that made the job a
// join, or stopped it being one, may have moved them. A message with another due time would not match.
func (f *Finish) sendThere(ctx context.Context, ids []core.RunID) error {
	found, err := store.Complete(f.s.Runs.Get(ctx, ids))
	if err != nil {
		return fmt.Errorf("read existing child runs: %w", core.Retryable(err))
	}
	for _, id := range ids {
		if r := found[id]; r != nil && r.State == core.Planned && r.Owner == "" && !r.MaybeSent {
			if err := f.send(ctx, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// handedOn returns the params of a child whose template uses the parent's data, or nil if the
// template does not.
func handedOn(job *core.Job, c *core.Run, data string) (*string, error) {
	if !job.Def.Template {
		return nil, nil
	}
	t, err := core.ParseTemplate(job.Def.Params)
	if err != nil || !t.NeedsParent() {
		return nil, err
	}
	zone, err := time.LoadLocation(job.Sched.Schedule.Timezone) // empty means UTC
	if err != nil {
		return nil, err
	}
	text, err := t.Fill(core.Filling{Run: c.ID, Attempt: c.Attempt, At: c.At, Zone: zone, ParentData: data})
	return &text, err
}

// gone reads the tombstones of deleted jobs, whose fires are handled like any others.
func (f *Finish) gone(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Tombstone, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	tombs, err := f.s.Tombstones(ctx, jobs)
	if err != nil {
		return nil, fmt.Errorf("read tombstones: %w", err)
	}
	return tombs, nil
}

// readJob reads a part of a job, nil if the job is deleted.
func (f *Finish) readJob(ctx context.Context, part store.Part, id core.JobID) (*core.Job, error) {
	jobs, bad, err := store.Split(f.s.Jobs.Get(ctx, part, []core.JobID{id}))
	return jobs[id], cmp.Or(err, core.UnreadableJob(id, bad[id]))
}
