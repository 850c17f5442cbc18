package manage

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/query"
)

// SaveApp creates or changes an app. If the app is already as wanted, SaveApp writes nothing. SaveApp never changes
// the pause and the list of suppressed jobs.
func (m *Manage) SaveApp(ctx context.Context, actor core.Actor, spec AppSpec) (AppResult, error) {
	if err := actor.Validate(); err != nil {
		return AppResult{}, err
	}
	return m.saveApp(ctx, actor, spec, true)
}

// CheckApp returns the result that SaveApp would return, and changes nothing.
func (m *Manage) CheckApp(ctx context.Context, spec AppSpec) (AppResult, error) {
	return m.saveApp(ctx, core.Actor{}, spec, false)
}

func (m *Manage) saveApp(ctx context.Context, actor core.Actor, spec AppSpec, write bool) (AppResult, error) {
	want := core.App{Name: spec.Name, Title: spec.Title, Set: spec.Set, Executors: core.NormalAddresses(spec.Executors),
		WaitForExecutor: spec.WaitForExecutor, Overlap: spec.Overlap.Normal(), Limits: spec.Limits, Call: spec.Call.Normal(),
		Notify: spec.Notify.Normal()}
	for i, text := range spec.Allow {
		p, err := ParseRange(text)
		if err != nil {
			return AppResult{}, core.Invalid(fmt.Sprintf("allow[%d]", i), text, "%v", err)
		}
		want.Allow = append(want.Allow, p)
	}
	if spec.Token != nil {
		want.Token = *spec.Token
	}
	if err := want.Validate(); err != nil {
		return AppResult{}, err
	}
	if err := want.CheckCall(want.Call); err != nil {
		return AppResult{}, err
	}
	for i, address := range want.Executors {
		if err := m.ask.Reachable(fmt.Sprintf("executors[%d]", i), address); err != nil {
			return AppResult{}, err
		}
	}
	var attempts []core.App
	res := AppResult{Name: spec.Name}
	unclear := core.Say("could not confirm that app %s was stored: reload the app and try again", spec.Name)
	err := budget.UpdateWithRetry(ctx, unclear, func() (bool, error) {
		old, found, err := m.ask.FindApp(ctx, spec.Name)
		if err != nil {
			return false, err
		}
		res.Rev = old.Rev
		for i := range attempts {
			if found && attempts[i].Rev == old.Rev && sameApp(&attempts[i], &old) {
				res.Change = changeOf(core.Millis(old.Created) == old.Rev)
				return true, nil
			}
		}
		if err := expect("app "+spec.Name, spec.IfRev, found, old.Rev, spec.Set, old.Set); err != nil {
			return false, err
		}
		next, verb := want, core.VerbCreated
		if next.Call, err = want.Call.Kept(old.Call); err != nil {
			return false, err
		}
		if found {
			verb = core.VerbUpdated
			next.Withheld, next.Pause, next.Created, next.Rev = old.Withheld, old.Pause, old.Created, old.Rev
			next.Set = cmp.Or(next.Set, old.Set)
			if spec.Token == nil {
				next.Token = old.Token
			}
		}
		res.Old, res.New = old, next
		if res.Change = changeOf(!found); found && sameApp(&next, &old) {
			res.Change = Unchanged
		}
		if res.Change == Unchanged || !write {
			return true, nil
		}
		if err := m.known(ctx, next.Notify); err != nil {
			return false, err
		}
		done, err := budget.WriteResult(m.putApp(ctx, &old, &next, m.change(actor, verb, old.Rev)))
		res.Rev, attempts = next.Rev, append(attempts, next)
		return done, err
	})
	if err != nil {
		return AppResult{}, err
	}
	if write && res.Change == Updated {
		m.finish.WakeApp(ctx, spec.Name)
	}
	return res, nil
}

