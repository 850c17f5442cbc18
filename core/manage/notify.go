package manage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/bound"
	"github.com/tickring/tickring/core/ring"
)

// firstLook is when after a save it is looked at first whether a job is overdue: by then the
// save was made, or never will be.
const firstLook = 2 * time.Minute

// looked has those of some jobs looked at that may be overdue, before they are stored: who dies
// in between leaves a look that finds nothing.
func (m *Manage) looked(ctx context.Context, edits []*edit) error {
	var looks []ring.Look
	for _, e := range edits {
		if e.want.Def.Notify.Overdue != (core.Overdue{}) {
			looks = append(looks, ring.Look{At: core.InstantOf(m.ask.Now().Add(firstLook)), Job: e.want.Def.ID})
		}
	}
	if len(looks) == 0 {
		return nil
	}
	return m.store.PutLooks(ctx, looks)
}

// known refuses channels that there are not, with the field that names one.
func (m *Manage) known(ctx context.Context, n core.Notify) error {
	if len(n.To) == 0 {
		return nil
	}
	found, err := m.store.Channels(ctx, n.To)
	if err != nil {
		return core.Passing(err)
	}
	return missing(n, found)
}

func missing(n core.Notify, found map[string]core.Channel) error {
	for i, name := range n.To {
		if _, is := found[name]; !is {
			e := core.Invalid(fmt.Sprintf("notify.to[%d]", i), name, "there is no such channel: create it first")
			e.Code = core.CodeNotFound
			return e
		}
	}
	return nil
}

// toKnown refuses of some jobs those that tell a channel that there is not.
func (m *Manage) toKnown(ctx context.Context, part []*saving) ([]*saving, error) {
	var names []string
	for _, s := range part {
		for _, c := range s.job.Def.Notify.To {
			if !slices.Contains(names, c) {
				names = append(names, c)
			}
		}
	}
	if len(names) == 0 {
		return part, nil
	}
	found := map[string]core.Channel{}
	for some := range bound.Chunks(names, bound.AtOnce) {
		list, err := m.store.Channels(ctx, some)
		if err != nil {
			return nil, core.Passing(err)
		}
		for name, c := range list {
			found[name] = c
		}
	}
	return slices.DeleteFunc(part, func(s *saving) bool {
		err := missing(s.job.Def.Notify, found)
		if err != nil {
			s.refuse(err)
		}
		return err != nil
	}), nil
}

// namedBy refuses the deletion of a channel that somebody is told by.
func (m *Manage) namedBy(ctx context.Context, channel string) error {
	refuse := func(who string) error {
		return core.Errorf(core.CodeRefused, "%s tells of itself by channel %s: take it out of its notify.to first", who, channel)
	}
	apps, err := m.store.ListApps(ctx)
	if _, err = core.BesidesApps(err); err != nil {
		return core.Passing(err)
	}
	for i := range apps {
		if slices.Contains(apps[i].Notify.To, channel) {
			return refuse("app " + apps[i].Name)
		}
	}
	for after := core.JobID(0); ; {
		jobs, next, err := m.store.ListJobs(ctx, "", after, bound.AtOnce)
		if _, err = core.Besides(err); err != nil {
			return core.Passing(err)
		}
		for i := range jobs {
			if slices.Contains(jobs[i].Def.Notify.To, channel) {
				return refuse("job " + jobs[i].Name())
			}
		}
		if after = next; next == 0 {
			return nil
		}
	}
}
