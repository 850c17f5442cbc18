package manage

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
)

// Bounds of a trigger.
const (
	MaxTriggerAhead     = 366 * 24 * time.Hour
	MaxTriggerAddresses = 100
	MaxKey              = 128 // bytes
	// triggerPast is how far back an --at may lie: a slow way here, not a mistake.
	triggerPast = time.Minute
)

// Trigger asks for one run. The run is stored with an entry in the due index,
// sent at once when its time is near, and then the entry removed; whatever
// fails on the way is left to the tick. With a key, asking again answers the
// same run and finishes what was left half done.
func (m *Manage) Trigger(ctx context.Context, actor Actor, r TriggerRequest) (TriggerResult, error) {
	if err := actor.check(); err != nil {
		return TriggerResult{}, err
	}
	now := m.now()
	slot, err := r.check(now)
	if err != nil {
		return TriggerResult{}, err
	}
	job, err := m.Job(ctx, r.Job)
	if err != nil {
		return TriggerResult{}, err
	}
	if err := m.checkAddresses(ctx, &job, r.Addresses); err != nil {
		return TriggerResult{}, err
	}
	g, err := m.Global(ctx)
	if err != nil {
		return TriggerResult{}, err
	}
	d := &job.Def
	number, err := m.draw(ctx, d.ID)
	if err != nil {
		return TriggerResult{}, err
	}
	run := core.Run{
		ID: core.NumberedRun(d.ID, number), App: d.App, State: core.Planned, Cause: cmp.Or(r.Cause, core.CauseManual),
		Rev: job.Sched.Rev, At: slot, Slot: slot, Seq: int64(number),
		Attempt: 1, Retries: d.Retry.Max, Params: r.Params, Addresses: slices.Clone(r.Addresses), Key: r.Key, By: actor.Name,
	}
	if r.Retries != nil {
		run.Retries = *r.Retries
	}
	run.First = run.ID
	if r.Key != "" {
		bound, err := m.bind(ctx, d.ID, r.Key, run.ID)
		if err != nil {
			return TriggerResult{}, err
		}
		if bound != run.ID {
			stored, ok, err := m.run(ctx, bound)
			if err != nil {
				return TriggerResult{}, err
			}
			if ok {
				if err := r.holds(&stored); err != nil {
					return TriggerResult{}, err
				}
				return m.way(ctx, stored, g, true), nil
			}
			// Bound and never stored: who bound it stopped there.
			run.ID, run.First = bound, bound
		}
	}
	stored, existing, err := m.putTriggered(ctx, run, g)
	if err != nil {
		return TriggerResult{}, err
	}
	if existing {
		if err := r.holds(&stored); err != nil {
			return TriggerResult{}, err
		}
	}
	result := m.way(ctx, stored, g, existing)
	if run.Cause == core.CauseManual && !existing {
		m.note(ctx, core.Change{At: now, By: actor.Name, Verb: core.VerbTriggered, New: runNote{Run: run.ID.String(), At: slot.String(), Key: r.Key}.String()}, &job)
	}
	return result, nil
}

func (r *TriggerRequest) check(now time.Time) (slot core.Instant, err error) {
	if r.Cause != "" && r.Cause != core.CauseManual && r.Cause != core.CauseAPI {
		return 0, core.Invalid("cause", string(r.Cause), "manual and api are allowed")
	}
	if r.Params != nil {
		if err := core.CheckParams("params", *r.Params); err != nil {
			return 0, err
		}
	}
	if r.Retries != nil && (*r.Retries < 0 || *r.Retries > core.MaxRetries) {
		return 0, core.Invalid("retries", fmt.Sprint(*r.Retries), fmt.Sprintf("allowed are 0 to %d", core.MaxRetries))
	}
	if err := checkKey(r.Key); err != nil {
		return 0, err
	}
	slot = core.InstantOf(now)
	if r.At != nil && r.At.After(now) {
		if r.At.After(now.Add(MaxTriggerAhead)) {
			return 0, core.Invalid("at", r.At.Format(time.RFC3339), "at most 366 days ahead")
		}
		slot = core.Ceil(*r.At)
	} else if r.At != nil && r.At.Before(now.Add(-triggerPast)) {
		return 0, core.Invalid("at", r.At.Format(time.RFC3339), "it is past: leave it out to run now")
	}
	if slot > core.Horizon {
		return 0, core.Invalid("at", slot.String(), "the last moment is "+core.Horizon.String())
	}
	return slot, nil
}

