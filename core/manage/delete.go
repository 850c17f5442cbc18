package manage

import (
	"context"
	"maps"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/store"
)

// Delete deletes a job but not its runs. Waiting triggers and retries of the job are skipped with core.ReasonDeleted.
// If code declared the job, the job is suppressed, so that code cannot create it again.
func (m *Manage) Delete(ctx context.Context, actor core.Actor, ref string, ifRev *int64) (SaveResult, error) {
	if err := actor.Validate(); err != nil {
		return SaveResult{}, err
	}
	var attempts []core.Tombstone
	var res SaveResult
	err := budget.UpdateWithRetry(ctx, core.Say("could not confirm that job %s was deleted: try again", ref), func() (bool, error) {
		old, err := m.ask.Job(ctx, ref)
		if core.CodeOf(err) == core.CodeNotFound && len(attempts) > 0 {
			stored, err := m.store.Tombstones(ctx, []core.JobID{res.ID})
			if err != nil {
				return false, core.Retryable(err)
			}
			res.Rev = stored[res.ID].Rev
			if slices.ContainsFunc(attempts, func(t core.Tombstone) bool { return t.Rev == res.Rev }) {
				return true, nil
			}
		}
		if err != nil {
			return false, err
		}
		if err := revIs(&old, ifRev); err != nil {
			return false, err
		}
		if some, err := m.pausesEnded(ctx, []*core.Job{&old}); some || err != nil {
			return false, err
		}
		d := &old.Def
		if err := m.comesBefore(ctx, d); err != nil {
			return false, err
		}
		if d.Declared != "" {
			// First, so that a missing job's name is always suppressed.
			if err := m.withhold(ctx, actor, d.App, d.Name, true); err != nil {
				return false, err
			}
			res.Withheld = true
		}
		now := m.ask.Stamp()
		t := core.Tombstone{Job: d.ID, App: d.App, Name: d.Name}
		t.Rev, t.RevAt = core.NextRev(old.Sched.Rev, old.Sched.RevAt, now)
		if skip, some, err := plan.Dropped(&old.Sched, t.RevAt, core.ReasonDeleted); err == nil && some {
			if ok, err := budget.WriteResult(m.store.PutSkips(ctx, []core.Skip{skip})[0]); !ok {
				return false, err // a repeat only extends the range
			}
		}
		gone := core.RecordOf(&old.Sched, nil)
		gone.Rev, gone.RevAt, gone.Deleted = t.Rev, core.Millis(t.RevAt), true
		res.App, res.Name, res.ID, res.Rev, res.Change = d.App, d.Name, d.ID, t.Rev, Deleted
		attempts = append(attempts, t)
		c := actor.Did(core.Change{ID: t.Rev, At: now, Verb: core.VerbDeleted, App: d.App, Job: d.ID, Name: d.Name,
			Old: core.RecordOf(&old.Sched, d).String(), New: gone.String()})
		put := store.JobPut{Delete: &store.JobDelete{Seen: old.Sched.Rev, Tombstone: t}, Changes: []core.Change{c}}
		return budget.WriteResult(m.store.Jobs.Put(ctx, []store.JobPut{put})[0])
	})
	if err != nil {
		return SaveResult{}, err
	}
	m.dropWaiting(ctx, res.ID)
	m.finish.WakeJobs(ctx, res.ID)
	_ = m.finish.EndRow(ctx, res.ID, m.ask.Stamp()) // else the next failure of its runs does it
	m.dropScripts(ctx, res.ID)
	return res, nil
}

// dropWaiting closes the runs of a deleted job that wait for their due time. After an error or a
// timeout, dispatch closes them at that time.
func (m *Manage) dropWaiting(ctx context.Context, job core.JobID) {
	ctx, cancel := context.WithTimeout(ctx, m.ask.PageFor())
	defer cancel()
	entries, err := m.store.Jobs.Entries(ctx, job)
	if err != nil || len(entries) == 0 {
		return
	}
	results := make([]finish.Result, len(entries))
	for i, e := range entries {
		results[i] = finish.Result{Run: e.Run, State: core.Skipped, Reason: core.ReasonDeleted, At: m.ask.Stamp(), Unowned: true}
	}
	var over []core.DueItem
	for i, err := range m.finish.End(ctx, results) {
		if err == nil || core.CodeOf(err) == core.CodeNotFound {
			over = append(over, entries[i])
		}
	}
	if len(over) > 0 {
		m.store.Leave(ctx, over) // a leftover entry only sends a harmless copy
	}
}

// gone reports whether a read error means success: after an attempt, a missing object was deleted, by us or concurrently.
func gone(err error, tried bool) (bool, error) {
	if tried && core.CodeOf(err) == core.CodeNotFound {
		return true, nil
	}
	return false, err
}

