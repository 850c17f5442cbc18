package operate

import (
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/bound"
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
	// and runs that are open or owe. Sent is how many of them are on the ring again.
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
// what is planned ahead, due or to come, goes on it again, unless its run has ended and
// owes nothing: also what a dispatcher has claimed, which may die before its journal. An ID
// that turns out to have a run is decided already: to replan twice does nothing more.
func (op *Operate) ReplanPage(ctx context.Context, actor core.Actor, of ask.AuditAsk) (ReplanResult, error) {
	if err := actor.Validate(); err != nil {
		return ReplanResult{}, err
	}
	ahead := time.Duration(0)
	if of.To == 0 {
		ahead, of.To = op.plans.MaxAhead, core.InstantOf(op.ask.Now().Add(maxAhead))
	}
	r := replanning{op: op, ahead: ahead > 0, res: ReplanResult{From: of.From, To: of.To}}
	var err error
	r.res.Next, err = op.ask.Lost(ctx, of, ahead, func(p *bound.Page, reports []ask.AuditReport) error { return r.add(ctx, p, reports) })
	return r.res, err
}

// maxAhead bounds how far ahead instants are planned.
const maxAhead = time.Hour

// replanning is one page under way.
type replanning struct {
	op    *Operate
	ahead bool
	res   ReplanResult
}

// add puts on the ring what the reports of a job say, and of what waits there besides
// as much as a page takes: the last report says where that ended. What is
// not there for certain is found again by who does so again, and counted then.
func (r *replanning) add(ctx context.Context, p *bound.Page, reports []ask.AuditReport) error {
	var fires []core.Fire
	again := map[core.RunID]bool{}
	for i := range reports {
		for _, f := range reports[i].Again {
			fires, again[f.Run] = append(fires, f), true
		}
	}
	if last := &reports[len(reports)-1]; r.ahead && last.Next == 0 {
		waiting, err := r.onRing(ctx, p, last)
		if err != nil {
			return err
		}
		fires = append(fires, slices.DeleteFunc(waiting, func(f core.Fire) bool { return again[f.Run] })...)
	}
	if err := r.send(ctx, fires); err != nil {
		return err
	}
	r.res.Missing += int64(len(fires))
	for i := range reports {
		rep := &reports[i]
		if rep.Failed != "" {
			r.res.Failed = ask.AtMost(r.res.Failed, rep.Failure())
			continue
		}
		if rep.Next == 0 && rep.Below == 0 {
			r.res.Jobs++
		}
		r.res.Demanded += rep.Demanded
		r.res.OutOfReach += rep.OutOfReach
		r.res.Partial = r.res.Partial || rep.Partial
	}
	return nil
}

func (r *replanning) send(ctx context.Context, fires []core.Fire) (failed error) {
	out := plan.Pack(fires, ring.MaxFires, r.op.plans.LeadTime.Of)
	if len(out) == 0 {
		return nil
	}
	for k, err := range r.op.ring.Enqueue(ctx, out) {
		if err != nil {
			failed = core.Passing(err)
			continue
		}
		r.res.Sent += int64(len(out[k].Message.Fires))
	}
	return failed
}

// onRing returns the fires of the runs of a job that may be on the ring with no entry in the
// due index. It reads from rep.Below down, or from the newest, and leaves there from where to
// go on; 0 is the end. First come the runs with numbers, such as retries and triggers, that
// are due within MaxAhead. A number is drawn no later than the slot of its run, so before
// slots that are older than the longest delay of a retry only a trigger can be on the ring
// that was given a later time, and what waits. From there on it asks for the runs that wait.
func (r *replanning) onRing(ctx context.Context, p *bound.Page, rep *ask.AuditReport) ([]core.Fire, error) {
	now := r.op.ask.Now()
	oldest, latest := r.res.From.Add(-core.MaxDelay), now.Add(r.op.plans.MaxAhead)
	low, high := core.NumberedRange(rep.Job)
	if rep.Below != 0 {
		high = rep.Below - 1
	}
	rep.Below = 0
	var fires []core.Fire
	below := high + 1
	for all := false; !all && high >= low; {
		runs, err := r.op.store.RunSpan(ctx, high, low, bound.AtOnce)
		if err != nil {
			return nil, core.Passing(err)
		}
		newest := core.Instant(0)
		for i := range runs {
			x := &runs[i]
			newest, below = max(newest, x.Slot), x.ID
			if (x.State.Open() || x.Owing()) && !x.Slot.Time().After(latest) {
				fires = append(fires, x.Fire())
			}
		}
		high, all = below-1, len(runs) < bound.AtOnce || newest < oldest
		if !all && (len(fires) >= bound.Again || p.Over()) {
			rep.Below = below
			return fires, nil
		}
	}
	for {
		runs, err := r.op.store.Waiting(ctx, rep.Job, below, bound.AtOnce)
		if err != nil {
			return nil, core.Passing(err)
		}
		for i := range runs {
			if below = runs[i].ID; !runs[i].Slot.Time().After(latest) {
				fires = append(fires, runs[i].Fire())
			}
		}
		switch {
		case len(runs) < bound.AtOnce:
			return fires, nil
		case len(fires) >= bound.Again || p.Over():
			rep.Below = below
			return fires, nil
		}
	}
}

// Replan sends again, with the same IDs, what an audit of the span finds
// unaccounted for: of one job, or with an empty ref of all; see ReplanPage.
func (op *Operate) Replan(ctx context.Context, actor core.Actor, ref string, from, to core.Instant) (ReplanResult, error) {
	res := ReplanResult{From: from, To: to}
	for of := (ask.AuditAsk{Job: ref, From: from, To: to}); ; of.After = res.Next {
		page, err := op.ReplanPage(ctx, actor, of)
		res.Jobs += page.Jobs
		res.Demanded += page.Demanded
		res.Missing += page.Missing
		res.Sent += page.Sent
		res.OutOfReach += page.OutOfReach
		res.Failed = ask.AtMost(res.Failed, page.Failed...)
		res.Partial = res.Partial || page.Partial
		res.To, res.Next = page.To, page.Next
		if err != nil || res.Next == "" {
			return res, err
		}
	}
}
