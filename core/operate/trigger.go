package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// MaxTriggerAddresses is the maximum number of addresses in a trigger.
const (
	MaxTriggerAddresses = 100
	// triggerPast is how far in the past an --at may be, to allow for a slow request.
	triggerPast = time.Minute
)

// Trigger creates one run. Trigger stores the run with an entry in the due index. If the due time is near, Trigger sends the
// run and removes the entry. If this fails, the planner sends the run later. With a key, a repeated call returns the same run
// and completes the remaining steps.
func (op *Operate) Trigger(ctx context.Context, actor core.Actor, r TriggerRequest) (TriggerResult, error) {
	if err := actor.Validate(); err != nil {
		return TriggerResult{}, err
	}
	now := op.ask.Stamp()
	slot, err := r.check(now)
	if err != nil {
		return TriggerResult{}, err
	}
	job, err := op.ask.Job(ctx, r.Job)
	if err != nil {
		return TriggerResult{}, err
	}
	r.Addresses = core.NormalAddresses(r.Addresses)
	if err := op.checkAddresses(ctx, &job, r.Addresses, nil); err != nil {
		return TriggerResult{}, err
	}
	g, err := op.ask.Global(ctx)
	if err != nil {
		return TriggerResult{}, err
	}
	d := &job.Def
	run := core.Run{
		App: d.App, State: core.Planned, Cause: cmp.Or(r.Cause, core.CauseManual),
		Rev: job.Sched.Rev, At: slot, Slot: slot,
		Attempt: 1, Retries: d.Retry.Max, Params: r.Params, Addresses: slices.Clone(r.Addresses), Key: r.Key, By: actor.Name,
	}
	run.Follow(d)
	if r.Retries != nil {
		run.Retries = *r.Retries
	}
	result, err := op.triggered(ctx, d.ID, run, g, r.holds, nil)
	if err != nil {
		return TriggerResult{}, err
	}
	if run.Cause == core.CauseManual && !result.Existing {
		op.note(ctx, actor.Did(core.Change{At: now, Verb: core.VerbTriggered,
			New: runNote{Run: result.Run.ID.String(), At: slot.String(), Key: r.Key}.String()}), &job)
	}
	return result, nil
}

// triggered allocates the ID of a run, stores it, and sends it if its due time is near. If a run has the key already, it returns
// that run, unless holds rejects it. fill, which may be nil, completes a run that has its ID.
func (op *Operate) triggered(ctx context.Context, job core.JobID, run core.Run, g core.Global, holds, fill func(*core.Run) error) (
	TriggerResult, error) {
	number, err := op.draw(ctx, job)
	if err != nil {
		return TriggerResult{}, err
	}
	run.ID, run.Seq = core.NumberedRun(job, number), int64(number)
	if run.Key != "" {
		first, err := op.bind(ctx, job, run.Key, run.ID)
		if err != nil {
			return TriggerResult{}, err
		}
		if first != run.ID {
			stored, ok, err := op.ask.Stored(ctx, first)
			if err != nil {
				return TriggerResult{}, err
			}
			if ok {
				if err := holds(&stored); err != nil {
					return TriggerResult{}, err
				}
				return op.way(ctx, stored, g, true), nil
			}
			// The key is bound, and the run is not stored: the first caller stopped here.
			run.ID = first
		}
	}
	run.First = run.ID
	if fill != nil {
		if err := fill(&run); err != nil {
			return TriggerResult{}, err
		}
	}
	stored, existing, err := op.putTriggered(ctx, run, g)
	if err != nil {
		return TriggerResult{}, err
	}
	if existing {
		if err := holds(&stored); err != nil {
			return TriggerResult{}, err
		}
	}
	return op.way(ctx, stored, g, existing), nil
}

