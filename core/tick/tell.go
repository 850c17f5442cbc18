package tick

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// tell has people told of what these plans skip, and of jobs that cannot be planned for another
// reason than is stored of them, before anything of that is recorded. A repeat has the same runs,
// and is told of once.
func (t *Ticker) tell(ctx context.Context, plans []planned, skips []core.Skip) error {
	now := t.o.Now()
	var notes []ring.Note
	for _, s := range skips {
		if core.SkipTold(s.Reason) {
			notes = append(notes, ring.Note{Job: s.Job, Event: core.EventSkipped, Run: core.PlannedRun(s.Job, s.First), At: s.First,
				Reason: s.Reason, Count: s.Count, When: now})
		}
	}
	for i := range plans {
		if s := &plans[i].of; plans[i].unplanned() {
			notes = append(notes, unplanned(s.ID, plans[i].Advance.PlanError))
			notes[len(notes)-1].When = now
		}
	}
	return t.note(ctx, notes)
}

// unplanned reports that a job cannot be planned, for a reason that is not stored of it yet.
func (p *planned) unplanned() bool {
	return p.Advance.PlanError != "" && p.Advance.PlanError != p.of.PlanError
}

// unplanned is the note of a job that cannot be planned. The run that it names there is none
// of: it stands for the reason.
func unplanned(job core.JobID, why string) ring.Note {
	h := fnv.New32a()
	h.Write([]byte(why))
	return ring.Note{Job: job, Event: core.EventUnplanned, Run: core.NumberedRun(job, h.Sum32()&core.MaxNumber|1), Why: why}
}

func (t *Ticker) note(ctx context.Context, notes []ring.Note) (err error) {
	now := t.o.Now()
	for _, e := range t.ring.Enqueue(ctx, ring.Noted(notes, now)) {
		err = errors.Join(err, e)
	}
	if err != nil {
		return fmt.Errorf("have people told: %w", err)
	}
	return nil
}
