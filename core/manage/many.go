package manage

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/store"
)

// Many is the result for one job of a change to many jobs.
type Many struct {
	Changed bool // false: the job already had the requested state
	Err     error
}

// PauseJobs pauses jobs by ID. A job that is already paused keeps the reason and the end of its pause. If the bulk
// operation is undone, this job stays paused.
func (m *Manage) PauseJobs(ctx context.Context, actor core.Actor, jobs []core.JobID, r PauseRequest) ([]Many, error) {
	until, err := m.until(r.Until)
	if err == nil {
		err = checkMany(actor, r.Why)
	}
	if err != nil {
		return nil, err
	}
	pause, now := m.pausing(actor, r, until), m.ask.Now()
	return m.editMany(ctx, jobs, func(old *core.Job) (*edit, error) {
		if old.Sched.PausedAt(now) {
			return nil, nil
		}
		return pause(old)
	}), nil
}

// ResumeJobs ends the pauses of jobs by ID. If the parameter revs is not nil, ResumeJobs changes only jobs whose revision
// is still the revision in revs.
func (m *Manage) ResumeJobs(ctx context.Context, actor core.Actor, jobs []core.JobID, why string, revs map[core.JobID]int64) (
	[]Many, error) {
	if err := checkMany(actor, why); err != nil {
		return nil, err
	}
	resume := m.resuming(actor, why)
	return m.editMany(ctx, jobs, func(old *core.Job) (*edit, error) {
		if revs != nil && revs[old.Def.ID] != old.Sched.Rev {
			return nil, nil
		}
		return resume(old)
	}), nil
}

// LabelJobs sets labels of jobs by ID. An empty value removes the label.
func (m *Manage) LabelJobs(ctx context.Context, actor core.Actor, jobs []core.JobID, labels map[string]string, why string) ([]Many, error) {
	if err := checkMany(actor, why); err != nil {
		return nil, err
	}
	if len(labels) == 0 || len(labels) > core.MaxLabels {
		return nil, core.Invalid("labels", "", "1 to %d are allowed", core.MaxLabels)
	}
	return m.editMany(ctx, jobs, func(old *core.Job) (*edit, error) {
		want := maps.Clone(old.Def.Labels)
		if want == nil {
			want = map[string]string{}
		}
		for key, value := range labels {
			if want[key] = value; value == "" {
				delete(want, key)
			}
		}
		if maps.Equal(want, old.Def.Labels) {
			return nil, nil
		}
		e := newEdit(old, actor, core.VerbUpdated, why, m.ask.Stamp())
		if e.want.Def.Labels = want; old.Def.Declared != "" {
			e.want.Def.Declared = core.DeclaredTaken
		}
		shown := core.Job{Def: e.want.Def.WithSecrets(func(string) string { return core.AsStored }), Sched: e.want.Sched} // may be locked
		if err := shown.Validate(); err != nil {
			return nil, err
		}
		if s := &e.want.Sched; old.Sched.State == core.Paused {
			*s = plan.Pause(*s, s.PauseBy, s.PauseWhy, s.PauseUntil, m.plans)
			return e, nil
		}
		return e, m.start(e)
	}), nil
}

func checkMany(actor core.Actor, why string) error {
	if err := actor.Validate(); err != nil {
		return err
	}
	return CheckWhy(why)
}

// editMany changes jobs, many in one write. After a conflict or a lost answer, a job is changed alone.
func (m *Manage) editMany(ctx context.Context, ids []core.JobID, build buildEdit) []Many {
	out := make([]Many, len(ids))
	for start := 0; start < len(ids); start += budget.AtOnce {
		part, gave := ids[start:min(start+budget.AtOnce, len(ids))], out[start:min(start+budget.AtOnce, len(ids))]
		for i, settled := range m.editPart(ctx, part, gave, build) {
			if settled {
				continue
			}
			if ctx.Err() != nil {
				gave[i].Err = core.Retryable(ctx.Err())
				continue
			}
			_, gave[i].Changed, gave[i].Err = m.editJob(ctx, part[i].String(), build)
		}
	}
	return out
}

// editPart changes jobs in one write, and reports for each whether its result is final.
func (m *Manage) editPart(ctx context.Context, ids []core.JobID, out []Many, build buildEdit) (settled []bool) {
	settled = make([]bool, len(ids))
	got, err := m.store.Jobs.Get(ctx, store.Whole, ids)
	if err != nil {
		return settled
	}
	found, _, _ := store.Split(got, nil) // the other jobs are changed alone
	if some, err := m.pausesEnded(ctx, slices.Collect(maps.Values(found))); some || err != nil {
		return settled
	}
	g, err := m.ask.Global(ctx)
	if err != nil {
		return settled
	}
	var edits []*edit
	var of []int
	for i, id := range ids {
		if found[id] == nil {
			continue
		}
		old := *found[id]
		e, err := build(&old)
		switch {
		case err != nil:
			settled[i], out[i].Err = true, err
		case e == nil:
			settled[i] = true
		default:
			edits, of = append(edits, e), append(of, i)
		}
	}
	var changed []core.Sched
	for k, err := range m.commit(ctx, edits, g) {
		if err != nil {
			continue
		}
		i := of[k]
		settled[i], out[i].Changed = true, true
		changed = append(changed, edits[k].want.Sched)
	}
	m.plan(ctx, changed...)
	return settled
}

// until returns the end of a pause, rounded up; zero means none.
func (m *Manage) until(asked *time.Time) (until time.Time, err error) {
	if asked == nil {
		return until, nil
	}
	now := m.ask.Stamp()
	until = core.Ceil(*asked).Time()
	if !until.After(now) || until.After(now.Add(MaxPause)) {
		return until, core.Invalid("until", asked.Format(time.RFC3339), "a pause must end in the future and within ten years")
	}
	return until, nil
}