func (r *TriggerRequest) check(now time.Time) (slot core.Instant, err error) {
	if r.Cause != "" && r.Cause != core.CauseManual && r.Cause != core.CauseAPI {
		return 0, core.Invalid("cause", string(r.Cause), "allowed values: manual, api")
	}
	if r.Params != nil {
		if err := core.CheckParams("params", *r.Params); err != nil {
			return 0, err
		}
	}
	if r.Retries != nil && (*r.Retries < 0 || *r.Retries > core.MaxRetries) {
		return 0, core.Invalid("retries", fmt.Sprint(*r.Retries), "allowed values: 0 to %d", core.MaxRetries)
	}
	if err := core.CheckKey(r.Key); err != nil {
		return 0, err
	}
	slot = core.InstantOf(now)
	if r.At != nil && r.At.After(now) {
		if r.At.After(now.Add(core.MaxAhead)) {
			return 0, core.Invalid("at", r.At.Format(time.RFC3339), "at most 366 days ahead")
		}
		slot = core.Ceil(*r.At)
	} else if r.At != nil && r.At.Before(now.Add(-triggerPast)) {
		return 0, core.Invalid("at", r.At.Format(time.RFC3339), "the time is in the past: leave the field out to run now")
	}
	if slot > core.Horizon {
		return 0, core.Invalid("at", slot.String(), "the latest allowed time is %s", core.Horizon)
	}
	return slot, nil
}

// holds rejects a request whose key belongs to a run with other values. Unset values match any. A
// request for another time gets the stored run's time.
func (r *TriggerRequest) holds(run *core.Run) error {
	other := ""
	switch {
	case r.Params != nil && (run.Params == nil || *run.Params != *r.Params):
		other = "params"
	case len(r.Addresses) > 0 && !slices.Equal(r.Addresses, run.Addresses):
		other = "addresses"
	case r.Retries != nil && *r.Retries != run.Retries:
		other = "retries"
	default:
		return nil
	}
	return &core.Error{Code: core.CodeConflict, Field: "key", Value: r.Key,
		Reason: core.Say("run %d has this key but different %s: choose another key, or change the run if it is still waiting", run.ID, other)}
}

func (op *Operate) checkAddresses(ctx context.Context, job *core.Job, addresses []string, direct func(app string) error) error {
	if len(addresses) == 0 {
		return nil
	}
	if job.Def.Command != nil {
		return core.Invalid("addresses", addresses[0], "the server runs the command of this job itself: addresses are not allowed")
	}
	if len(addresses) > MaxTriggerAddresses {
		return core.Invalid("addresses", fmt.Sprint(len(addresses)), "at most %d are allowed", MaxTriggerAddresses)
	}
	for i, address := range addresses {
		field := fmt.Sprintf("addresses[%d]", i)
		if _, _, err := core.ParseAddress(address); err != nil {
			var e *core.Error
			if errors.As(err, &e) {
				e.Field = field
			}
			return err
		}
		if slices.Index(addresses, address) != i {
			return core.Invalid(field, address, "named twice")
		}
		if err := op.ask.Reachable(field, address); err != nil {
			return err
		}
	}
	given := core.App{Executors: addresses}
	if err := given.CheckRoute(job.Def.Route); err != nil {
		return err
	}
	if err := given.CheckWork(&job.Def); err != nil {
		return err
	}
	return op.ownAddresses(ctx, job.Def.App, addresses, direct)
}

// ownAddresses rejects an address that is neither an executor of the app nor in its allow. The receiver of a run sees its params,
// and over HTTP the app's token. Functions and queues are called with the scheduler's permissions. direct decides about addresses
// only in the allow; nil accepts.
func (op *Operate) ownAddresses(ctx context.Context, name string, addresses []string, direct func(app string) error) error {
	app, err := op.ask.App(ctx, name)
	if err != nil {
		return err
	}
	executors, err := op.ask.Executors(ctx, name)
	if err != nil {
		return err
	}
	for i, address := range addresses {
		if slices.ContainsFunc(executors, func(x query.ExecutorView) bool { return x.Address == address }) {
			continue
		}
		if app.Allows(address) {
			if direct == nil {
				continue
			}
			if err := direct(name); err != nil {
				return core.Errorf(core.CodeForbidden, "app %s has no executor at %s, so the run cannot be sent there: %v", name, address, err)
			}
			continue
		}
		return &core.Error{Code: core.CodeRefused, Field: fmt.Sprintf("addresses[%d]", i), Value: address,
			Reason: core.Say("not an executor of %s; allowed values: the executors of the app (tickring executors %s) and IP "+
				"addresses in the app's field `allow`", name, name)}
	}
	return nil
}

