package finish

import (
	"context"
	"errors"
	"fmt"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// join records for a child of several parents that the parent run r has closed as required: "Joins"
// in docs/internals/follow-ups.md.
func (f *Finish) join(ctx context.Context, job *core.Job, r *core.Run, drawn core.RunID) error {
	for range budget.PermitTries {
		j, noted, err := f.note(ctx, job, r, drawn)
		switch {
		case err != nil:
			return err
		case j.Full || j.Over:
			if err := f.endRound(ctx, job, j); err != nil || noted {
				return err
			}
		case j.Round == drawn:
			return f.await(ctx, job, j)
		default: // the run was created while the job came after each of its parents
			return f.sendThere(ctx, []core.RunID{drawn})
		}
	}
	return fmt.Errorf("record the end of run %d for the join of job %d: %w", r.ID, job.Def.ID, core.ErrThrottled)
}

// note writes the mark of a parent's run, or marks the previous round as over. noted reports
// whether the parent's mark is stored.
func (f *Finish) note(ctx context.Context, job *core.Job, r *core.Run, drawn core.RunID) (is core.Join, noted bool, err error) {
	err = f.putJoin(ctx, &job.Def, func(j *core.Join) bool {
		now := core.InstantOf(f.o.Now())
		changed := false
		switch noted = j.Noted(r.ID, drawn); {
		case j.Full || j.Over:
		case noted:
		case !job.Def.ComesAfter(r.ID.Job()): // it was a parent before an edit
			noted = true
		case j.Round != 0 && j.End <= now:
			j.Over, changed = true, true
		default:
			j.Note(&job.Def, r, drawn, now)
			noted, changed = true, true
		}
		is = *j.Clone()
		return changed
	})
	return is, noted, err
}

// putJoin writes a join if change changed it.
func (f *Finish) putJoin(ctx context.Context, d *core.Def, change func(*core.Join) bool) error {
	return f.PutPermits(ctx, d.JoinName(), nil, func(p *core.Permits) (bool, error) {
		if p.Join == nil {
			p.Join = &core.Join{}
		}
		return change(p.Join), nil
	})
}

// await stores the run of a round that is neither full nor over. The run is due at the end of the
// round's window and is sent like any other.
func (f *Finish) await(ctx context.Context, job *core.Job, j core.Join) error {
	run := f.joined(job, &j)
	run.At, run.Slot = j.Begun, j.End
	there, err := f.create(ctx, []core.Run{run})
	switch {
	case err != nil:
		return err
	case len(there) > 0:
		return f.sendThere(ctx, there)
	}
	return f.send(ctx, &run)
}

// joined returns the run of a round.
func (f *Finish) joined(job *core.Job, j *core.Join) core.Run {
	d := &job.Def
	n, _ := j.Round.Number()
	run := core.Run{ID: j.Round, App: d.App, State: core.Planned, Cause: core.CauseParent, Rev: job.Sched.Rev, Seq: int64(n), Attempt: 1,
		First: j.Round, Parent: j.Parent, Retries: d.Retry.Max}
	run.Follow(d)
	return run
}

// endRound sends or skips the run of a round that is full or over, then clears the round.
func (f *Finish) endRound(ctx context.Context, job *core.Job, j core.Join) error {
	do := f.skipRound
	if j.Full {
		do = f.makeRound
	}
	if err := do(ctx, job, &j); err != nil {
		return err
	}
	return f.putJoin(ctx, &job.Def, func(is *core.Join) bool {
		if is.Round != j.Round {
			return false
		}
		is.Clear()
		return true
	})
}

// makeRound is N1: it makes the run of a full round due now and sends it.
func (f *Finish) makeRound(ctx context.Context, job *core.Job, j *core.Join) error {
	want := f.joined(job, j)
	now := core.InstantOf(f.o.Now())
	want.At, want.Slot = now, now
	params, err := handedOn(job, &want, j.JoinedData(&job.Def))
	if err != nil {
		return err
	}
	want.Params = params
	run, made, err := f.found(ctx, &want)
	for try := 0; err == nil && !made && run.AwaitsJoin(); try++ {
		if try == budget.ReadTries {
			return fmt.Errorf("enqueue run %d of a join: %w", j.Round, core.ErrThrottled)
		}
		if err = f.s.ChangeRuns(ctx, []core.RunPut{run.Retime(want, f.o.Now())})[0]; errors.Is(err, core.ErrThrottled) || ctx.Err() != nil {
			return fmt.Errorf("enqueue run %d of a join: %w", j.Round, err)
		}
		run, _, err = f.found(ctx, nil, j.Round)
	}
	if err != nil || !run.State.Open() {
		return err
	}
	return f.enqueue(ctx, ring.Out{NotBefore: run.Slot.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: run.Slot,
		Fires: []core.Fire{run.Fire()}}})
}

