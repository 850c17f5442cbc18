package finish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
)

// Replace has the chain that holds a permit ended for a newer run that waits: its attempt
// is closed where nobody has it, or recorded as killed, which a check acts on. Asked again,
// it asks for another check. Later says that the one at work is due later than the other:
// then that is none to replace it.
func (f *Finish) Replace(ctx context.Context, permit string, holder core.RunID, newer *core.Run) (later bool, err error) {
	run, due := core.Run{Then: holder}, core.Instant(0) // of the first attempt: a retry of an older one is due later yet
	for range core.MaxRetries + 1 {                     // to the last attempt of the chain
		runs, unread, err := f.store.Runs(ctx, []core.RunID{run.Then})
		if err == nil && len(unread) > 0 {
			err = core.ErrThrottled
		}
		if err != nil {
			return false, fmt.Errorf("read run %d, which is to be replaced: %w", run.Then, err)
		}
		next, is := runs[run.Then]
		if !is { // it is being claimed, or its retry is not made yet
			return false, nil
		}
		if run = next; run.ID == holder {
			due = run.Slot
		}
		if run.State.Open() || run.Then == 0 {
			break
		}
	}
	switch {
	case !run.State.Open(), run.IsBroadcast(), !counted(&run, permit):
		return false, nil
	case due > newer.Slot:
		return true, nil
	case run.PastTimeout() || run.KillBy != "" && !run.Replaced():
		return false, nil // it is ended by another way
	case !run.Had():
		err := f.End(ctx, []Result{{Run: run.ID, State: core.Killed, Reason: core.ReasonReplaced, Unowned: true,
			Message: fmt.Sprintf("run %d goes in its place", newer.ID)}})[0]
		if err == nil || core.CodeOf(err) == core.CodeNotFound {
			return false, nil
		}
		return false, err
	case run.KillAt.IsZero():
		switch err := f.store.PutRuns(ctx, []core.RunPut{run.Replace(newer.ID, f.o.Now())})[0]; {
		case errors.Is(err, core.ErrRefused):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("record that run %d is replaced: %w", run.ID, err)
		}
	}
	if err := f.ring.Enqueue(ctx, checks([]core.RunID{run.ID}, f.o.Now(), false))[0]; err != nil {
		return false, fmt.Errorf("ask for the end of run %d: %w", run.ID, err)
	}
	return false, nil
}

// counted reports whether a run goes by a permit: one that asked for it before a person
// changed what counts it, and holds it or waits for it yet, does not.
func counted(run *core.Run, permit string) bool {
	return slices.Contains(core.PermitNames(run.Permit), permit)
}

// Supersede closes the one that has waited longest for a permit, for a newer one that
// waits. Later says that it is due later than the other: then that goes.
func (f *Finish) Supersede(ctx context.Context, permit string, waits core.RunID, newer *core.Run) (later bool, err error) {
	runs, unread, err := f.store.Runs(ctx, []core.RunID{waits})
	if err == nil && len(unread) > 0 {
		err = core.ErrThrottled
	}
	if err != nil {
		return false, fmt.Errorf("read run %d, which waits: %w", waits, err)
	}
	run, is := runs[waits]
	if !is || run.State.Open() && !counted(&run, permit) {
		return false, nil
	}
	if run.State.Open() && run.Slot > newer.Slot {
		return true, nil
	}
	err = f.End(ctx, []Result{{Run: waits, State: core.Skipped, Reason: core.ReasonOverlap, Unowned: true, Seen: &run,
		Message: fmt.Sprintf("run %d goes in its place", newer.ID)}})[0]
	if errors.Is(err, core.ErrRefused) || core.CodeOf(err) == core.CodeNotFound { // it has a permit by now, or is gone
		return false, nil
	}
	return false, err
}
