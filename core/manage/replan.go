package manage

import (
	"context"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
)

// ReplanResult says what a replan found and sent.
type ReplanResult struct {
	From, To core.Instant // from < instant <= to
	Jobs     int
	Demanded int64
	// Missing is how many demanded instants had neither a run nor a record, and
	// were no longer on their way or for too long; with To 0 those on their way too,
	// and runs that nobody is at. Sent is how many of them are on the ring again.
	Missing int64
	Sent    int64
	// OutOfReach is how many may have had either, which is kept no more: they are
	// left alone.
	OutOfReach int64
	Failed     []string // jobs that could not be looked at, and why, at most 100: they are in no count
	Partial    bool     // change records of the span were no longer there
	Next       string   // After of the next page; empty all was looked at
}

// ReplanPage sends again, with the same IDs, what an audit finds unaccounted for,
// as AuditPage in pages. The late rule decides when it is dispatched, so an instant
// gets its run or a record that says why not. What is on its way and not late is
// left alone. With To 0 it is not: then the ring may have lost all that was on it, and
// what is planned ahead, due or to come, goes on it again, if it has neither an end
// nor somebody who is at it. An ID that turns out to have a run is decided already:
// to replan twice does nothing more.
func (m *Manage) ReplanPage(ctx context.Context, actor Actor, ask AuditAsk) (ReplanResult, error) {
	if err := actor.check(); err != nil {
		return ReplanResult{}, err
	}
	ahead := ask.To == 0
	if ahead {
		ask.To = core.InstantOf(m.o.Now().Add(maxAhead))
	}
	if err := checkSpan(ask.From, ask.To); err != nil {
		return ReplanResult{}, err
	}
	a, err := m.newAudit(ctx, ask.From)
	if err != nil {
		return ReplanResult{}, err
	}
	a.again, a.ahead = true, ahead
	r := replanning{m: m, a: a, res: ReplanResult{From: ask.From, To: ask.To}}
	r.res.Next, err = m.auditPage(ctx, a, &ask, func(reports []AuditReport) error { return r.add(ctx, reports) })
	return r.res, err
}

// maxAhead bounds how far ahead instants are planned.
const maxAhead = time.Hour

// replanning is one page under way.
type replanning struct {
	m   *Manage
	a   *auditing
	res ReplanResult
}

// add puts on the ring what the reports of a job say, and of what waits there with
// a number as much as a page takes: the last report says where that ended. What is
// not there for certain is found again by who does so again, and counted then.
func (r *replanning) add(ctx context.Context, reports []AuditReport) error {
	var fires []core.Fire
	for i := range reports {
		fires = append(fires, reports[i].again...)
	}
	if last := &reports[len(reports)-1]; r.a.ahead && last.Next == 0 {
		waiting, err := r.onRing(ctx, last)
		if err != nil {
			return err
		}
		fires = append(fires, waiting...)
	}
	if err := r.send(ctx, fires); err != nil {
		return err
	}
	r.res.Missing += int64(len(fires))
	for i := range reports {
		rep := &reports[i]
		if rep.Failed != "" {
			r.res.Failed = atMost(r.res.Failed, rep.failure())
			continue
		}
		if rep.Next == 0 && rep.below == 0 {
			r.res.Jobs++
		}
		r.res.Demanded += rep.Demanded
		r.res.OutOfReach += rep.OutOfReach
		r.res.Partial = r.res.Partial || rep.Partial
	}
	return nil
}

// send puts fires on the ring.
func (r *replanning) send(ctx context.Context, fires []core.Fire) (failed error) {
	out := plan.Pack(fires, ring.MaxFires, r.m.o.Plan.Cut.Of)
	if len(out) == 0 {
		return nil
	}
	for k, err := range r.m.ring.Enqueue(ctx, out) {
		if err != nil {
			failed = passing(err)
			continue
		}
		r.res.Sent += int64(len(out[k].Message.Fires))
	}
	return failed
}

// onRing is the fires of the runs of a job that have numbers, such as retries and
// triggers, and wait on the ring: what is due within MaxAhead may be there with no
// entry in the due index. It reads them from rep.below down, or from the newest, and
// leaves there from where to go on; 0 is the end. A number is drawn no later than the
// slot of its run, so before slots that are older than the longest delay of a retry
// only a trigger can wait that was given a later time.
func (r *replanning) onRing(ctx context.Context, rep *AuditReport) ([]core.Fire, error) {
	now := r.m.o.Now()
	oldest, latest := r.res.From.Add(-core.MaxDelay), now.Add(r.m.o.Plan.MaxAhead)
	low, high := core.NumberedRange(rep.Job)
	if rep.below != 0 {
		high = rep.below - 1
	}
	rep.below = 0
	var fires []core.Fire
	for high >= low {
		runs, err := r.m.store.RunSpan(ctx, high, low, batch)
		if err != nil {
			return nil, passing(err)
		}
		newest := core.Instant(0)
		for i := range runs {
			x := &runs[i]
			newest = max(newest, x.Slot)
			if x.State.Open() && x.Expired(now) && !x.Slot.Time().After(latest) {
				fires = append(fires, fireOf(x))
			}
		}
		if len(runs) < batch || newest < oldest {
			return fires, nil
		}
		high = runs[len(runs)-1].ID - 1
		if len(fires) >= maxAgain || r.a.over() {
			rep.below = high + 1
			return fires, nil
		}
	}
	return fires, nil
}

// fireOf is the fire of a run that is stored.
func fireOf(r *core.Run) core.Fire {
	return core.Fire{Run: r.ID, Rev: r.Rev, At: r.At, Slot: r.Slot, Cause: r.Cause, Seq: r.Seq}
}
