package finish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tickring/tickring/core"
)

// Replace ends the retry chain that holds a concurrency slot, so that the run `newer` can have the slot. The parameter
// permit names the concurrency limit, and the parameter holder is the first run of the chain. If the last attempt was
// never sent, Replace closes it. Otherwise Replace records it as killed and requests a check, which a repeated call
// requests again. If the first attempt is due after the run `newer`, Replace changes nothing and returns true.
func (f *Finish) Replace(ctx context.Context, permit string, holder core.RunID, newer *core.Run) (later bool, err error) {
	run, due := core.Run{Then: holder}, core.Instant(0) // due time of the first attempt, since a retry is due later
	for range core.MaxRetries + 1 {                     // find the last attempt of the chain
		next, err := f.s.Run(ctx, run.Then)
		if err != nil {
			return false, fmt.Errorf("read run %d to replace it: %w", run.Then, err)
		}
		if next == nil { // it is being claimed, or its retry is not created yet
			return false, nil
		}
		if run = *next; run.ID == holder {
			due = run.Slot
		}
		if run.State.Open() || run.Then == 0 {
			break
		}
	}
	switch {
	case !run.State.Open():
		return false, f.Release(ctx, &run)[0]
	case run.IsBroadcast(), !counted(&run, permit):
		return false, nil
	case due > newer.Slot:
		return true, nil
	case run.PastTimeout() || run.KillBy != "" && !run.Replaced():
		return false, nil // it is already being ended
	case !run.MayHaveBeenSent():
		err := f.End(ctx, []Result{{Run: run.ID, State: core.Killed, Reason: core.ReasonReplaced, Unowned: true,
			Message: fmt.Sprintf("run %d replaced it", newer.ID)}})[0]
		if err == nil || core.CodeOf(err) == core.CodeNotFound {
			return false, nil
		}
		return false, err
	case run.KillAt.IsZero():
		switch err := f.s.ChangeRuns(ctx, []core.RunPut{run.Replace(newer.ID, f.o.Now())})[0]; {
		case errors.Is(err, core.ErrRefused):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("record the replacement of run %d: %w", run.ID, err)
		}
	}
	if err := f.s.Queue.Enqueue(ctx, checks([]core.RunID{run.ID}, f.o.Now(), false))[0]; err != nil {
		return false, fmt.Errorf("request the end of run %d: %w", run.ID, err)
	}
	return false, nil
}

// counted reports whether a permit counts a run. A run that asked for it before a user changed
// the limit may still hold it or wait for it, but is not counted.
func counted(run *core.Run, permit string) bool {
	return slices.Contains(core.PermitNames(run.Permit), permit)
}

// Supersede closes a run that waits for a concurrency slot, so that the run `newer` can wait instead. The parameter
// permit names the concurrency limit, and the parameter waits is the run to close. If that run is due after the run
// `newer`, Supersede changes nothing and returns true. The caller then closes the run `newer`.
func (f *Finish) Supersede(ctx context.Context, permit string, waits core.RunID, newer *core.Run) (later bool, err error) {
	run, err := f.s.Run(ctx, waits)
	if err != nil {
		return false, fmt.Errorf("read waiting run %d: %w", waits, err)
	}
	if run == nil || run.State.Open() && !counted(run, permit) {
		return false, nil
	}
	if run.State.Open() && run.Slot > newer.Slot {
		return true, nil
	}
	err = f.End(ctx, []Result{{Run: waits, State: core.Skipped, Reason: core.ReasonOverlap, Unowned: true, Seen: run,
		Message: fmt.Sprintf("run %d replaced it", newer.ID)}})[0]
	if errors.Is(err, core.ErrRefused) || core.CodeOf(err) == core.CodeNotFound { // it has a permit now, or is deleted
		return false, nil
	}
	return false, err
}