// skipRound is N2: it records the run of a round that is over as skipped.
func (f *Finish) skipRound(ctx context.Context, job *core.Job, j *core.Join) error {
	skip := f.joined(job, j)
	skip.At, skip.Slot = j.Begun, j.End
	skip.State, skip.Reason, skip.EndedAt, skip.Message = core.Skipped, core.ReasonJoin, f.o.Now(), j.Lacks(&job.Def)
	skip.Owe(skip.Notice)
	var err error
	if skip.Journal, err = f.journal(ctx, []core.RunID{skip.ID}); err != nil {
		return err
	}
	run, made, err := f.found(ctx, &skip)
	if err != nil {
		return err
	}
	if made {
		return f.postRun(ctx, &skip)[0]
	}
	return f.skipAwaiting(ctx, &run, skip.Message)
}

// skipAwaiting closes a run whose join is over, if it still waits. If the run is closed already,
// perhaps by our own write without an answer, its post-run work is still requested.
func (f *Finish) skipAwaiting(ctx context.Context, run *core.Run, message string) error {
	for try := 0; run.AwaitsJoin(); try++ {
		put := run.SkipUnsent(core.ReasonJoin, f.o.Now()).Owing(run.Notice)
		put.To.Message = message
		errs := []error{nil}
		puts, _ := f.list(ctx, []core.RunPut{put}, []int{0}, errs)
		if errs[0] != nil {
			return errs[0]
		}
		err := f.s.ChangeRuns(ctx, puts)[0]
		switch {
		case err == nil:
			puts[0].Apply(run)
			f.Ended(run)
			return f.postRun(ctx, run)[0]
		case errors.Is(err, core.ErrThrottled), ctx.Err() != nil, try == budget.ReadTries:
			return fmt.Errorf("skip run %d of a join: %w", run.ID, err)
		}
		is, _, err := f.found(ctx, nil, run.ID)
		if err != nil {
			return err
		}
		*run = is
	}
	return f.postRun(ctx, run)[0] // the process that closed it may have died before this request
}

// found returns a stored run. If want is set and not stored, found creates it first and sets
// made.
func (f *Finish) found(ctx context.Context, want *core.Run, id ...core.RunID) (run core.Run, made bool, err error) {
	if want != nil {
		id = []core.RunID{want.ID}
		switch err := f.createRuns(ctx, []core.Run{*want})[0]; {
		case err == nil:
			if !want.State.Open() {
				f.Ended(want)
			}
			return *want, true, nil
		case errors.Is(err, core.ErrThrottled), ctx.Err() != nil:
			return run, false, fmt.Errorf("create run %d: %w", want.ID, err)
		}
	}
	is, err := f.s.Run(ctx, id[0])
	if err == nil && is == nil {
		err = core.ErrThrottled
	}
	if err != nil {
		return run, false, fmt.Errorf("read run %d of a join: %w", id[0], err)
	}
	return *is, false, nil
}

// JoinDue ends the wait of a run for its parents, when the time limit of the wait (the join) has passed. If all parents have
// ended, the run is sent. Otherwise it is skipped.
func (f *Finish) JoinDue(ctx context.Context, run *core.Run) error {
	job, err := f.readJob(ctx, store.Whole, run.ID.Job())
	if err != nil {
		return fmt.Errorf("read job %d: %w", run.ID.Job(), err)
	}
	if job == nil { // deleted since: its fire is dropped
		return fmt.Errorf("join of run %d: the job does not exist: %w", run.ID, core.ErrThrottled)
	}
	var is core.Join
	early := false
	err = f.putJoin(ctx, &job.Def, func(j *core.Join) bool {
		early, is = false, *j
		if j.Round != run.ID || j.Full || j.Over {
			return false
		}
		if j.Full = j.Complete(&job.Def); !j.Full {
			if early = j.End > core.InstantOf(f.o.Now()); early {
				return false
			}
			j.Over = true
		}
		is = *j.Clone()
		return true
	})
	switch {
	case err != nil:
		return err
	case early:
		return fmt.Errorf("join of run %d: the time limit is not over: %w", run.ID, core.ErrThrottled)
	case is.Round != run.ID:
		return f.skipAwaiting(ctx, run, "")
	}
	return f.endRound(ctx, job, is)
}