func (m *Manage) putApp(ctx context.Context, old, next *core.App, c core.Change) error {
	next.Rev = c.ID
	if old.Name == "" {
		next.Created = c.At
	} else {
		c.Old = core.AppRecordOf(old).String()
	}
	c.App, c.New = next.Name, core.AppRecordOf(next).String()
	return m.store.PutApp(ctx, old.Rev, *next, c)
}

// ParseRange parses an entry of AppSpec.Allow. The error describes the allowed formats.
func ParseRange(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.WithZone("").Prefix(ip.BitLen())
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, core.Errorf(core.CodeInvalid, "write a range as 10.0.0.0/8 or fd00::/8, or as a single IP address")
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
		slices.Equal(a.Executors, b.Executors) && slices.Equal(a.Allow, b.Allow) && a.WaitForExecutor == b.WaitForExecutor &&
		a.Overlap == b.Overlap && a.Limits == b.Limits && a.Call.Equal(b.Call) && a.Notify.Equal(b.Notify)
}

// RemoveExecutor deletes the registration of an executor, and stores a change record.
func (m *Manage) RemoveExecutor(ctx context.Context, actor core.Actor, app, address string) error {
	if err := actor.Validate(); err != nil {
		return err
	}
	list, err := m.ask.Executors(ctx, app)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(x query.ExecutorView) bool { return x.Address == address })
	switch {
	case i < 0:
		return &core.Error{Code: core.CodeNotFound, Field: "address", Value: core.Truncate(address),
			Reason: core.Say("app %s has no executor at this address", app)}
	case list[i].Fixed:
		return core.Errorf(core.CodeRefused, "%s is a fixed address of app %s: remove the address from the app's manifest", address, app)
	case list[i].Live:
		return core.Errorf(core.CodeRefused, "%s sends heartbeats: stop the executor first", address)
	}
	if err := m.store.RemoveExecutor(ctx, app, address, list[i].Beat); err != nil {
		return core.Retryable(err)
	}
	c := m.change(actor, core.VerbRemoved, 0)
	c.App, c.Why = app, address
	return budget.RetryUntilCertain(ctx, func() error { return m.store.PutChanges(ctx, []core.Change{c}) })
}

func (m *Manage) DeleteApp(ctx context.Context, actor core.Actor, name string) error {
	if err := actor.Validate(); err != nil {
		return err
	}
	tried := false
	return budget.UpdateWithRetry(ctx, core.Say("could not confirm that app %s was deleted: try again", name), func() (bool, error) {
		old, err := m.ask.App(ctx, name)
		if err != nil {
			return gone(err, tried)
		}
		if err := m.empty(ctx, name, asStored); err != nil {
			return false, err
		}
		tried = true
		c := m.change(actor, core.VerbDeleted, old.Rev)
		c.App, c.Old = name, core.AppRecordOf(&old).String()
		return budget.WriteResult(m.store.DeleteApp(ctx, old.Rev, name, c))
	})
}

// empty rejects the deletion of an app that has jobs.
func (m *Manage) empty(ctx context.Context, name string, leaves leaving) error {
	for after, n := core.JobID(0), 1; ; n = budget.AtOnce { // usually the first job stays
		jobs, next, err := m.store.Jobs.List(ctx, name, after, n)
		if err != nil {
			return core.Retryable(err)
		}
		var bad error
		for _, g := range jobs {
			if g.Err != nil {
				bad = cmp.Or(bad, core.UnreadableJob(g.Is.Def.ID, g.Err))
			} else if _, stays := leaves(g.Is.Name(), g.Is.Def.Set, core.Notify{}); stays {
				return core.Errorf(core.CodeRefused, "app %s has jobs, such as %s: delete the jobs first", name, g.Is.Name())
			}
		}
		if bad != nil {
			return core.Errorf(core.CodeRefused, "app %s has a job that cannot be read: %v", name, bad)
		}
		if after = next; next == 0 {
			return nil
		}
	}
}
