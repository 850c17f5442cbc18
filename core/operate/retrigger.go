package operate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/core/bound"
)

// ChangeTrigger gives a trigger that waits another instant, other params or
// other addresses; it keeps its ID and its key. It is refused from the moment
// that a dispatch has claimed the run. Until then it may even be on the ring:
// the message of the old slot finds that the run has another and lets it be,
// and a claim by what was read before the change is refused by the store.
func (op *Operate) ChangeTrigger(ctx context.Context, actor core.Actor, ref ask.RunRef, c TriggerChange) (TriggerResult, error) {
	if err := actor.Validate(); err != nil {
		return TriggerResult{}, err
	}
	if c.At == nil && c.Params == nil && c.Addresses == nil {
		return TriggerResult{}, core.Invalid("change", "", "set at least one of at, params, addresses")
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
	for range bound.Tries {
		if err := changeable(&run); err != nil {
			return TriggerResult{}, err
		}
		now := op.ask.Stamp()
		next := run
		if c.At != nil {
			// Ahead of every message of an earlier slot that is received already.
			next.Slot = max(slot, core.InstantOf(now)+1)
			if run.RerunOf == 0 { // else its instant is that of the run that it runs again
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
		if c.Params != nil || c.Addresses != nil { // it waits since others gave the address, perhaps
			if err := op.checkAddresses(ctx, &job, next.Addresses, c.Direct); err != nil {
				return TriggerResult{}, err
			}
		}
		// What the index holds is read after the run: if the run is still as seen
		// when the change is stored, nobody put another entry meanwhile.
		entries, err := op.store.Entries(ctx, run.ID.Job())
		if err != nil {
			return TriggerResult{}, core.Passing(err)
		}
		err = op.store.ChangeTriggered(ctx, Triggered{
			Put: run.Retime(next, now), Entry: op.entry(&next, g),
			Drop: slices.DeleteFunc(entries, func(d core.DueItem) bool { return d.Run != run.ID }),
			Change: actor.Did(core.Change{ID: max(core.Millis(now), job.Sched.Rev+1), At: now, Verb: core.VerbChanged,
				App: job.Def.App, Job: job.Def.ID, Name: job.Def.Name, Old: triggerNote(&run).String(), New: triggerNote(&next).String()}),
		})
		if err == nil {
			return op.way(ctx, next, g, true), nil
		}
		if errors.Is(err, core.ErrThrottled) || ctx.Err() != nil {
			return TriggerResult{}, core.Passing(err)
		}
		stored, ok, rerr := op.ask.Stored(ctx, run.ID)
		switch {
		case rerr != nil:
			return TriggerResult{}, rerr
		case !ok:
			return TriggerResult{}, core.Errorf(core.CodeNotFound, "run %d does not exist", run.ID)
		case sameTrigger(&stored, &next): // done, and the answer was lost
			return op.way(ctx, stored, g, true), nil
		}
		run = stored
	}
	return TriggerResult{}, core.Passing(core.ErrThrottled)
}

// changeable says why a run cannot be changed; nil if it waits.
func changeable(run *core.Run) error {
	switch {
	case run.Cause != core.CauseManual && run.Cause != core.CauseAPI:
		return core.Errorf(core.CodeRefused, "run %d is not a waiting trigger (its cause is %s): only waiting triggers can be changed",
			run.ID, run.Cause)
	case !run.State.Open():
		return core.Errorf(core.CodeRefused, "run %d has ended: %s", run.ID, run.State)
	case run.State != core.Planned || run.Owner != "" || run.MaybeSent:
		return core.Errorf(core.CodeRefused, "run %d was already sent: kill it to end it", run.ID)
	}
	return nil
}

func sameTrigger(a, b *core.Run) bool {
	return a.At == b.At && a.Slot == b.Slot && slices.Equal(a.Addresses, b.Addresses) &&
		(a.Params == nil) == (b.Params == nil) && (a.Params == nil || *a.Params == *b.Params)
}

// noteParams is how many bytes of params a change record keeps.
const noteParams = 1000

// triggerNote is a trigger as a change record shows it.
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
