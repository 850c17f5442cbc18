package query

import (
	"context"
	"math"
	"time"

	"github.com/tickring/tickring/core"
)

// RanWith is the definition of a job at the time when a run was sent.
type RanWith struct {
	core.JobRecord
	// Change is the change that created or edited the job last before the send; nil if its record is not stored.
	Change *core.Change
}

// recordsBack is how many change records before a revision are read to find its definition. Usually the first has it;
// pauses and triggers can precede it.
var recordsBack = []int{10, 100, 1000}

// SentWith returns the job's definition when the run was sent, with the params of the run. In a template, the
// placeholders are replaced by their values, unless the template uses lastSuccessAt.
func (q *Queries) SentWith(ctx context.Context, r *core.Run, job *core.Job) (*RanWith, error) {
	with, err := q.RanWith(ctx, r, job)
	if with == nil || !with.Def.Template || r.Params != nil || !r.Sent() {
		return with, err
	}
	t, bad := core.ParseTemplate(with.Def.Params)
	zone, unknown := time.LoadLocation(with.Schedule.Timezone) // empty means UTC
	if bad != nil || unknown != nil || t.NeedsLastSuccess() {
		return with, err
	}
	if filled, bad := t.Fill(core.Filling{Run: r.ID, Attempt: r.Attempt, At: r.At, Zone: zone}); bad == nil {
		def := *with.Def
		def.Params, def.Template, with.Def = filled, false, &def
	}
	return with, err
}

// RanWith returns the job's definition when the run was sent or, for a waiting run, the current definition. The
// result is nil if no record contains the definition. job is the stored job, or nil if the job was deleted.
func (q *Queries) RanWith(ctx context.Context, r *core.Run, job *core.Job) (with *RanWith, err error) {
	rev := r.RevSent()
	if r.State.Open() && !r.Sent() {
		rev = math.MaxInt64
	}
	if job != nil && job.Sched.Rev <= rev {
		with = &RanWith{JobRecord: core.RecordOf(&job.Sched, &job.Def)}
	}
	for _, n := range recordsBack {
		list, err := q.store.Changes(ctx, "", r.ID.Job(), rev, n)
		if err != nil {
			return nil, core.Retryable(err)
		}
		for i := range list {
			c := &list[i]
			rec, is := core.ParseJobRecord(c.New)
			if !is || rec.Def == nil {
				continue
			}
			if with == nil {
				with = &RanWith{JobRecord: rec}
			}
			if c.Verb == core.VerbCreated || c.Verb == core.VerbUpdated {
				with.Change = c
				return with, nil
			}
		}
		if len(list) < n {
			break
		}
	}
	return with, nil
}
