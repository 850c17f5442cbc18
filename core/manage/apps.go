package manage

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
)

// SaveApp makes or changes an app. One that is already as wanted is left alone;
// its pause and what is withheld from its code are never touched.
func (m *Manage) SaveApp(ctx context.Context, actor Actor, spec AppSpec) (AppResult, error) {
	if err := actor.check(); err != nil {
		return AppResult{}, err
	}
	return m.saveApp(ctx, actor, spec, true)
}

// CheckApp says what SaveApp would answer, and changes nothing.
func (m *Manage) CheckApp(ctx context.Context, spec AppSpec) (AppResult, error) {
	return m.saveApp(ctx, Actor{}, spec, false)
}

func (m *Manage) saveApp(ctx context.Context, actor Actor, spec AppSpec, write bool) (AppResult, error) {
	want := core.App{Name: spec.Name, Title: spec.Title, Set: spec.Set, Executors: spec.Executors}
	for i, text := range spec.Allow {
		p, err := ParseRange(text)
		if err != nil {
			return AppResult{}, core.Invalid(fmt.Sprintf("allow[%d]", i), text, err.Error())
		}
		want.Allow = append(want.Allow, p)
	}
	if spec.Token != nil {
		want.Token = *spec.Token
	}
	if err := want.Validate(); err != nil {
		return AppResult{}, err
	}
	for i, address := range want.Executors {
		if err := m.reachable(fmt.Sprintf("executors[%d]", i), address); err != nil {
			return AppResult{}, err
		}
	}
	var attempts []core.App
	for range tries {
		old, found, err := m.app(ctx, spec.Name)
		if err != nil {
			return AppResult{}, err
		}
		for i := range attempts {
			if found && attempts[i].Rev == old.Rev && sameApp(&attempts[i], &old) {
				return AppResult{spec.Name, old.Rev, changeOf(core.Millis(old.Created) == old.Rev)}, nil
			}
		}
		if err := expectApp(&spec, &old, found); err != nil {
			return AppResult{}, err
		}
		now := m.now()
		next := want
		next.Rev = max(core.Millis(now), old.Rev+1)
		c := core.Change{ID: next.Rev, At: now, By: actor.Name, Verb: core.VerbCreated, App: spec.Name}
		if found {
			next.Withheld, next.Pause, next.Created = old.Withheld, old.Pause, old.Created
			if next.Set == "" {
				next.Set = old.Set
			}
			if spec.Token == nil {
				next.Token = old.Token
			}
			if sameApp(&next, &old) {
				return AppResult{spec.Name, old.Rev, Unchanged}, nil
			}
			c.Verb, c.Old = core.VerbUpdated, core.AppRecordOf(&old).String()
		} else {
			next.Created = now
		}
		c.New = core.AppRecordOf(&next).String()
		if !write {
			return AppResult{spec.Name, old.Rev, changeOf(!found)}, nil
		}
		switch judge(m.store.PutApp(ctx, old.Rev, next, c)) {
		case done:
			return AppResult{spec.Name, next.Rev, changeOf(!found)}, nil
		case failed:
			return AppResult{}, passing(core.ErrThrottled)
		}
		attempts = append(attempts, next)
		if ctx.Err() != nil {
			return AppResult{}, passing(ctx.Err())
		}
	}
	return AppResult{}, core.Errorf(core.CodeUnavailable, "app %s could not be stored for certain: read it, and try again", spec.Name)
}

// ParseRange reads what may stand in Allow. Its error says how that is written.
func ParseRange(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.WithZone("").Prefix(ip.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New("a range is written as 10.0.0.0/8 or fd00::/8, or as a single IP address")
	}
	return p.Masked(), nil
}

func changeOf(created bool) string {
	if created {
		return Created
	}
	return Updated
}

func sameApp(a, b *core.App) bool {
	return a.Name == b.Name && a.Title == b.Title && a.Set == b.Set && a.Token == b.Token &&
		slices.Equal(a.Executors, b.Executors) && slices.Equal(a.Allow, b.Allow)
}

func expectApp(spec *AppSpec, old *core.App, found bool) error {
	switch want := spec.IfRev; {
	case want == nil:
	case !found && *want != 0:
		return core.Errorf(core.CodeConflict, "app %s was deleted meanwhile", spec.Name)
	case found && *want == 0:
		return core.Errorf(core.CodeConflict, "app %s exists already", spec.Name)
	case *want != old.Rev:
		return core.Errorf(core.CodeConflict, "app %s was changed meanwhile: it has revision %d, not %d", spec.Name, old.Rev, *want)
	}
	if found && old.Set != "" && spec.Set != "" && old.Set != spec.Set {
		return core.Errorf(core.CodeConflict, "app %s belongs to the set %q, not to %q", spec.Name, old.Set, spec.Set)
	}
	return nil
}

