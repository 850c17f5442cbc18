package manage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
)

// firstLook is the time from a save to the first check for overdue runs. By then the save is stored or never will be.
const firstLook = 2 * time.Minute

// looked schedules checks of jobs with an overdue rule, before the jobs are stored. After a crash
// in between, the check finds nothing.
func (m *Manage) looked(ctx context.Context, edits []*edit) error {
	var looks []ring.CheckRequest
	for _, e := range edits {
		if e.want.Def.Notify.Overdue != (core.Overdue{}) {
			looks = append(looks, ring.CheckRequest{At: core.InstantOf(m.ask.Now().Add(firstLook)), Job: e.want.Def.ID})
		}
	}
	if len(looks) == 0 {
		return nil
	}
	return m.store.PutLooks(ctx, looks)
}

// NotifyResult is the result of SaveNotify.
type NotifyResult struct {
	Rev    int64
	Change string      // Updated, Unchanged
	Old    core.Notify // previous settings
}

// SaveNotify sets the notification settings for events without a job, and for unreadable jobs without known channels. If n.To is
// empty, no notifications are sent. If the settings are already equal, SaveNotify writes nothing. The change record is written
// after the change. If writing the record fails budget.Tries times, the change has no record.
func (m *Manage) SaveNotify(ctx context.Context, actor core.Actor, n core.Notify) (NotifyResult, error) {
	if err := actor.Validate(); err != nil {
		return NotifyResult{}, err
	}
	return m.saveNotify(ctx, actor, n, nil, true)
}

// CheckNotify returns the result that SaveNotify would return, and changes nothing. The channels in made count as existing.
func (m *Manage) CheckNotify(ctx context.Context, n core.Notify, made []string) (NotifyResult, error) {
	return m.saveNotify(ctx, core.Actor{}, n, made, false)
}

func (m *Manage) saveNotify(ctx context.Context, actor core.Actor, n core.Notify, made []string, write bool) (NotifyResult, error) {
	n = n.Normal()
	if err := n.Validate("notify"); err != nil {
		return NotifyResult{}, err
	}
	var res NotifyResult
	var attempts []core.Change
	noted := func(c core.Change) {
		res.Change, res.Rev = Updated, c.ID
		m.record(ctx, c)
	}
	unclear := core.Say("could not confirm that the settings for notifications without a job were stored: reload the settings " +
		"and try again")
	err := budget.UpdateWithRetry(ctx, unclear, func() (bool, error) {
		old, err := m.ask.Global(ctx)
		if err != nil {
			return false, err
		}
		if old.Notify.Equal(n) {
			for _, c := range slices.Backward(attempts) { // another user may have changed something else since
				if c.ID <= old.Rev {
					noted(c)
					return true, nil
				}
			}
			res = NotifyResult{Rev: old.Rev, Change: Unchanged, Old: old.Notify}
			return true, nil
		}
		if err := m.known(ctx, n, made...); err != nil {
			return false, err
		}
		if !write {
			res = NotifyResult{Rev: old.Rev, Change: Updated, Old: old.Notify}
			return true, nil
		}
		c, want := m.change(actor, core.VerbUpdated, old.Rev), old
		want.Notify, want.Rev = n, c.ID
		c.Old, c.New = core.GlobalRecordOf(&old).String(), core.GlobalRecordOf(&want).String()
		res.Old = old.Notify
		done, err := budget.WriteResult(m.store.PutGlobal(ctx, old.Rev, want))
		if attempts = append(attempts, c); done {
			noted(c)
		}
		return done, err
	})
	if err != nil {
		return NotifyResult{}, err
	}
	return res, nil
}

// CheckTold checks that the channels in notification settings exist. For each item of the list, it returns nil, or an
// error about the first channel that does not exist. The channels in made count as existing.
func (m *Manage) CheckTold(ctx context.Context, list []core.Notify, made []string) ([]error, error) {
	var names []string
	for i := range list {
		for _, c := range list[i].To {
			if !slices.Contains(made, c) && !slices.Contains(names, c) {
				names = append(names, c)
			}
		}
	}
	found, err := m.channels(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, name := range made {
		found[name] = core.Channel{Name: name}
	}
	errs := make([]error, len(list))
	for i := range list {
		errs[i] = missing(list[i], found)
	}
	return errs, nil
}

// channels reads channels by name and omits the ones that do not exist.
func (m *Manage) channels(ctx context.Context, names []string) (map[string]core.Channel, error) {
	found := map[string]core.Channel{}
	for some := range slices.Chunk(names, budget.AtOnce) {
		list, err := m.store.Channels(ctx, some)
		if err != nil {
			return nil, core.Retryable(err)
		}
		maps.Copy(found, list)
	}
	return found, nil
}

// known rejects unknown channels with the field that names one. The channels in made count as existing.
func (m *Manage) known(ctx context.Context, n core.Notify, made ...string) error {
	errs, err := m.CheckTold(ctx, []core.Notify{n}, made)
	if err != nil {
		return err
	}
	return errs[0]
}

func missing(n core.Notify, found map[string]core.Channel) error {
	for i, name := range n.To {
		if _, is := found[name]; !is {
			e := core.Invalid(fmt.Sprintf("notify.to[%d]", i), name, "the channel does not exist: create it first")
			e.Code = core.CodeNotFound
			return e
		}
	}
	return nil
}

// toKnown rejects the jobs that notify an unknown channel, and returns the others. A check does not, because its channels may be
// created with it.
func (r *round) toKnown(ctx context.Context, part []*saving) ([]*saving, error) {
	if r.to == check {
		return part, nil
	}
	list := make([]core.Notify, len(part))
	for i, s := range part {
		list[i] = s.job.Def.Notify
	}
	errs, err := r.m.CheckTold(ctx, list, nil)
	if err != nil {
		return nil, err
	}
	var ready []*saving
	for i, s := range part {
		if errs[i] != nil {
			s.refuse(errs[i])
			continue
		}
		ready = append(ready, s)
	}
	return ready, nil
}

// namedBy rejects the deletion of a channel that a notify names.
func (m *Manage) namedBy(ctx context.Context, channel string, leaves leaving) error {
	named := func(name, set string, now core.Notify) bool {
		n, stays := leaves(name, set, now)
		return stays && slices.Contains(n.To, channel)
	}
	refuse := func(who string) error {
		return core.Errorf(core.CodeRefused, "%s notifies channel %s: before you delete the channel, remove it from notify.to", who, channel)
	}
	g, err := m.ask.Global(ctx)
	if err != nil {
		return err
	}
	if named("", "", g.Notify) {
		return core.Errorf(core.CodeRefused, "notifications without a job go to channel %s: remove the channel from "+
			"`notify.to` of `defaults` first", channel)
	}
	apps, _, err := m.ask.Apps(ctx)
	if err != nil {
		return err
	}
	for i := range apps {
		if named(apps[i].Name, apps[i].Set, apps[i].Notify) {
			return refuse("app " + apps[i].Name)
		}
	}
	for after := core.JobID(0); ; {
		jobs, next, err := m.store.Jobs.List(ctx, "", after, budget.AtOnce)
		if err != nil {
			return core.Retryable(err)
		}
		for _, g := range jobs {
			if j := g.Is; g.Err == nil && named(j.Name(), j.Def.Set, j.Def.Notify) {
				return refuse("job " + j.Name())
			}
		}
		if after = next; next == 0 {
			return nil
		}
	}
}