// holds refuses what asks with a key for something else than the run that it
// answers. What is left out asks for nothing, and another time is answered with
// that of the run.
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
		Reason: fmt.Sprintf("it is that of run %d, which has other %s: take another key; a run that waits can be changed", run.ID, other)}
}

func checkKey(key string) error {
	if len(key) > MaxKey {
		return core.Invalid("key", key, fmt.Sprintf("at most %d bytes are allowed", MaxKey))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return core.Invalid("key", key, "printable ASCII characters without space are allowed")
		}
	}
	return nil
}

func (m *Manage) checkAddresses(ctx context.Context, job *core.Job, addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	if len(addresses) > MaxTriggerAddresses {
		return core.Invalid("addresses", fmt.Sprint(len(addresses)), fmt.Sprintf("at most %d are allowed", MaxTriggerAddresses))
	}
	app, err := m.App(ctx, job.Def.App)
	if err != nil {
		return err
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
		if err := m.reachable(field, address); err != nil {
			return err
		}
		if m.o.Allowed != nil {
			if err := m.o.Allowed(&app, address); err != nil {
				return &core.Error{Code: core.CodeRefused, Field: field, Value: address, Reason: err.Error(), Err: err}
			}
		}
	}
	given := core.App{Executors: addresses}
	if err := given.CheckRoute(job.Def.Route); err != nil {
		return err
	}
	return given.CheckHandler(job.Def.Handler)
}

// reachable refuses an address that nothing here can send to.
func (m *Manage) reachable(field, address string) error {
	if m.o.Reachable == nil {
		return nil
	}
	if err := m.o.Reachable(address); err != nil {
		return &core.Error{Code: core.CodeRefused, Field: field, Value: address, Reason: err.Error(), Err: err}
	}
	return nil
}

// draw takes a number of the job's counter; one whose answer was lost is wasted.
func (m *Manage) draw(ctx context.Context, job core.JobID) (n uint32, err error) {
	for range tries {
		n, err = m.store.Numbers(ctx, job, 1)
		if err == nil {
			return n, nil
		}
		if judge(err) == failed || ctx.Err() != nil {
			break
		}
	}
	return 0, passing(err)
}

// bind binds a key; asking again answers what is bound.
func (m *Manage) bind(ctx context.Context, job core.JobID, key string, run core.RunID) (bound core.RunID, err error) {
	for range tries {
		bound, err = m.store.PutKey(ctx, job, key, run)
		if err == nil {
			return bound, nil
		}
		if judge(err) == failed || ctx.Err() != nil {
			break
		}
	}
	return 0, passing(err)
}

// entry is the entry of a run in the due index.
func (m *Manage) entry(run *core.Run, g core.Global) core.DueItem {
	return core.DueItem{PlanAt: run.Slot.Add(-m.o.Plan.Lead), Job: run.ID.Job(), Run: run.ID,
		Partition: core.PartitionOf(run.ID.Job(), g.Partitions)}
}

// putTriggered stores a run with its entry; who had the same ID first is
// answered instead.
func (m *Manage) putTriggered(ctx context.Context, run core.Run, g core.Global) (stored core.Run, existing bool, err error) {
	for try := range tries {
		err = m.store.PutTriggered(ctx, run, m.entry(&run, g))
		if err == nil {
			return run, false, nil
		}
		if judge(err) == failed || ctx.Err() != nil {
			break
		}
		stored, ok, rerr := m.run(ctx, run.ID)
		switch {
		case rerr != nil:
			return core.Run{}, false, rerr
		case ok:
			// Ours, its answer lost; or, with a key, of somebody who asked for
			// the same at the same time.
			return stored, run.Key != "" && (errors.Is(err, core.ErrRefused) && try == 0), nil
		}
	}
	return core.Run{}, false, passing(err)
}