func (m *Manage) app(ctx context.Context, name string) (core.App, bool, error) {
	if err := core.CheckAppName("app", name); err != nil {
		return core.App{}, false, err
	}
	found, left, err := m.store.Apps(ctx, []string{name})
	if err := unread(left, err); err != nil {
		return core.App{}, false, err
	}
	a, ok := found[name]
	return a, ok, nil
}

// App reads an app. Its token is in it: not for output.
func (m *Manage) App(ctx context.Context, name string) (core.App, error) {
	a, ok, err := m.app(ctx, name)
	if err == nil && !ok {
		err = core.Errorf(core.CodeNotFound, "there is no app %s", name)
	}
	return a, err
}

// Apps lists all apps by name. Their tokens are in them: not for output.
func (m *Manage) Apps(ctx context.Context) ([]core.App, error) {
	apps, err := m.store.ListApps(ctx)
	if err != nil {
		return nil, passing(err)
	}
	slices.SortFunc(apps, func(a, b core.App) int { return strings.Compare(a.Name, b.Name) })
	return apps, nil
}

// Global reads the item that concerns everything: the pause of everything.
func (m *Manage) Global(ctx context.Context) (core.Global, error) {
	g, err := m.store.Global(ctx)
	if err != nil {
		return core.Global{}, passing(err)
	}
	return g, nil
}

// DeleteApp removes an app that has no job.
func (m *Manage) DeleteApp(ctx context.Context, actor Actor, name string) error {
	if err := actor.check(); err != nil {
		return err
	}
	tried := false
	for range tries {
		old, found, err := m.app(ctx, name)
		switch {
		case err != nil:
			return err
		case !found && tried:
			return nil // by us, or by somebody else meanwhile
		case !found:
			return core.Errorf(core.CodeNotFound, "there is no app %s", name)
		}
		for after := core.JobID(0); ; {
			jobs, next, err := m.store.ListJobs(ctx, name, after, 1)
			bad, err := core.Besides(err)
			switch {
			case err != nil:
				return passing(err)
			case len(jobs) > 0:
				return core.Errorf(core.CodeRefused, "app %s has jobs, %s for one: delete them first", name, jobs[0].Name())
			case len(bad) > 0:
				return core.Errorf(core.CodeRefused, "app %s has a job: %v", name, bad)
			}
			if after = next; next == 0 {
				break
			}
		}
		now := m.now()
		c := core.Change{ID: max(core.Millis(now), old.Rev+1), At: now, By: actor.Name, Verb: core.VerbDeleted, App: name,
			Old: core.AppRecordOf(&old).String()}
		switch judge(m.store.DeleteApp(ctx, old.Rev, name, c)) {
		case done:
			return nil
		case failed:
			return passing(core.ErrThrottled)
		}
		tried = true
		if ctx.Err() != nil {
			return passing(ctx.Err())
		}
	}
	return core.Errorf(core.CodeUnavailable, "app %s could not be deleted for certain: try again", name)
}

// Executors lists the executors of an app: fixed ones first, then those that
// registered, live or not.
func (m *Manage) Executors(ctx context.Context, name string) ([]ExecutorView, error) {
	app, err := m.App(ctx, name)
	if err != nil {
		return nil, err
	}
	stored, err := m.store.Executors(ctx, []string{name})
	if err != nil {
		return nil, passing(err)
	}
	g, err := m.Global(ctx)
	if err != nil {
		return nil, err
	}
	now := m.o.Now()
	var views []ExecutorView
	fixed := map[string]bool{}
	for _, e := range app.Candidates(stored[name], g, now, m.o.Expiry) {
		if e.Fixed {
			fixed[e.Address] = true
			views = append(views, ExecutorView{Executor: e, Live: true, Used: true})
		}
	}
	live := map[string]bool{}
	for _, e := range core.Live(stored[name], g, now, m.o.Expiry) {
		live[e.Address] = true
	}
	list := slices.Clone(stored[name])
	slices.SortFunc(list, func(a, b core.Executor) int { return strings.Compare(a.Address, b.Address) })
	for _, e := range list {
		if !e.Fixed && !fixed[e.Address] {
			views = append(views, ExecutorView{Executor: e, Live: live[e.Address], Used: len(fixed) == 0})
		}
	}
	return views, nil
}
