package operate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/store"
)

// killPlace starts the place of a page of a kill: a plus and the last address that got the kill. The next page goes on after it.
const killPlace = "+"

// KillRun ends a run. A run that was not sent is cancelled. A broadcast ends with all its shards. If the run has ended,
// nothing changes. An executor can only end all its runs of a job, so KillRun first marks all these runs as killed. The
// parameter after is StopResult.Next of the previous page; empty for the first page.
func (op *Operate) KillRun(ctx context.Context, actor core.Actor, ref query.RunRef, after string) (StopResult, error) {
	p, behind, err := op.killing(actor, after)
	if err != nil {
		return StopResult{}, err
	}
	run, err := op.ask.Find(ctx, ref)
	if err != nil {
		return StopResult{}, err
	}
	if run.IsBroadcast() && run.State.Open() {
		return op.killBroadcast(ctx, actor, &run, behind, p)
	}
	if after != "" { // other runs at its address are marked, and the kill is not sent yet
		return op.killAt(ctx, actor, &run, behind, p)
	}
	if !run.State.Open() {
		return StopResult{Job: run.ID.Job()}, nil
	}
	ok, err := op.cancel(ctx, actor, &run)
	if err != nil {
		return StopResult{}, err
	}
	job := run.ID.Job()
	if ok {
		op.noteRuns(ctx, actor, core.VerbCancelled, job, []core.RunID{run.ID}, nil)
		return StopResult{Changed: true, Job: job, Cancelled: []core.RunID{run.ID}}, nil
	}
	if run, ok, err = op.ask.Stored(ctx, run.ID); err != nil {
		return StopResult{}, err
	}
	if !ok || !run.State.Open() {
		return StopResult{Job: job}, nil
	}
	if run.IsBroadcast() {
		return op.killBroadcast(ctx, actor, &run, behind, p)
	}
	return op.killAt(ctx, actor, &run, behind, p)
}

// killBroadcast ends a broadcast. It marks the broadcast first, so that shards that start later are dropped. Shards without an
// owner are cancelled. At the addresses of the others, all runs of the job are killed.
func (op *Operate) killBroadcast(ctx context.Context, actor core.Actor, whole *core.Run, behind string, p *budget.Page) (
	StopResult, error) {
	res := StopResult{Job: whole.ID.Job()}
	if whole.KillBy == "" {
		if open, err := op.mark(ctx, whole.Kill(actor.Name, op.ask.Stamp())); err != nil || !open {
			return res, err
		}
		whole.KillBy = actor.Name
	}
	ids := make([]core.RunID, whole.Shard.Total)
	for i := range ids {
		ids[i] = whole.Shard.IDOf(i)
	}
	last, err := op.store.LastAttempts(ctx, ids)
	if err != nil {
		return res, err
	}
	var none []core.RunID
	for i := range last {
		if last[i].ID == 0 {
			none = append(none, ids[i])
		}
	}
	if len(none) > 0 {
		if err := op.finish.SkipShards(ctx, whole, none, "cancelled by "+actor.Name); err != nil {
			return res, core.Retryable(err)
		}
		if last, err = op.store.LastAttempts(ctx, ids); err != nil { // some were claimed in between
			return res, err
		}
	}
	waits := slices.DeleteFunc(slices.Clone(last), func(r core.Run) bool { return r.State != core.Planned && r.State != core.Queued })
	for i := range waits {
		ok, err := op.cancel(ctx, actor, &waits[i])
		if err != nil {
			return res, err
		}
		if ok {
			res.Cancelled = append(res.Cancelled, waits[i].ID)
		}
	}
	at := map[string]bool{}
	for i := range last {
		if last[i].State.Open() && last[i].Address != "" {
			at[last[i].Address] = true
		}
	}
	open, all, err := op.openRuns(ctx, whole.ID.Job(), p, func(r *core.Run) bool {
		return r.ID == whole.ID || r.State != core.Queued && at[r.Address]
	})
	if res.Partial = !all; err != nil {
		return res, err
	}
	if res, err = op.kill(ctx, actor, open, behind, p, res); err != nil {
		return res, err
	}
	if err := op.finish.Mend(ctx, whole); err != nil { // all shards may have ended
		return res, core.Retryable(err)
	}
	return res, nil
}