func (m *Manage) run(ctx context.Context, id core.RunID) (core.Run, bool, error) {
	found, left, err := m.store.Runs(ctx, []core.RunID{id})
	if err := unread(left, err); err != nil {
		return core.Run{}, false, err
	}
	r, ok := found[id]
	return r, ok, nil
}

// way sends a stored run when its time is near and then removes its entry. A
// run that nobody has taken yet is sent again: its ID decides once.
func (m *Manage) way(ctx context.Context, run core.Run, g core.Global, existing bool) TriggerResult {
	result := TriggerResult{Run: run, Existing: existing}
	if run.State != core.Planned || run.Owner != "" || run.MaybeSent {
		return result
	}
	if m.entry(&run, g).PlanAt > core.InstantOf(m.o.Now()) {
		result.Waiting = true
		return result
	}
	out := ring.Out{NotBefore: run.Slot.Time(), Message: ring.Message{Kind: ring.KindFires, Slot: run.Slot,
		Fires: []core.Fire{{Run: run.ID, Rev: run.Rev, At: run.At, Slot: run.Slot, Cause: run.Cause, Seq: run.Seq}}}}
	if m.ring.Enqueue(ctx, []ring.Out{out})[0] != nil {
		return result // its entry is there: the tick sends it
	}
	if !existing {
		m.removeEntries(ctx, []core.DueItem{m.entry(&run, g)})
		return result
	}
	// The partitions may have changed since it was put. One of another time is
	// that of a change made meanwhile.
	planAt := m.entry(&run, g).PlanAt
	m.removeEntries(ctx, slices.DeleteFunc(m.entriesOf(ctx, run.ID), func(d core.DueItem) bool { return d.PlanAt != planAt }))
	return result
}

// entriesOf is what the due index holds of a run.
func (m *Manage) entriesOf(ctx context.Context, run core.RunID) []core.DueItem {
	entries, err := m.store.Entries(ctx, run.Job())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(entries, func(d core.DueItem) bool { return d.Run != run })
}

// runNote is what the change record of a trigger, its change, cancel or kill says.
type runNote struct {
	Run       string   `json:"run,omitempty"`
	Runs      []string `json:"runs,omitempty"`
	At        string   `json:"at,omitempty"`
	Key       string   `json:"key,omitempty"`
	Params    *string  `json:"params,omitempty"`
	Addresses []string `json:"addresses,omitempty"`
}

// note records what was done to runs of a job. It is no revision; its ID lies
// behind the job's, so that it takes the place of none. The runs themselves
// say who and when, so a record that cannot be stored loses nothing.
func (m *Manage) note(ctx context.Context, c core.Change, job *core.Job) {
	c.ID = max(core.Millis(c.At), job.Sched.Rev+1)
	c.App, c.Job, c.Name = job.Def.App, job.Def.ID, job.Def.Name
	_ = m.store.PutChanges(ctx, []core.Change{c})
}

// Waiting lists the triggers and retries of a job whose time is to come, by their
// numbers in pages of what Options.PageFor and an answer take, each the earliest first.
func (m *Manage) Waiting(ctx context.Context, ref, after string) (RunPage, error) {
	job, err := m.Job(ctx, ref)
	if err != nil {
		return RunPage{}, err
	}
	var res RunPage
	var next core.RunID
	if after != "" {
		if next, err = core.ParseRunID(after); err != nil {
			return RunPage{}, core.Invalid("after", after, "not the next of a page of these runs")
		}
	}
	if res.Runs, next, err = m.waiting(ctx, job.Def.ID, next, m.page()); err != nil {
		return RunPage{}, err
	}
	if next != 0 {
		res.Next = next.String()
	}
	res.Jobs = map[core.JobID]*core.Job{job.Def.ID: &job}
	return res, nil
}