// Prune deletes, page by page, the jobs, apps and channels of a set that r does not keep. One call handles one page.
// Apps and channels are deleted with the last page.
func (m *Manage) Prune(ctx context.Context, actor core.Actor, r PruneRequest) (PruneResult, error) {
	if err := actor.Validate(); err != nil {
		return PruneResult{}, err
	}
	if r.Set == "" {
		return PruneResult{}, core.Invalid("set", "", "required: `prune` deletes only jobs that a set created")
	}
	if err := core.CheckSet("set", r.Set); err != nil {
		return PruneResult{}, err
	}
	p := m.ask.Page()
	var res PruneResult
	var err error
	goes := func(j *core.Job) bool {
		_, stays := r.Stay[j.Name()]
		return j.Def.Set == r.Set && !stays
	}
	seen := map[core.JobID]bool{}
	res.Next, err = m.ask.EachJob(ctx, "", r.After, p, func(j *core.Job) bool {
		if goes(j) {
			m.prune(ctx, actor, j, r.DryRun, &res, goes, seen)
		}
		return true
	})
	for id, why := range p.Passed(res.Next) { // their set is unknown
		res.Jobs = append(res.Jobs, SaveResult{ID: id, Change: Refused, Err: why})
	}
	if err != nil || res.Next != 0 {
		return res, err
	}
	apps, bad, err := m.ask.Apps(ctx)
	if err != nil {
		return res, err
	}
	for _, name := range slices.Sorted(maps.Keys(bad)) { // their set is unknown
		res.Apps = append(res.Apps, AppPrune{Name: name, Change: Refused, Err: core.UnreadableApp(name, bad[name])})
	}
	refused := map[string]bool{}
	for i := range res.Jobs {
		refused[res.Jobs[i].App+"/"+res.Jobs[i].Name] = res.Jobs[i].Err != nil
	}
	leaves := func(name, set string, now core.Notify) (core.Notify, bool) {
		n, stays := r.Stay[name]
		if !stays {
			n = now
		}
		return n, stays || set != r.Set || refused[name]
	}
	pruned := func(
		name string, del func(context.Context, core.Actor, string) error, may func(context.Context, string, leaving) error,
	) AppPrune {
		err := error(nil)
		if r.DryRun {
			err = may(ctx, name, leaves)
		} else {
			err = del(ctx, actor, name)
		}
		if err != nil && core.CodeOf(err) != core.CodeNotFound {
			refused[name] = true
			return AppPrune{Name: name, Change: Refused, Err: err}
		}
		return AppPrune{Name: name, Change: Deleted}
	}
	for _, a := range apps {
		if _, stays := r.Stay[a.Name]; a.Set == r.Set && !stays {
			res.Apps = append(res.Apps, pruned(a.Name, m.DeleteApp, m.empty))
		}
	}
	channels, err := m.ask.Channels(ctx)
	if err != nil {
		return res, err
	}
	for _, c := range channels {
		if c.Set == r.Set && !slices.Contains(r.Channels, c.Name) {
			res.Channels = append(res.Channels, pruned(c.Name, m.DeleteChannel, m.namedBy))
		}
	}
	return res, nil
}

// leaving returns the Notify that a job, an app or "" has after the prune, and false if the prune deletes it.
type leaving func(name, set string, now core.Notify) (n core.Notify, stays bool)

func asStored(_, _ string, now core.Notify) (core.Notify, bool) { return now, true }

// prune deletes one job as read, after its children that must go too.
func (m *Manage) prune(ctx context.Context, actor core.Actor, j *core.Job, dryRun bool, res *PruneResult, goes func(*core.Job) bool,
	seen map[core.JobID]bool) {
	if seen[j.Def.ID] {
		return
	}
	seen[j.Def.ID] = true
	var ids []core.JobID
	for _, c := range j.Def.Children {
		if !seen[c.Job] {
			ids = append(ids, c.Job)
		}
	}
	stays := j.Def
	stays.Children = nil
	if children, err := m.read(ctx, ids); err == nil { // otherwise its deletion is rejected
		for _, l := range j.Def.Children {
			if c := children[l.Job]; c == nil {
				continue
			} else if goes(c) {
				m.prune(ctx, actor, c, dryRun, res, goes, seen)
			} else {
				stays.Children = append(stays.Children, l)
			}
		}
	}
	one := SaveResult{App: j.Def.App, Name: j.Def.Name, ID: j.Def.ID, Rev: j.Sched.Rev, Change: Deleted}
	if dryRun {
		if err := m.comesBefore(ctx, &stays); err != nil {
			one.Change, one.Err = Refused, err
		}
	} else {
		deleted, err := m.Delete(ctx, actor, j.Def.ID.String(), &j.Sched.Rev)
		switch {
		case err == nil:
			one.Rev, one.Withheld = deleted.Rev, deleted.Withheld
		case core.CodeOf(err) != core.CodeNotFound: // otherwise it is already deleted
			one.Change, one.Err = Refused, err
		}
	}
	res.Jobs = append(res.Jobs, one)
}
