package ask

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// FindApp reads an app, if there is one of the name. One with secrets that cannot be decrypted has their stored form in
// their place: it can be shown and changed, and compares with nothing that is given.
func (q *Ask) FindApp(ctx context.Context, name string) (core.App, bool, error) {
	if err := core.CheckAppName("app", name); err != nil {
		return core.App{}, false, err
	}
	found, left, err := q.store.Apps(ctx, []string{name})
	if a, is := core.LockedApp(err, name); is {
		return a, true, nil
	}
	if err := core.Unread(left, err); err != nil {
		return core.App{}, false, err
	}
	a, ok := found[name]
	return a, ok, nil
}

func (q *Ask) App(ctx context.Context, name string) (core.App, error) {
	a, ok, err := q.FindApp(ctx, name)
	if err == nil && !ok {
		err = core.Errorf(core.CodeNotFound, "app %s does not exist", name)
	}
	return a, err
}

// Apps lists all apps by name, and those that cannot be understood. Their tokens are in
// them: not for output.
func (q *Ask) Apps(ctx context.Context) ([]core.App, core.UnreadableApps, error) {
	apps, err := q.store.ListApps(ctx)
	bad, err := core.BesidesApps(err)
	if err != nil {
		return nil, nil, core.Passing(err)
	}
	slices.SortFunc(apps, func(a, b core.App) int { return strings.Compare(a.Name, b.Name) })
	return apps, bad, nil
}

// Global reads the item that concerns everything: the pause of everything.
func (q *Ask) Global(ctx context.Context) (core.Global, error) {
	g, err := q.store.Global(ctx)
	if err != nil {
		return core.Global{}, core.Passing(err)
	}
	return g, nil
}

// Executors lists the executors of an app: fixed ones first, then those that
// registered, live or not.
func (q *Ask) Executors(ctx context.Context, name string) ([]ExecutorView, error) {
	app, err := q.App(ctx, name)
	if err != nil {
		return nil, err
	}
	stored, err := q.store.Executors(ctx, []string{name})
	if err != nil {
		return nil, core.Passing(err)
	}
	g, err := q.Global(ctx)
	if err != nil {
		return nil, err
	}
	return ExecutorsOf(&app, stored[name], g, q.o.Now(), q.o.Expiry), nil
}

// ExecutorsOf lists the executors of an app by what is stored of them: fixed ones first, then
// those that registered, live or not.
func ExecutorsOf(app *core.App, stored []core.Executor, g core.Global, now time.Time, expiry time.Duration) (views []ExecutorView) {
	fixed := map[string]bool{}
	for _, e := range app.Candidates(stored, g, now, expiry) {
		if e.Fixed {
			fixed[e.Address] = true
			views = append(views, ExecutorView{Executor: e, Live: true, Used: true})
		}
	}
	live := map[string]bool{}
	for _, e := range core.Live(stored, g, now, expiry) {
		live[e.Address] = true
	}
	list := slices.Clone(stored)
	slices.SortFunc(list, func(a, b core.Executor) int { return strings.Compare(a.Address, b.Address) })
	for _, e := range list {
		if !e.Fixed && !fixed[e.Address] {
			views = append(views, ExecutorView{Executor: e, Live: live[e.Address], Used: len(fixed) == 0})
		}
	}
	replaced(views)
	return views
}

// replaced marks those that are gone and in whose place others registered later, each in the
// place of one: a new deployment brings as many as stop.
func replaced(views []ExecutorView) {
	order := make([]*ExecutorView, 0, len(views))
	for i := range views {
		if !views[i].Fixed {
			order = append(order, &views[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *ExecutorView) int { return b.Since.Compare(a.Since) })
	later, same := 0, 0 // registered later and in nobody's place yet, and those of one moment
	for i, v := range order {
		if i > 0 && !v.Since.Equal(order[i-1].Since) {
			later, same = later+same, 0
		}
		if v.Replaced = !v.Live && later > 0; v.Replaced {
			later--
		}
		same++
	}
}