// waiting reads what waits of a job with higher IDs than after: all of it, or what
// goes into a page and the ID behind which there is more.
func (m *Manage) waiting(ctx context.Context, job core.JobID, after core.RunID, p *page) (runs []core.Run, next core.RunID, err error) {
	entries, err := m.store.Entries(ctx, job)
	if err != nil {
		return nil, 0, passing(err)
	}
	ids := make([]core.RunID, len(entries))
	for i, e := range entries {
		ids[i] = e.Run
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	ids = slices.DeleteFunc(ids, func(id core.RunID) bool { return id <= after })
	begun := false
read:
	for part := range chunks(ids, batch) {
		if p != nil && begun && p.over() {
			next = after
			break
		}
		begun = true
		found, left, err := m.store.Runs(ctx, part)
		if err := unread(left, err); err != nil {
			return nil, 0, err
		}
		for _, id := range part {
			if r := found[id]; r.State == core.Planned {
				if p != nil && !p.takes(&r) {
					next = after
					break read
				}
				runs = append(runs, r)
			}
			after = id
		}
	}
	slices.SortFunc(runs, func(a, b core.Run) int { return cmp.Or(cmp.Compare(a.Slot, b.Slot), cmp.Compare(a.ID, b.ID)) })
	return runs, next, nil
}

// Cancel closes a run that was not sent yet as skipped: cancelled.
func (m *Manage) Cancel(ctx context.Context, actor Actor, ref RunRef) (StopResult, error) {
	if err := actor.check(); err != nil {
		return StopResult{}, err
	}
	run, err := m.find(ctx, ref)
	if err != nil {
		return StopResult{}, err
	}
	if run.State.Open() {
		ok, err := m.cancel(ctx, actor, &run)
		if err != nil {
			return StopResult{}, err
		}
		if ok {
			m.noteRuns(ctx, actor, core.VerbCancelled, run.ID.Job(), []core.RunID{run.ID}, nil)
			return StopResult{Changed: true, Job: run.ID.Job(), Cancelled: []core.RunID{run.ID}}, nil
		}
		return StopResult{}, core.Errorf(core.CodeRefused, "run %d was sent already: kill it to end it", run.ID)
	}
	if run.State == core.Skipped && run.Reason == core.ReasonCancelled {
		return StopResult{Job: run.ID.Job()}, nil
	}
	return StopResult{}, core.Errorf(core.CodeRefused, "run %d has ended: %s", run.ID, run.State)
}

// cancel closes an open run as skipped: cancelled; false if it was sent already.
func (m *Manage) cancel(ctx context.Context, actor Actor, run *core.Run) (bool, error) {
	if run.Owner != "" || run.MaybeSent || run.State == core.Running {
		return false, nil
	}
	err := m.finish.End(ctx, []finish.Result{{Run: run.ID, State: core.Skipped, Reason: core.ReasonCancelled,
		Message: "cancelled by " + actor.Name, At: m.now(), Unowned: true}})[0]
	if errors.Is(err, core.ErrRefused) {
		return false, nil
	}
	if err != nil {
		return false, passing(err)
	}
	// A run that was closed by somebody else meanwhile is answered as well.
	stored, ok, err := m.run(ctx, run.ID)
	if err != nil {
		return false, err
	}
	if ok && (stored.State != core.Skipped || stored.Reason != core.ReasonCancelled) {
		return false, nil
	}
	m.removeEntries(ctx, m.entriesOf(ctx, run.ID))
	return true, nil
}

func (m *Manage) noteRuns(ctx context.Context, actor Actor, verb string, job core.JobID, runs []core.RunID, addresses []string) {
	found, _, err := m.store.Jobs(ctx, []core.JobID{job})
	j, ok := found[job]
	if err != nil || !ok {
		return
	}
	n := runNote{Addresses: addresses}
	for _, r := range runs[:min(len(runs), 100)] {
		n.Runs = append(n.Runs, r.String())
	}
	m.note(ctx, core.Change{At: m.now(), By: actor.Name, Verb: verb, New: n.String()}, j)
}

func (n runNote) String() string {
	b, err := json.Marshal(n)
	if err != nil {
		panic("manage: marshal of strings: " + err.Error())
	}
	return string(b)
}
