package callback_test

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

var (
	ctx = context.Background()
	now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		code    int
		message string
		state   core.State
		reason  core.Reason
		killed  bool
	}{
		{200, "", core.Succeeded, "", false},
		{200, "scheduling center kill job. [job running, killed]", core.Succeeded, "", false},
		{502, "job execute timeout ", core.TimedOut, core.ReasonTimeout, false},
		{500, "java.lang.IllegalStateException: x", core.Failed, core.ReasonHandler, false},
		{0, "", core.Failed, core.ReasonHandler, false},
		{-1, "", core.Failed, core.ReasonHandler, false},
		{500, "the process was killed", core.Failed, core.ReasonHandler, false},
		{500, "scheduling center kill job. [job running, killed]", core.Killed, core.ReasonPerson, true},
		{500, "scheduling center kill job. [job not executed, in the job queue, killed.]", core.Killed, core.ReasonPerson, true},
		{500, "reason [job running, killed]", core.Killed, core.ReasonPerson, true},
		{500, "block strategy effect：Cover Early [job running, killed]", core.Killed, core.ReasonReplaced, true},
		{500, "block strategy effect：Cover Early [job not executed, in the job queue, killed.]", core.Killed, core.ReasonReplaced, true},
		{500, "change jobhandler or glue type, and terminate the old job thread. [job not executed, in the job queue, killed.]", core.Killed,
			core.ReasonReplaced, true},
		{500, "web container destroy and kill the job. [job running, killed]", core.Failed, core.ReasonCrashed, false},
		{500, "excutor idel times over limit. [job not executed, in the job queue, killed.]", core.Failed, core.ReasonCrashed, false},
	} {
		got := callback.Translate(1<<33, c.code, c.message, "", now)
		if got.State != c.state || got.Reason != c.reason || got.Killed != c.killed || got.Code != c.code || got.Run != 1<<33 ||
			!got.At.Equal(now) {
			t.Errorf("%d %q: %+v", c.code, c.message, got)
		}
	}
	for _, n := range []int{0, 1, core.DataMax, core.DataMax + 1} {
		got := callback.Translate(1, 200, "done", strings.Repeat("d", n), now)
		dropped := n > core.DataMax
		if len(got.Data) != n && !dropped || dropped && got.Data != "" || (got.Message != "done") != dropped {
			t.Errorf("data of %d bytes: %d are kept, and the message is %q", n, len(got.Data), got.Message)
		}
		if dropped {
			golden.New(t).Equal(t, "too long", got.Message)
		}
	}
	for text, want := range map[string]int{strings.Repeat("报", 20000): core.MessageMax, strings.Repeat("x", 15001): core.MessageMax,
		"a\xffb": 3} {
		got := callback.Translate(1, 500, text, "", now).Message
		if utf8.RuneCountInString(got) != want || !utf8.ValidString(got) {
			t.Errorf("%d characters of %.10q, want %d", utf8.RuneCountInString(got), text, want)
		}
	}
}

func open(t *testing.T, n int) (*store.Store, []core.RunID) {
	t.Helper()
	e := memory.Open(t, memory.Options{Now: func() time.Time { return now }})
	for _, a := range []core.App{{Name: "shop", Token: "secret", Rev: 1}, {Name: "pay", Token: "other", Rev: 1}, {Name: "open", Rev: 1}} {
		check.OK(t, e.PutApp(ctx, 0, a, core.Change{ID: 1, App: a.Name}))
	}
	runs := make([]core.Run, n)
	ids := make([]core.RunID, n)
	for i := range runs {
		ids[i] = core.NumberedRun(7, uint32(i+1))
		runs[i] = core.Run{ID: ids[i], App: "shop", State: core.Running, Cause: core.CauseAPI, Owner: "me", Attempt: 1, First: ids[i]}
	}
	for _, err := range e.CreateRuns(ctx, runs) {
		check.OK(t, err)
	}
	return e, ids
}

func start(e *store.Store, o callback.Options) *callback.Callback {
	o.Now = func() time.Time { return now }
	end := finish.New(e, finish.Options{Now: o.Now, Plan: plan.Local()})
	return callback.New(e, end, o)
}

// ended returns the end of a run without a message.
func ended(run core.RunID, code int) finish.Result { return callback.Translate(run, code, "", "", now) }

func code(err error) core.Code {
	if err == nil {
		return ""
	}
	return core.CodeOf(err)
}