// draw allocates a number of the job's counter; a number with a lost answer is wasted.
func (op *Operate) draw(ctx context.Context, job core.JobID) (n uint32, err error) {
	err = budget.RetryUntilCertain(ctx, func() (err error) { n, err = op.store.RunNumbers(ctx, job, 1); return err })
	return n, err
}

// bind binds a key to a run and returns the run that it is bound to, perhaps by an earlier call.
func (op *Operate) bind(ctx context.Context, job core.JobID, key string, run core.RunID) (of core.RunID, err error) {
	err = budget.RetryUntilCertain(ctx, func() (err error) { of, err = op.store.PutKey(ctx, job, key, run); return err })
	return of, err
}

// entry returns the due index entry of a run.
func (op *Operate) entry(run *core.Run, g core.Global) core.DueItem {
	return core.DueItem{PlanAt: run.Slot.Add(-op.plans.PlanAhead), Job: run.ID.Job(), Run: run.ID,
		Partition: core.PartitionOf(run.ID.Job(), g.Partitions)}
}

// putTriggered stores a run with its entry, or returns the stored run with this ID.
func (op *Operate) putTriggered(ctx context.Context, run core.Run, g core.Global) (stored core.Run, existing bool, err error) {
	for try := range budget.Tries {
		entry := op.entry(&run, g)
		err = op.store.Runs.Put(ctx, []store.RunPut{{Create: &run, Enter: &entry}})[0]
		if err == nil {
			return run, false, nil
		}
		if errors.Is(err, core.ErrThrottled) || ctx.Err() != nil {
			break
		}
		stored, ok, rerr := op.ask.Stored(ctx, run.ID)
		switch {
		case rerr != nil:
			return core.Run{}, false, rerr
		case ok:
			// Either our write had a lost answer, or a concurrent request with the same key stored it.
			return stored, run.Key != "" && (errors.Is(err, core.ErrRefused) && try == 0), nil
		}
	}
	return core.Run{}, false, core.Retryable(err)
}

func (op *Operate) removeEntries(ctx context.Context, entries []core.DueItem) {
	if len(entries) > 0 {
		op.store.Leave(ctx, entries) // a leftover entry only sends a harmless copy
	}
}

// way sends a stored run if its due time is near, then removes its entry. An unclaimed run is
// sent again, which is harmless: an ID runs once.
func (op *Operate) way(ctx context.Context, run core.Run, g core.Global, existing bool) TriggerResult {
	result := TriggerResult{Run: run, Existing: existing}
	if run.State != core.Planned || run.Owner != "" || run.MaybeSent {
		return result
	}
	if op.entry(&run, g).PlanAt > core.InstantOf(op.ask.Now()) {
		result.Waiting = true
		return result
	}
	out := ring.Out{NotBefore: run.Slot.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: run.Slot,
		Fires: []core.Fire{run.Fire()}}}
	if op.store.Queue.Enqueue(ctx, []ring.Out{out})[0] != nil {
		return result // the tick sends it by its entry
	}
	if !existing {
		op.removeEntries(ctx, []core.DueItem{op.entry(&run, g)})
		return result
	}
	// The number of partitions may have changed since the entry was put. An entry with another
	// time belongs to a concurrent change.
	planAt := op.entry(&run, g).PlanAt
	op.removeEntries(ctx, slices.DeleteFunc(op.ask.EntriesOf(ctx, run.ID), func(d core.DueItem) bool { return d.PlanAt != planAt }))
	return result
}