// killAt ends a run and all other runs of its job at its address. For a command, the server ends only the one run.
func (op *Operate) killAt(ctx context.Context, actor core.Actor, run *core.Run, behind string, p *budget.Page) (StopResult, error) {
	open, all, err := op.openRuns(ctx, run.ID.Job(), p, func(r *core.Run) bool {
		return r.ID == run.ID || r.InProgress() && r.Address == run.Address && r.Address != core.LocalAddress && r.State != core.Queued &&
			!r.IsBroadcast()
	})
	if err != nil {
		return StopResult{}, err
	}
	if run.State.Open() && !slices.ContainsFunc(open, func(r core.Run) bool { return r.ID == run.ID }) {
		open = append(open, *run)
	}
	return op.kill(ctx, actor, open, behind, p, StopResult{Job: run.ID.Job(), Partial: !all})
}

// openRuns returns the open runs of a job that wanted accepts, oldest first, at most
// budget.Killed. all reports whether there are no more.
func (op *Operate) openRuns(ctx context.Context, job core.JobID, p *budget.Page, wanted func(*core.Run) bool) (list []core.Run, all bool,
	err error) {
	all, err = op.store.OpenRuns(ctx, job, func() bool { return !p.Over() }, func(r *core.Run) bool {
		if !wanted(r) {
			return true
		} else if len(list) == budget.Killed {
			return false
		}
		list = append(list, *r)
		return true
	})
	slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(a.SentAt.Compare(b.SentAt), cmp.Compare(a.ID, b.ID)) })
	return list, all, core.Retryable(err)
}

// killing begins a page of a kill; behind is the last address that got the kill.
func (op *Operate) killing(actor core.Actor, after string) (p *budget.Page, behind string, err error) {
	if err := actor.Validate(); err != nil {
		return nil, "", err
	}
	behind, ok := strings.CutPrefix(after, killPlace)
	if !ok && after != "" {
		return nil, "", core.Invalid("after", after, "not the value of `next` from a page of this kill")
	}
	return op.ask.Page(), behind, nil
}

// KillJob ends all runs of a job, and cancels its pending retries. The schedule of the job, and triggers that are due later,
// are not affected. The parameter after is StopResult.Next of the previous page; empty for the first page.
func (op *Operate) KillJob(ctx context.Context, actor core.Actor, ref, after string) (StopResult, error) {
	p, behind, err := op.killing(actor, after)
	if err != nil {
		return StopResult{}, err
	}
	id, err := op.ask.JobID(ctx, ref)
	if err != nil {
		return StopResult{}, err
	}
	res := StopResult{Job: id}
	waits, all, err := op.openRuns(ctx, id, p, func(r *core.Run) bool { // they have no owner
		return r.State == core.Queued || r.State == core.Planned && r.Cause == core.CauseRetry
	})
	if err != nil {
		return res, err
	}
	cancelled := make([]bool, len(waits))
	n, err := p.SideBySide(len(waits), func(i int) (err error) {
		cancelled[i], err = op.cancel(ctx, actor, &waits[i])
		return err
	})
	for i := range waits {
		if cancelled[i] {
			res.Cancelled = append(res.Cancelled, waits[i].ID)
		}
	}
	next := n < len(waits) || !all && len(res.Cancelled) > 0 // the next page finds others, since these are closed
	var open []core.Run
	if err == nil && !next { // only now, since a waiting run may have been claimed in between
		var rest bool
		open, rest, err = op.openRuns(ctx, id, p, func(r *core.Run) bool { return r.InProgress() && r.State != core.Queued })
		res.Partial = !all || !rest
	}
	if err != nil || next {
		res.Changed, res.Next = len(res.Cancelled) > 0, killPlace+behind
		op.noteRuns(ctx, actor, core.VerbCancelled, id, res.Cancelled, nil)
		return res, err
	}
	return op.kill(ctx, actor, open, behind, p, res)
}