func TestCallback(t *testing.T) {
	e, ids := open(t, 4)
	c := start(e, callback.Options{})
	shop := callback.Caller{Token: "secret"}
	results := []finish.Result{
		ended(ids[0], 200), ended(7, 200), ended(-1, 200), ended(ids[0], 500),
		ended(core.NumberedRun(7, 99), 200), callback.Translate(ids[1], 500, "bad", "", now),
	}
	want := []core.Code{"", core.CodeNotFound, core.CodeNotFound, "", core.CodeNotFound, ""}
	for round := range 2 { // a second report of a closed run is no error
		for i, err := range c.Callback(ctx, shop, results) {
			check.Equal(t, code(err), want[i], "round %d, %d: %v, want", round, i, err)
		}
	}
	found, err := store.Complete(e.Runs.Get(ctx, ids))
	if err != nil || found[ids[0]].State != core.Succeeded || found[ids[1]].State != core.Failed || found[ids[1]].Message != "bad" {
		t.Errorf("%+v %v", found, err)
	}
	for name, from := range map[string]callback.Caller{"wrong token": {Token: "x"}, "none": {}, "of another app": {Token: "other"},
		"of another app, named": {App: "pay", Token: "other"}, "named wrong": {App: "pay", Token: "secret"},
		"proven for another": {App: "pay", Proven: true}} {
		if err := c.Callback(ctx, from, []finish.Result{ended(ids[2], 200)})[0]; code(err) != core.CodeUnauthorized {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i, from := range []callback.Caller{{App: "shop", Token: "secret"}, {Proven: true}} {
		if err := c.Callback(ctx, from, []finish.Result{ended(ids[2+i], 200)})[0]; err != nil {
			t.Errorf("%+v: %v", from, err)
		}
	}
	if got := c.Callback(ctx, shop, nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestAppWithoutToken(t *testing.T) {
	e, _ := open(t, 0)
	id := core.NumberedRun(9, 1)
	e.CreateRuns(ctx, []core.Run{{ID: id, App: "open", State: core.Running, Cause: core.CauseAPI, Owner: "me", Attempt: 1, First: id}})
	report := []finish.Result{ended(id, 200)}
	if err := start(e, callback.Options{}).Callback(ctx, callback.Caller{}, report)[0]; code(err) != core.CodeUnauthorized {
		t.Errorf("%v", err)
	}
	all := callback.Options{AllowNoToken: func(context.Context) bool { return true }}
	if err := start(e, all).Callback(ctx, callback.Caller{}, report)[0]; err != nil {
		t.Errorf("%v", err)
	}
}

// TestBacklog checks that thousands of results in one request are handled in batches. For a caller that may report none of
// the runs, only one batch is read. Results of the caller's app are accepted after a batch of another app's.
func TestBacklog(t *testing.T) {
	pay := core.Run{ID: core.NumberedRun(8, 1), App: "pay", State: core.Running, Cause: core.CauseAPI, Owner: "me", Attempt: 1,
		First: core.NumberedRun(8, 1)}
	for name, c := range map[string]struct {
		token string
		runs  int
		last  bool // the last result is of the app "pay"
		want  core.Code
		reads int // batches of runs; 0: any number
	}{
		"of its app":        {"secret", 3000, false, "", 0},
		"of others":         {"other", 3000, false, core.CodeUnauthorized, 1},
		"of others and its": {"other", callback.Batch + 1, true, core.CodeUnauthorized, 0},
	} {
		e, ids := open(t, c.runs)
		var results []finish.Result
		for _, id := range ids {
			results = append(results, ended(id, 200))
		}
		if c.last {
			check.OK(t, e.CreateRuns(ctx, []core.Run{pay})[0])
			results = append(results, ended(pay.ID, 200))
		}
		s := counted(e)
		errs := start(s.Store, callback.Options{}).Callback(ctx, callback.Caller{Token: c.token}, results)
		if last := len(ids); c.last && errs[last] != nil {
			t.Errorf("%s: of the app whose token it is: %v", name, errs[last])
		}
		for i, err := range errs[:len(ids)] {
			if code(err) != c.want {
				t.Fatalf("%s: %d: %v", name, i, err)
			}
		}
		if c.reads > 0 {
			check.Equal(t, s.runs, c.reads, "%s: batches were read", name)
		}
	}
}

// TestUnread checks that an unreadable run is not reported as missing, so that the executor tries again.
func TestUnread(t *testing.T) {
	e, ids := open(t, 1)
	for _, one := range []bool{false, true} {
		s := hook.Over(e, func(_ context.Context, c *hook.Call, next func() []error) []error {
			switch {
			case c.Runs == nil:
				return next()
			case one:
				c.GotRuns = hook.RunMap{c.Runs[0]: {Err: core.ErrThrottled}}
				return []error{nil}
			}
			return []error{core.ErrThrottled}
		})
		c := callback.New(s, nil, callback.Options{})
		if err := c.Callback(ctx, callback.Caller{Token: "secret"}, []finish.Result{ended(ids[0], 200)})[0]; code(err) != core.CodeUnavailable {
			t.Errorf("%v", err)
		}
	}
}

// TestUnreadableApp checks that results of an unreadable app must be sent again, and that others in the
// request are stored.
func TestUnreadableApp(t *testing.T) {
	e, ids := open(t, 2)
	check.OK(t, e.PutApp(ctx, 0, core.App{Name: "ledger", Token: "secret", Rev: 1}, core.Change{ID: 1, App: "ledger"}))
	other := core.Run{ID: core.NumberedRun(77, 1), App: "ledger", State: core.Running, Cause: core.CauseAPI, Owner: "o", Attempt: 1}
	other.First = other.ID
	check.OK(t, e.CreateRuns(ctx, []core.Run{other})[0])
	memory.DamageApp(t, e.Records, "ledger")
	c := callback.New(e, finish.New(e, finish.Options{Plan: plan.Local()}), callback.Options{})
	errs := c.Callback(ctx, callback.Caller{Token: "secret"}, []finish.Result{ended(ids[0], 500), ended(other.ID, 500), ended(ids[1], 200)})
	if errs[0] != nil || errs[2] != nil || code(errs[1]) != core.CodeUnavailable {
		t.Errorf("%v", errs)
	}
}

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
	d = newDoor(t, 1)
	d.c.Sent(d.ids[0].Job(), "shop")
	reads("the first of a job that this process sent", 200, 0, 1)
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
