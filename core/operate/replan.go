package operate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
)

// A ReplanResult counts the runs that a replan found and sent.
type ReplanResult struct {
	From, To core.Instant // range of scheduled times: after From, up to and including To
	Jobs     int
	Demanded int64
	// Missing is the number of expected runs that have no run or record, and whose messages were late or missing. If the
	// request had To 0, Missing includes runs in the queue, open runs, and runs with pending follow-ups. Sent is how many of
	// the missing runs were enqueued again.
	Missing int64
	Sent    int64
	// OutOfReach is the number of expected runs whose run or record may have been deleted. They are not sent.
	OutOfReach int64
	Failed     []string // up to 100 jobs that could not be checked, each with the reason; their runs are not counted
	Partial    bool     // whether change records of the time range are deleted, so that expected runs may be missing in the counts
	Next       string   // After of the next page; empty: this was the last page
}

// ReplanPage sends the runs that an audit counts as missing again, with their original IDs. The parameter of selects the page.
// A late run is executed or recorded as skipped by the job's misfire policy. Runs that are in the queue and on time are not
// sent. A run that exists is not executed again, so repeating a replan is harmless.
//
// Use To 0 if the delay queue may have lost all its messages. Then all planned runs are sent again, including future ones in
// the queue, except runs that have ended without pending follow-ups. This includes runs that a dispatcher claimed, because the
// dispatcher may die before it writes its journal.
func (op *Operate) ReplanPage(ctx context.Context, actor core.Actor, of query.AuditAsk) (ReplanResult, error) {
	if err := actor.Validate(); err != nil {
		return ReplanResult{}, err
	}
	ahead := time.Duration(0)
	if of.To == 0 {
		ahead, of.To = op.plans.MaxAhead, core.InstantOf(op.ask.Now().Add(maxAhead))
	}
	r := replanning{op: op, ahead: ahead > 0, res: ReplanResult{From: of.From, To: of.To}}
	var err error
	r.res.Next, err = op.ask.Lost(ctx, of, ahead, func(p *budget.Page, reports []query.AuditReport) error { return r.add(ctx, p, reports) })
	return r.res, err
}

// maxAhead limits how far ahead jobs are planned.
const maxAhead = time.Hour

// replanning is the state of one page.
type replanning struct {
	op    *Operate
	ahead bool
	res   ReplanResult
}

// add enqueues the missing runs of a job's reports. With ahead set, it also enqueues, up to a page, runs that wait on the ring;
// the last report records where it stopped. A run that may not be on the ring is found and counted again by a repeated call.
func (r *replanning) add(ctx context.Context, p *budget.Page, reports []query.AuditReport) error {
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
			r.res.Failed = query.AtMost(r.res.Failed, rep.Failure())
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
	for k, err := range r.op.store.Queue.Enqueue(ctx, out) {
		if err != nil {
			failed = core.Retryable(err)
			continue
		}
		r.res.Sent += int64(len(out[k].Message.Fires))
	}
	return failed
}

// onRing returns fires of a job's runs that may be on the ring without a due index entry. It reads from rep.Below down, or from
// the newest, and stores in rep.Below where to go on; 0 is the end. Runs with numbers, such as retries and triggers, come first
// if they are due within MaxAhead. A number is allocated before the due time of its run. So among numbers older than From minus
// the longest retry delay, only delayed triggers and waiting runs can be on the ring. For these it reads the waiting runs.
func (r *replanning) onRing(ctx context.Context, p *budget.Page, rep *query.AuditReport) ([]core.Fire, error) {
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
		runs, err := r.op.store.Runs.Span(ctx, high, low, budget.AtOnce)
		if err != nil {
			return nil, core.Retryable(err)
		}
		newest := core.Instant(0)
		for i := range runs {
			x := &runs[i]
			newest, below = max(newest, x.Slot), x.ID
			if (x.State.Open() || x.Owing()) && !x.Slot.Time().After(latest) {
				fires = append(fires, x.Fire())
			}
		}
		high, all = below-1, len(runs) < budget.AtOnce || newest < oldest
		if !all && (len(fires) >= budget.Again || p.Over()) {
			rep.Below = below
			return fires, nil
		}
	}
	for {
		runs, err := r.op.store.WaitingRuns(ctx, rep.Job, below, budget.AtOnce)
		if err != nil {
			return nil, core.Retryable(err)
		}
		for i := range runs {
			if below = runs[i].ID; !runs[i].Slot.Time().After(latest) {
				fires = append(fires, runs[i].Fire())
			}
		}
		switch {
		case len(runs) < budget.AtOnce:
			return fires, nil
		case len(fires) >= budget.Again || p.Over():
			rep.Below = below
			return fires, nil
		}
	}
}

// Replan calls ReplanPage for all pages of a range of scheduled times and returns the sums. The parameter ref names one job;
// empty means all jobs.
func (op *Operate) Replan(ctx context.Context, actor core.Actor, ref string, from, to core.Instant) (ReplanResult, error) {
	res := ReplanResult{From: from, To: to}
	for of := (query.AuditAsk{Job: ref, From: from, To: to}); ; of.After = res.Next {
		page, err := op.ReplanPage(ctx, actor, of)
		res.Jobs += page.Jobs
		res.Demanded += page.Demanded
		res.Missing += page.Missing
		res.Sent += page.Sent
		res.OutOfReach += page.OutOfReach
		res.Failed = query.AtMost(res.Failed, page.Failed...)
		res.Partial = res.Partial || page.Partial
		res.To, res.Next = page.To, page.Next
		if err != nil || res.Next == "" {
			return res, err
		}
	}
}

// healer is the actor of the repair of a lost ring.
const healer = "tickring"

// Heal sends runs again that the delay queue lost, if the planner recorded such a loss. Heal checks all jobs in pages, and
// stores its progress after each page, so that the next call continues there. Heal starts no page that could exceed the
// deadline of ctx. Jobs that cannot be read are skipped and named in the error. Concurrent calls are harmless. Heal returns
// the number of runs sent.
func (op *Operate) Heal(ctx context.Context) (sent int64, err error) {
	var failed []string // unreadable jobs, which the scan skips
	defer func() {
		if err == nil && len(failed) > 0 {
			err = core.Errorf(core.CodeInternal, "jobs that were not checked: %s", strings.Join(failed, "; "))
		}
	}()
	for refused := 0; refused < budget.Tries; {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < 2*op.ask.PageFor() {
			return sent, nil
		}
		g, err := op.store.Global(ctx)
		if err != nil {
			return sent, core.Retryable(err)
		}
		if g.Loss.From == 0 {
			return sent, nil
		}
		page, err := op.ReplanPage(ctx, core.Actor{Name: healer}, query.AuditAsk{From: g.Loss.From, After: g.Loss.Next})
		sent += page.Sent
		if err != nil {
			return sent, err
		}
		next := g
		next.Loss.Next = page.Next
		if page.Next == "" {
			next.Loss = core.Loss{At: op.ask.Stamp(), Again: g.Loss.Again}
		}
		next.Rev = max(g.Rev+1, core.Millis(op.ask.Stamp()))
		switch err := op.store.PutGlobal(ctx, g.Rev, next); {
		case errors.Is(err, core.ErrRefused): // a concurrent change: repeat the page
			refused++
		case err != nil:
			return sent, core.Retryable(err)
		default:
			failed = query.AtMost(failed, page.Failed...)
		}
	}
	return sent, nil
}
