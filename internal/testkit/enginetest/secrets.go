package enginetest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/rotate"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// Box returns a Box with its keys in text, which several boxes can share.
func Box(text *string) *secretbox.Box {
	return secretbox.New(core.Say("the keys"), func(context.Context) (string, error) { return *text, nil },
		func(_ context.Context, s string) error { *text = s; return nil })
}

// NewBox returns a Box with its own key.
func NewBox() *secretbox.Box { text := secretbox.NewKey(); return Box(&text) }

var secretTexts = []string{"token-of-orders", "hidden-header", "basic-password", "hidden-variable", "/services/hook-path", "signing-secret"}

// Secrets tests an engine's promises for secrets. open opens the data again with a box, raw returns all stored bytes.
func Secrets(t *testing.T, open func(*secretbox.Box) *engine.Engine, raw func() []byte) {
	ctx, text := t.Context(), secretbox.NewKey()
	e := open(Box(&text))
	call := &core.Call{Headers: map[string]string{"X-Team": "shown", "X-Key": secretTexts[1]}, Hidden: []string{"X-Key"},
		Auth: core.Auth{Basic: core.Basic{User: "u", Password: secretTexts[2]}}}
	app := core.App{Name: "orders", Token: secretTexts[0], Call: call, Executors: []string{"call:http://x"}, Rev: 1}
	ok(t, e.Manage.PutApp(ctx, 0, app, core.Change{ID: 1, App: "orders"}))
	parent, j := job(1), job(2)
	parent.Def.Name, parent.Def.Command = "parent", nil
	parent.Def.Call, j.Def.Call = call, nil
	j.Def.Command = &core.Command{Line: "true", Env: map[string]string{"K": secretTexts[3]}, Hidden: []string{"K"}}
	j.Def.After = []core.Parent{{ID: 1, When: core.UponSuccess}}
	for _, one := range []core.Job{parent, j} { // the second rewrites the definition of the first
		allNil(t, e.Jobs.Put(ctx, []store.JobPut{creates(one)}))
	}
	channel := core.Channel{Name: "ops", Kind: core.ChannelFeishu, URL: "https://h" + secretTexts[4], Secret: secretTexts[5], Rev: 1}
	ok(t, e.Manage.PutChannel(ctx, 0, channel, core.Change{ID: 1, Name: "ops"}))
	hidden := func() {
		t.Helper()
		for _, secret := range secretTexts {
			if bytes.Contains(raw(), []byte(secret)) {
				t.Errorf("the stored data contains the secret %q", secret)
			}
		}
		if !bytes.Contains(raw(), []byte("X-Team")) {
			t.Fatal("the stored data was not read")
		}
	}
	opens := func(e *engine.Engine) {
		t.Helper()
		apps, _, err := e.Manage.Apps(ctx, []string{"orders"})
		ok(t, err)
		jobs := getJobs(t, e, store.Whole, []core.JobID{1, 2})
		channels, err := e.Manage.ListChannels(ctx)
		ok(t, err)
		if a := apps["orders"]; a.Token != secretTexts[0] || !a.Call.Equal(call) || !jobs[1].Def.Call.Equal(call) ||
			len(jobs[1].Def.Children) != 1 || jobs[2].Def.Command.Env["K"] != secretTexts[3] || len(channels) != 1 || !channels[0].Equal(channel) {
			t.Fatalf("read %+v, %+v, %+v", apps, jobs, channels)
		}
	}
	hidden()
	opens(open(Box(&text)))

	foreign := open(NewBox())
	locked(t, foreign)
	// A change of something else leaves the stored secret as it is.
	stored, _ := core.LockedApp(second(foreign.Manage.ListApps(ctx)), "orders")
	stored.Title, stored.Rev = "new title", 2
	ok(t, foreign.Manage.PutApp(ctx, 1, stored, core.Change{ID: 2, App: "orders"}))
	got, err := foreign.Jobs.Get(ctx, store.Whole, []core.JobID{2})
	ok(t, err)
	allNil(t, foreign.Jobs.Put(ctx, []store.JobPut{updates(with(*got[2].Is, func(j *core.Job) { j.Def.Title = "new title" }), 100)}))
	opens(open(Box(&text)))

	rotated(t, open, &text, opens)
	hidden()
}

func second[T any](_ T, err error) error { return err }

// locked tests the reads of secrets with a box that has another key.
func locked(t *testing.T, e *engine.Engine) {
	t.Helper()
	ctx := t.Context()
	apps, _, err := e.Dispatch.Apps(ctx, []string{"orders"})
	if _, is := core.LockedApp(err, "orders"); !is || len(apps) != 0 {
		t.Errorf("apps with another key: %v, %v", apps, err)
	}
	if list, err := e.Manage.ListApps(ctx); len(list) != 0 || err == nil || !strings.Contains(err.Error(), "encrypted with key") {
		t.Errorf("list of apps with another key: %v, %v", list, err)
	}
	jobs, err := e.Jobs.Get(ctx, store.Whole, []core.JobID{1, 2})
	for id := range core.JobID(2) {
		if _, is := errors.AsType[*core.Locked[*core.Job]](jobs[1+id].Err); !is || jobs[1+id].Is.Def.Route != core.RouteRound || err != nil {
			t.Errorf("job %d with another key: %+v, %v", 1+id, jobs[1+id], err)
		}
	}
	found, err := e.Notices.Channels(ctx, []string{"ops"})
	if ok(t, err); found["ops"].Locked() == nil {
		t.Errorf("channels with another key: %+v", found)
	}
}

// rotated replaces the key: killed after its first part, and then to its end.
func rotated(t *testing.T, open func(*secretbox.Box) *engine.Engine, text *string, opens func(*engine.Engine)) {
	t.Helper()
	ctx, box := t.Context(), Box(text)
	old := *text
	e := open(box)
	check.Call(t)(box.Begin(ctx, true))
	changed, next, err := e.Secrets.Reseal(ctx, "")
	if err != nil || changed != 1 || next == "" {
		t.Fatalf("the first part: %d, %q, %v", changed, next, err)
	}
	begun, _, _ := strings.Cut(*text, " ")
	opens(e)
	box = Box(text) // of a process that was started after the kill
	e = open(box)
	opens(e)
	res, err := rotate.Key(ctx, e.Store, core.Actor{Name: "ann"}, "")
	if err != nil || res.Changed != 3 || res.Next != "" {
		t.Fatalf("the rotation: %+v, %v", res, err)
	}
	if list, err := e.Manage.Changes(ctx, "", 0, math.MaxInt64, 10); err != nil || !slices.ContainsFunc(list, func(c core.Change) bool {
		return c.Verb == core.VerbRotated && c.By == "ann" && c.Why == "key "+res.Key
	}) {
		t.Errorf("the changes are %+v, %v", list, err)
	}
	if want := begun + "\n" + old; *text != want {
		t.Errorf("the keys are %q: expected the new key once, without a mark, before the old one: %q", *text, want)
	}
	opens(open(Box(&begun))) // no record needs the old key
	if _, err := rotate.Key(ctx, open(nil).Store, core.Actor{Name: "ann"}, ""); core.CodeOf(err) != core.CodeRefused {
		t.Errorf("without a key: %v", err)
	}
}