// kill marks runs, then asks their executors to end them. It handles some addresses at a time, in order and after behind, each
// once all its runs are marked. Even after slow reads, half a page of time is left. It records its actions also before an error.
func (op *Operate) kill(ctx context.Context, actor core.Actor, open []core.Run, behind string, p *budget.Page,
	res StopResult) (out StopResult,
	err error) {
	defer func() {
		if out.Changed = len(out.Killed)+len(out.Cancelled) > 0; out.Changed {
			var addresses []string
			for _, a := range out.Sent {
				addresses = append(addresses, a.Address)
			}
			op.noteRuns(ctx, actor, core.VerbKilled, out.Job, append(slices.Clone(out.Killed), out.Cancelled...), addresses)
		}
	}()
	if least := time.Now().Add(op.ask.PageFor() / 2); p.Until.Before(least) {
		p.Until = least
	}
	open = slices.DeleteFunc(open, func(r core.Run) bool { return r.Address != "" && r.Address <= behind })
	slices.SortStableFunc(open, func(a, b core.Run) int { return cmp.Compare(a.Address, b.Address) })
	at := op.ask.Stamp()
	for len(open) > 0 && res.Next == "" {
		some := atOnce(open, p.Together)
		marked := make([]bool, len(some))
		n, err := p.SideBySide(len(some), func(i int) (err error) {
			marked[i] = some[i].KillBy != "" && !some[i].Replaced()
			if !marked[i] {
				marked[i], err = op.mark(ctx, some[i].Kill(actor.Name, at))
			}
			return err
		})
		var addresses []string
		for i := range some { // also beyond one that failed
			if marked[i] {
				res.Killed = append(res.Killed, some[i].ID)
				addresses = append(addresses, some[i].Address)
			}
		}
		if err != nil {
			return res, err
		}
		if n == len(some) {
			if err := op.sendKills(ctx, some[0].App, slices.Compact(addresses), &res); err != nil {
				return res, err
			}
			behind, open = some[n-1].Address, open[n:]
		}
		if n < len(some) || len(open) > 0 && p.Over() {
			res.Next = killPlace + behind
		}
	}
	return res, nil
}

// atOnce returns the runs at the first together addresses.
func atOnce(open []core.Run, together int) []core.Run {
	addresses := 1
	for i := 1; i < len(open); i++ {
		if open[i].Address != open[i-1].Address {
			if addresses++; addresses > together {
				return open[:i]
			}
		}
	}
	return open
}

// mark records the user who kills a run; it returns false if the run has ended.
func (op *Operate) mark(ctx context.Context, kill core.RunPut) (open bool, err error) {
	err = budget.RetryUntilCertain(ctx, func() error {
		err := op.store.ChangeRuns(ctx, []core.RunPut{kill})[0]
		if open = !errors.Is(err, core.ErrRefused); !open {
			return nil
		}
		return err
	})
	return open && err == nil, err
}

// sendKills sends the kill to several addresses in parallel.
func (op *Operate) sendKills(ctx context.Context, appName string, addresses []string, res *StopResult) error {
	addresses = slices.DeleteFunc(addresses, func(address string) bool { return address == "" })
	if len(addresses) == 0 {
		return nil
	}
	found, bad, err := store.Split(op.store.Apps(ctx, appName))
	if err := cmp.Or(core.Retryable(err), core.UnreadableApp(appName, bad[appName])); err != nil {
		return err
	}
	app := found[appName]
	app.Name = appName // also for a deleted app, whose executors may still be available
	answers := make([]KillAnswer, len(addresses))
	store.AtOnce(len(addresses), func(i int) {
		answers[i] = KillAnswer{Address: addresses[i], Err: op.killer.Kill(ctx, &app, addresses[i], res.Job)}
	})
	res.Sent = append(res.Sent, answers...)
	return nil
}