// runNote is the content of a change record of a trigger, its change, cancel or kill, or a clean-up.
type runNote struct {
	Run       string   `json:"run,omitempty"`
	Runs      []string `json:"runs,omitempty"`
	RerunOf   []string `json:"rerunOf,omitempty"` // the original run of each of Runs
	At        string   `json:"at,omitempty"`
	Key       string   `json:"key,omitempty"`
	Params    *string  `json:"params,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
	Cleaned   int64    `json:"cleaned,omitempty"` // number of deleted runs
}

// note records an action on runs of a job. The record is not a revision: its ID is after the job's revision, so it replaces none.
// The runs themselves record the user and the time, so a record that cannot be stored is not a loss.
func (op *Operate) note(ctx context.Context, c core.Change, job *core.Job) { _ = op.noted(ctx, c, job) }

// noted is note with an error, if the record is the only trace of the action.
func (op *Operate) noted(ctx context.Context, c core.Change, job *core.Job) error {
	c.ID = max(core.Millis(c.At), job.Sched.Rev+1)
	c.App, c.Job, c.Name = job.Def.App, job.Def.ID, job.Def.Name
	return budget.RetryUntilCertain(ctx, func() error { return op.store.PutChanges(ctx, []core.Change{c}) })
}

// Cancel closes a run that was not sent. Its state is then skipped, with the reason cancelled.
func (op *Operate) Cancel(ctx context.Context, actor core.Actor, ref query.RunRef) (StopResult, error) {
	if err := actor.Validate(); err != nil {
		return StopResult{}, err
	}
	run, err := op.ask.Find(ctx, ref)
	if err != nil {
		return StopResult{}, err
	}
	if run.State.Open() {
		ok, err := op.cancel(ctx, actor, &run)
		if err != nil {
			return StopResult{}, err
		}
		if ok {
			op.noteRuns(ctx, actor, core.VerbCancelled, run.ID.Job(), []core.RunID{run.ID}, nil)
			return StopResult{Changed: true, Job: run.ID.Job(), Cancelled: []core.RunID{run.ID}}, nil
		}
		return StopResult{}, core.Errorf(core.CodeRefused, "run %d was already sent: kill the run to end it", run.ID)
	}
	if run.State == core.Skipped && run.Reason == core.ReasonCancelled {
		return StopResult{Job: run.ID.Job()}, nil
	}
	return StopResult{}, core.Errorf(core.CodeRefused, "run %d has ended: %s", run.ID, run.State)
}

// cancel closes an open run as skipped, with reason cancelled. It returns false if it was sent.
func (op *Operate) cancel(ctx context.Context, actor core.Actor, run *core.Run) (bool, error) {
	if run.Owner != "" || run.MaybeSent || run.State == core.Running {
		return false, nil
	}
	err := op.finish.End(ctx, []finish.Result{{Run: run.ID, State: core.Skipped, Reason: core.ReasonCancelled,
		Message: "cancelled by " + actor.Name, At: op.ask.Stamp(), Unowned: true}})[0]
	if errors.Is(err, core.ErrRefused) {
		return false, nil
	}
	if err != nil {
		return false, core.Retryable(err)
	}
	// End also returns nil for a run that another process closed.
	stored, ok, err := op.ask.Stored(ctx, run.ID)
	if err != nil {
		return false, err
	}
	if ok && (stored.State != core.Skipped || stored.Reason != core.ReasonCancelled) {
		return false, nil
	}
	op.removeEntries(ctx, op.ask.EntriesOf(ctx, run.ID))
	return true, nil
}

func (op *Operate) noteRuns(ctx context.Context, actor core.Actor, verb string, job core.JobID, runs []core.RunID, addresses []string) {
	found, err := op.store.Jobs.Get(ctx, store.Whole, []core.JobID{job})
	j, is := found[job]
	if err != nil || !is || j.Err != nil {
		return
	}
	n := runNote{Addresses: addresses}
	for _, r := range runs[:min(len(runs), 100)] {
		n.Runs = append(n.Runs, r.String())
	}
	op.note(ctx, actor.Did(core.Change{At: op.ask.Stamp(), Verb: verb, New: n.String()}), j.Is)
}

func (n runNote) String() string {
	b, err := json.Marshal(n)
	if err != nil {
		panic("operate: marshal of strings: " + err.Error())
	}
	return string(b)
}

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
		if run.Permit != "" && changeable(&run) == nil {
			if run, err = op.uncounted(ctx, &run); err != nil {
				return TriggerResult{}, err
			}
		}
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
		// The index is read after the run. If the run is unchanged when the change is stored, no other entry was put in between.
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

// uncounted frees the concurrency slots of a run that waits until a later time, and returns the stored run.
func (op *Operate) uncounted(ctx context.Context, run *core.Run) (core.Run, error) {
	if err := op.finish.Uncount(ctx, run, core.PermitNames(run.Permit)); err != nil && !errors.Is(err, core.ErrRefused) {
		return core.Run{}, core.Retryable(err)
	}
	stored, ok, err := op.ask.Stored(ctx, run.ID)
	if err == nil && !ok {
		err = core.Errorf(core.CodeNotFound, "run %d does not exist", run.ID)
	}
	return stored, err
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
