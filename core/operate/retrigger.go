package operate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/store"
)

// ChangeTrigger changes the time, params or addresses of a waiting trigger. The run keeps its ID and key. If a dispatcher has
// already claimed the run, the change is rejected. A message with the old due time may already be in the delay queue. The
// dispatcher drops this message.
func (op *Operate) ChangeTrigger(ctx context.Context, actor core.Actor, ref query.RunRef, c TriggerChange) (TriggerResult, error) {
	if err := actor.Validate(); err != nil {
		return TriggerResult{}, err
	}
	if c.At == nil && c.Params == nil && c.Addresses == nil {
		return TriggerResult{}, core.Invalid("change", "", "set at least one of `at`, `params` and `addresses`")
	}
	slot, err := (&TriggerRequest{Params: c.Params, At: c.At}).check(op.ask.Stamp())
	if err != nil {
		return TriggerResult{}, err
	}
	run, err := op.ask.Find(ctx, ref)
	if err != nil {
		return TriggerResult{}, err
	}
	job, err := op.ask.Job(ctx, run.ID.Job().String())
	if err != nil {
		return TriggerResult{}, err
	}
	g, err := op.ask.Global(ctx)
	if err != nil {
		return TriggerResult{}, err
	}
	for range budget.Tries {
		if err := changeable(&run); err != nil {
			return TriggerResult{}, err
		}
		now := op.ask.Stamp()
		next := run
		if c.At != nil {
			// After the due time of every message that a dispatcher has already received.
			next.Slot = max(slot, core.InstantOf(now)+1)
			if run.RerunOf == 0 { // a rerun keeps its scheduled time
				next.At = next.Slot
			}
		}
		if c.Params != nil {
			next.Params = c.Params
		}
		if c.Addresses != nil {
			next.Addresses = core.NormalAddresses(*c.Addresses)
		}
		if sameTrigger(&run, &next) {
			return op.way(ctx, run, g, true), nil
		}
		if c.Params != nil || c.Addresses != nil { // the addresses may come from another user
			if err := op.checkAddresses(ctx, &job, next.Addresses, c.Direct); err != nil {
				return TriggerResult{}, err
			}
		}
		// The index is read after the run. If the run is unchanged when the change is stored, no
		// other entry was put in between.
		entries, err := op.store.Jobs.Entries(ctx, run.ID.Job())
		if err != nil {
			return TriggerResult{}, core.Retryable(err)
		}
		put, entry := run.Retime(next, now), op.entry(&next, g)
		err = op.store.Runs.Put(ctx, []store.RunPut{{Change: &put, Enter: &entry,
			Leave: slices.DeleteFunc(entries, func(d core.DueItem) bool { return d.Run != run.ID }),
			Changes: []core.Change{actor.Did(core.Change{ID: max(core.Millis(now), job.Sched.Rev+1), At: now, Verb: core.VerbChanged,
				App: job.Def.App, Job: job.Def.ID, Name: job.Def.Name, Old: triggerNote(&run).String(), New: triggerNote(&next).String()})},
		}})[0]
		if err == nil {
			return op.way(ctx, next, g, true), nil
		}
		if errors.Is(err, core.ErrThrottled) || ctx.Err() != nil {
			return TriggerResult{}, core.Retryable(err)
		}
		stored, ok, rerr := op.ask.Stored(ctx, run.ID)
		switch {
		case rerr != nil:
			return TriggerResult{}, rerr
		case !ok:
			return TriggerResult{}, core.Errorf(core.CodeNotFound, "run %d does not exist", run.ID)
		case sameTrigger(&stored, &next): // the change is stored, and its answer was lost
			return op.way(ctx, stored, g, true), nil
		}
		run = stored
	}
	return TriggerResult{}, core.Retryable(core.ErrThrottled)
}

// changeable returns why a run cannot be changed, or nil if it waits.
func changeable(run *core.Run) error {
	switch {
	case run.Cause != core.CauseManual && run.Cause != core.CauseAPI:
		return core.Errorf(core.CodeRefused, "run %d was not triggered by a user or the API (its cause is %s): only waiting "+
			"runs that were triggered can be changed",
			run.ID, run.Cause)
	case !run.State.Open():
		return core.Errorf(core.CodeRefused, "run %d has ended: %s", run.ID, run.State)
	case run.State != core.Planned || run.Owner != "" || run.MaybeSent:
		return core.Errorf(core.CodeRefused, "run %d was already sent: kill the run to end it", run.ID)
	}
	return nil
}

func sameTrigger(a, b *core.Run) bool {
	return a.At == b.At && a.Slot == b.Slot && slices.Equal(a.Addresses, b.Addresses) &&
		(a.Params == nil) == (b.Params == nil) && (a.Params == nil || *a.Params == *b.Params)
}

// noteParams is the maximum size of params in a change record, in bytes.
const noteParams = 1000

// triggerNote returns the content of a change record for a trigger.
func triggerNote(r *core.Run) runNote {
	n := runNote{Run: r.ID.String(), At: r.At.String(), Key: r.Key, Addresses: r.Addresses}
	if r.Params != nil {
		p := *r.Params
		if len(p) > noteParams {
			end := noteParams
			for end > 0 && !utf8.RuneStart(p[end]) {
				end--
			}
			p = strings.Clone(p[:end]) + "…"
		}
		n.Params = &p
	}
	return n
}
