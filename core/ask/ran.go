package ask

import (
	"context"
	"math"
	"time"

	"github.com/tickring/tickring/core"
)

// RanWith is what the job of a run said when that was sent.
type RanWith struct {
	core.JobRecord
	// Change made or edited the job last before that; nil where its record is not found.
	Change *core.Change
}

// recordsBack is how many change records before a revision are read for its definition. The
// first most often has it; behind it are pauses and triggers.
var recordsBack = []int{10, 100, 1000}

// SentWith is RanWith with the params that a run was sent with: a template is filled as
// dispatch filled it, except one that names the last success.
func (q *Ask) SentWith(ctx context.Context, r *core.Run, job *core.Job) (*RanWith, error) {
	with, err := q.RanWith(ctx, r, job)
	if with == nil || !with.Def.Template || r.Params != nil || !r.Sent() {
		return with, err
	}
	t, bad := core.ParseTemplate(with.Def.Params)
	zone, unknown := time.LoadLocation(with.Schedule.Timezone) // empty is UTC
	if bad != nil || unknown != nil || t.NeedsLastSuccess() {
		return with, err
	}
	if filled, bad := t.Fill(core.Filling{Run: r.ID, Attempt: r.Attempt, At: r.At, Zone: zone}); bad == nil {
		def := *with.Def
		def.Params, def.Template, with.Def = filled, false, &def
	}
	return with, err
}

// RanWith is what the job of a run said when that was sent, of one that waits what it says
// now; nil where no record says it. The job is as it stands, nil where it was deleted.
func (q *Ask) RanWith(ctx context.Context, r *core.Run, job *core.Job) (with *RanWith, err error) {
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
			return nil, core.Passing(err)
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
