package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// ExecutorView is one executor as shown to users.
type ExecutorView struct {
	core.Executor
	Live bool
	Used bool // false if the executor has registered itself, but the app has fixed addresses
	// Replaced is true if the executor has stopped and a later registration replaced it.
	Replaced bool
}

// FindApp reads an app; false if the app does not exist. Secrets that cannot be decrypted stay in encrypted form, so
// that users can still view and change the app.
func (q *Queries) FindApp(ctx context.Context, name string) (core.App, bool, error) {
	if err := core.CheckAppName("app", name); err != nil {
		return core.App{}, false, err
	}
	found, err := q.store.Apps(ctx, name)
	a, ok := found[name]
	return a.Is, ok, cmp.Or(core.Retryable(err), core.UnreadableApp(name, a.Usable()))
}

func (q *Queries) App(ctx context.Context, name string) (core.App, error) {
	a, ok, err := q.FindApp(ctx, name)
	if err == nil && !ok {
		err = core.Errorf(core.CodeNotFound, "app %s does not exist", name)
	}
	return a, err
}

// Apps returns all apps, sorted by name, and the errors of the apps that cannot be read. The apps contain their
// tokens, so callers must not output the apps.
func (q *Queries) Apps(ctx context.Context) ([]core.App, map[string]error, error) {
	list, err := q.store.ListApps(ctx)
	var apps []core.App
	bad := map[string]error{}
	for i := range list {
		switch v := &list[i]; {
		case v.Err == nil:
			apps = append(apps, v.Is)
		case errors.Is(v.Err, core.ErrThrottled):
			err = cmp.Or(err, v.Err)
		default:
			bad[v.Name] = v.Err
		}
	}
	if err != nil {
		return nil, nil, core.Retryable(err)
	}
	return apps, bad, nil
}

// Global reads the item with the state of the whole deployment, such as the pause of all jobs.
func (q *Queries) Global(ctx context.Context) (core.Global, error) {
	g, err := q.store.Global(ctx)
	return g, core.Retryable(err)
}

// holds are the apps, and the current pauses of each app and of everything.
type holds struct {
	global core.Global
	apps   []core.App
	bad    map[string]error      // apps that cannot be read, so that their pauses are unknown
	of     map[string]core.Pause // by app
}

func (q *Queries) holds(ctx context.Context) (h holds, err error) {
	if h.global, err = q.Global(ctx); err == nil {
		h.apps, h.bad, err = q.Apps(ctx)
	}
	h.of = make(map[string]core.Pause, len(h.apps))
	for i := range h.apps {
		h.of[h.apps[i].Name] = h.apps[i].Pause
	}
	return h, err
}

// covers reports whether the jobs of an app are paused by a pause of the app or of everything.
func (h *holds) covers(app string, now time.Time) bool {
	return h.global.Pause.Covers(now) || h.of[app].Covers(now)
}

// Executors lists the executors of an app: first the fixed executors, then all registered executors, live or not.
func (q *Queries) Executors(ctx context.Context, name string) ([]ExecutorView, error) {
	app, err := q.App(ctx, name)
	if err != nil {
		return nil, err
	}
	stored, err := q.store.Executors(ctx, []string{name})
	if err != nil {
		return nil, core.Retryable(err)
	}
	g, err := q.Global(ctx)
	if err != nil {
		return nil, err
	}
	return ExecutorsOf(&app, stored[name], g, q.o.Now(), q.o.Expiry), nil
}

// ExecutorsOf returns the list that Executors returns, from an app and its stored registrations.
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

// replaced marks executors that have stopped and were replaced by a later registration. Each later registration
// replaces one, because a new deployment starts as many as it stops.
func replaced(views []ExecutorView) {
	order := make([]*ExecutorView, 0, len(views))
	for i := range views {
		if !views[i].Fixed {
			order = append(order, &views[i])
		}
	}
	slices.SortStableFunc(order, func(a, b *ExecutorView) int { return b.Since.Compare(a.Since) })
	later, same := 0, 0 // later registrations that replace none so far, and the ones with the current time
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
