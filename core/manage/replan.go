package manage

import (
	"context"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
)

// ReplanResult says what a replan found and sent.
type ReplanResult struct {
	From, To core.Instant // from < instant <= to
	Jobs     int
	Demanded int64
	// Missing is how many demanded instants had neither a run nor a record, and
	// were no longer on their way or for too long; Sent how many of them are on the
	// ring again.
	Missing int64
	Sent    int64
	// OutOfReach is how many may have had either, which is kept no more: they are
	// left alone.
	OutOfReach int64
	Partial    bool // change records of the span were no longer there
}

// Replan sends again, with the same IDs, what an audit of the span finds
// unaccounted for: of one job, or with an empty ref of all. The late rule
// decides when it is dispatched, so an instant gets its run or a record that
// says why not. What is on its way and not late is left alone, and an ID that turns
// out to have a run is decided already: to replan twice does nothing more.
func (m *Manage) Replan(ctx context.Context, actor Actor, ref string, from, to core.Instant) (ReplanResult, error) {
	if err := actor.check(); err != nil {
		return ReplanResult{}, err
	}
	if err := checkSpan(from, to); err != nil {
		return ReplanResult{}, err
	}
	a, err := m.newAudit(ctx, from)
	if err != nil {
		return ReplanResult{}, err
	}
	res := ReplanResult{From: from, To: to}
	var fires []core.Fire
	var failed error
	flush := func() {
		out := plan.Pack(fires, ring.MaxFires, m.o.Plan.Cut.Of)
		for k, err := range m.ring.Enqueue(ctx, out) {
			if err != nil {
				failed = passing(err)
				continue
			}
			res.Sent += int64(len(out[k].Message.Fires))
		}
		fires = fires[:0]
	}
	a.missed = func(w *walk, sch *schedule.Schedule, at core.Instant) {
		res.Missing++
		next, _ := sch.Next(at)
		fires = append(fires, core.Fire{Run: core.PlannedRun(w.rep.Job, at), Rev: w.rev.Rev, At: at,
			Slot: sch.Slot(w.rep.Job, at, next, false), Cause: core.CauseMisfire})
		if len(fires) == 20*ring.MaxFires {
			flush()
		}
	}
	if ref != "" {
		id, err := m.jobID(ctx, ref)
		if err != nil {
			return res, err
		}
		res.Jobs = 1
		for start := from; ; {
			r, err := m.auditJob(ctx, a, ref, id, start, to)
			if err != nil {
				return res, err
			}
			res.Demanded += r.Demanded
			res.OutOfReach += r.OutOfReach
			res.Partial = res.Partial || r.Partial
			if start = r.Next; start == 0 {
				break
			}
		}
	} else {
		sum, err := m.auditAll(ctx, a, from, to)
		if err != nil {
			return res, err
		}
		res.Jobs, res.Demanded, res.OutOfReach, res.Partial = sum.Jobs, sum.Demanded, sum.OutOfReach, sum.Partial
	}
	flush()
	if failed != nil {
		return res, failed
	}
	return res, nil
}
