package manage

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// notWithheld rejects new jobs that code declares and a user deleted. It reads the apps after the
// jobs, because a deletion writes the app first.
func (m *Manage) notWithheld(ctx context.Context, fresh []*saving) []*saving {
	var names []string
	for _, s := range fresh {
		if app := s.job.Def.App; s.spec.Declared && !slices.Contains(names, app) {
			names = append(names, app)
		}
	}
	if len(names) == 0 {
		return fresh
	}
	apps := make(map[string]core.App, len(names))
	bad := map[string]error{}
	for part := range slices.Chunk(names, budget.AtOnce) {
		found, worse, err := store.Split(m.store.Apps(ctx, part...))
		if err != nil {
			for _, s := range fresh {
				s.refuse(core.Retryable(err))
			}
			return nil
		}
		maps.Copy(apps, found)
		maps.Copy(bad, worse)
	}
	return slices.DeleteFunc(fresh, func(s *saving) bool {
		if why := bad[s.job.Def.App]; s.spec.Declared && why != nil {
			s.refuse(core.UnreadableApp(s.job.Def.App, why))
			return true
		}
		is := s.spec.Declared && slices.Contains(apps[s.job.Def.App].Withheld, s.job.Def.Name)
		if is {
			s.refuse(core.Errorf(core.CodeConflict, "job %s was deleted by a user: code cannot create the job until a user "+
				"runs `tickring return-to-code`",
				s.job.Name()))
		}
		if most := s.spec.MostDeclared; !is && most > 0 {
			if err := m.roomFor(ctx, s.job.Def.App, most); err != nil {
				s.refuse(err)
				return true
			}
		}
		return is
	})
}

// declared caches how many jobs of each app are declared by code, since counting reads them all.
type declared struct {
	mu sync.Mutex
	of map[string]counted
}

type counted struct {
	jobs int
	at   time.Time
}

const countedFor = 10 * time.Second

// roomFor rejects a new job of an app that has most jobs declared by code.
func (m *Manage) roomFor(ctx context.Context, app string, most int) error {
	now, d := m.ask.Stamp(), &m.declared
	holds := func(c counted) bool { return now.Sub(c.at).Abs() < countedFor }
	d.mu.Lock()
	n := d.of[app]
	d.mu.Unlock()
	if !holds(n) {
		n = counted{at: now}
		next, err := m.ask.EachJob(ctx, app, 0, m.ask.Page(), func(j *core.Job) bool {
			if j.Def.Declared != "" {
				n.jobs++
			}
			return n.jobs < most
		})
		switch {
		case err != nil:
			return err
		case next != 0 && n.jobs < most:
			return core.Errorf(core.CodeUnavailable, "the jobs of app %s could not be counted in time: try again", app)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.of, func(_ string, c counted) bool { return !holds(c) })
	if same, ok := d.of[app]; ok { // a concurrent save may have counted a job
		n = same
	}
	n.jobs++
	d.of[app] = n
	if n.jobs <= most {
		return nil
	}
	return core.Errorf(core.CodeTooLarge, "app %s already has %d jobs declared by code, the maximum for its token: delete some, or create "+
		"jobs with the admin token", app, most)
}

// withhold sets whether code is kept from creating a deleted job.
func (m *Manage) withhold(ctx context.Context, actor core.Actor, app, name string, is bool) error {
	return budget.UpdateWithRetry(ctx, core.Say("could not confirm that app %s was stored: try again", app), func() (bool, error) {
		old, found, err := m.ask.FindApp(ctx, app)
		if err != nil || !found || slices.Contains(old.Withheld, name) == is {
			return true, err
		}
		next, why := old, "job "+name+" is given back to its code"
		next.Withheld = slices.DeleteFunc(slices.Clone(old.Withheld), func(n string) bool { return n == name })
		if is {
			if len(old.Withheld) >= core.MaxWithheld {
				return false, core.Errorf(core.CodeTooLarge, "app %s has %d deleted jobs that its code cannot create again, the maximum: "+
					"use tickring return-to-code for jobs that no code declares, such as %s", app, core.MaxWithheld, old.Withheld[0])
			}
			next.Withheld, why = append(next.Withheld, name), "job "+name+" was deleted: code cannot create the job again"
		}
		c := m.change(actor, core.VerbUpdated, old.Rev)
		c.Why = why
		return budget.WriteResult(m.putApp(ctx, &old, &next, c))
	})
}

// GiveBack lets code declare a job again that a user created, changed or deleted. The job does not change until its
// code declares it.
func (m *Manage) GiveBack(ctx context.Context, actor core.Actor, app, name string) (SaveResult, error) {
	if err := actor.Validate(); err != nil {
		return SaveResult{}, err
	}
	a, err := m.ask.App(ctx, app)
	if err != nil {
		return SaveResult{}, err
	}
	withheld := slices.Contains(a.Withheld, name)
	j, err := m.ask.Job(ctx, app+"/"+name)
	switch gone := core.CodeOf(err) == core.CodeNotFound && err != nil; {
	case gone && withheld:
		return SaveResult{App: app, Name: name, Change: Updated}, m.withhold(ctx, actor, app, name, false)
	case err != nil:
		return SaveResult{}, err
	case j.Def.Declared == "" && j.Def.Set != "":
		return SaveResult{}, core.Errorf(core.CodeRefused, "job %s belongs to the set %q: remove it from that set first", j.Name(), j.Def.Set)
	}
	if withheld {
		if err := m.withhold(ctx, actor, app, name, false); err != nil {
			return SaveResult{}, err
		}
	}
	s := &j.Sched
	res := m.save(ctx, actor, []JobSpec{{Def: j.Def, Schedule: s.Schedule, Misfire: s.Misfire, Grace: s.Grace, Deadline: s.Deadline,
		IfRev: &s.Rev}}, giveBack, nil, nil)[0]
	return res, res.Err
}
