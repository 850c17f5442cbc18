package callback_test

import (
	"context"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// A counter is a store that counts the reads of callbacks.
type counter struct {
	*store.Store
	runs, apps int
}

func counted(s *store.Store) *counter {
	c := &counter{}
	c.Store = hook.Over(s, func(_ context.Context, of *hook.Call, next func() []error) []error {
		switch {
		case of.Runs != nil:
			c.runs++
		case of.Get != nil:
			c.apps++
		}
		return next()
	})
	return c
}

type door struct {
	t     *testing.T
	e     *store.Store
	ids   []core.RunID
	store *counter
	c     *callback.Callback
	now   time.Time
}

const tokenFor = 10 * time.Second

func newDoor(t *testing.T, runs int) *door {
	e, ids := open(t, runs)
	d := &door{t: t, e: e, ids: ids, store: counted(e), now: now}
	clock := func() time.Time { return d.now }
	end := finish.New(e, finish.Options{Now: clock, Plan: plan.Local()})
	d.c = callback.New(d.store.Store, end, callback.Options{Now: clock, TokenFor: tokenFor})
	return d
}

// report reports the end of a new run and returns the number of reads.
func (d *door) report(what, token string, with int, want core.Code) (runs, apps int) {
	d.t.Helper()
	id := d.ids[0]
	if want == "" {
		d.ids = d.ids[1:]
	}
	before := *d.store
	if err := d.c.Callback(ctx, callback.Caller{Token: token}, []finish.Result{ended(id, with)})[0]; code(err) != want {
		d.t.Errorf("%s: %v, want %q", what, err, want)
	}
	found, err := store.Complete(d.e.Runs.Get(ctx, []core.RunID{id}))
	if open := found[id].State.Open(); err != nil || open != (want != "") {
		d.t.Errorf("%s: the run is %s, %v", what, found[id].State, err)
	}
	return d.store.runs - before.runs, d.store.apps - before.apps
}

func (d *door) token(text string) {
	d.t.Helper()
	found, err := d.e.Apps(ctx, "shop")
	check.OK(d.t, err)
	app := found["shop"].Is
	seen := app.Rev
	app.Token, app.Rev = text, seen+1
	check.OK(d.t, d.e.PutApp(ctx, seen, app, core.Change{ID: app.Rev, App: "shop"}))
}

// TestSuccessTakesNoRead checks that a success of a known job reads no run, and the token every ten
// seconds.
func TestSuccessTakesNoRead(t *testing.T) {
	d := newDoor(t, 12)
	reads := func(what string, with, runs, apps int) {
		t.Helper()
		if r, a := d.report(what, "secret", with, ""); r != runs || a != apps {
			t.Errorf("%s: %d reads of runs and %d of apps, want %d and %d", what, r, a, runs, apps)
		}
	}
	reads("the first", 200, 1, 1)
	reads("the second", 200, 0, 0)
	reads("a failure", 500, 1, 1)
	d.now = d.now.Add(tokenFor - time.Nanosecond)
	reads("as long as the token is remembered", 200, 0, 0)
	d.now = d.now.Add(time.Nanosecond)
	reads("and then", 200, 0, 1)
	d.now = d.now.Add(-time.Hour)
	reads("after the clock was set back", 200, 0, 1)
}

// TestTokenIsTakenAway checks that a revoked token works only while it is cached, and that the new one
// works at once.
func TestTokenIsTakenAway(t *testing.T) {
	d := newDoor(t, 8)
	d.report("the first", "secret", 200, "")
	d.token("new")
	d.now = d.now.Add(tokenFor - time.Nanosecond)
	d.report("the old token within ten seconds", "secret", 200, "")
	d.now = d.now.Add(time.Nanosecond)
	d.report("the old token after them", "secret", 200, core.CodeUnauthorized)
	d.report("the new token", "new", 200, "")
	d.token("newest")
	d.report("a token that is newer than the cached ones", "newest", 200, "")
	d.report("the one before, once the newest was read", "new", 200, core.CodeUnauthorized)
	d.report("one that never was", "guess", 200, core.CodeUnauthorized)
}

// TestRunOfAnotherApp checks that a token of a job's former app ends no run of its new app.
func TestRunOfAnotherApp(t *testing.T) {
	d := newDoor(t, 2)
	d.report("before", "secret", 200, "")
	moved := core.Run{ID: core.NumberedRun(7, 100), App: "pay", State: core.Running, Cause: core.CauseAPI, Owner: "me", Attempt: 1}
	check.OK(t, d.e.CreateRuns(ctx, []core.Run{moved})[0])
	d.ids = []core.RunID{moved.ID, moved.ID}
	d.report("the token of the app before", "secret", 200, core.CodeUnauthorized)
	d.report("its own", "other", 200, "")
}
