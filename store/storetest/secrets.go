package storetest

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
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// Box returns a Box with its keys in text, which several boxes can share.
func Box(text *string) *secretbox.Box {
	return secretbox.New(core.Text{}, func(context.Context) (string, error) { return *text, nil },
		func(_ context.Context, s string) error { *text = s; return nil })
}

// NewBox returns a Box with its own key.
func NewBox() *secretbox.Box { text := secretbox.NewKey(); return Box(&text) }

var secretTexts = []string{"token-of-orders", "hidden-header", "basic-password", "hidden-variable", "/services/hook-path", "signing-secret"}

// Secrets tests an engine's promises for secrets. open opens the data again with a box, raw returns all stored bytes.
func Secrets(t *testing.T, open func(*secretbox.Box) *store.Store, raw func() []byte) {
	ctx, text := t.Context(), secretbox.NewKey()
	s := open(Box(&text))
	call := &core.Call{Headers: map[string]string{"X-Team": "shown", "X-Key": secretTexts[1]}, Hidden: []string{"X-Key"},
		Auth: core.Auth{Basic: core.Basic{User: "u", Password: secretTexts[2]}}}
	app := core.App{Name: "orders", Token: secretTexts[0], Call: call, Executors: []string{"call:http://x"}, Rev: 1}
	ok(t, s.PutApp(ctx, 0, app, core.Change{ID: 1, App: "orders"}))
	parent, j := job(1), job(2)
	parent.Def.Name, parent.Def.Command = "parent", nil
	parent.Def.Call, j.Def.Call = call, nil
	j.Def.Command = &core.Command{Line: "true", Env: map[string]string{"K": secretTexts[3]}, Hidden: []string{"K"}}
	j.Def.After = []core.Parent{{ID: 1, When: core.UponSuccess}}
	for _, one := range []core.Job{parent, j} { // the second rewrites the definition of the first
		ok(t, s.Jobs.Put(ctx, []store.JobPut{creates(one)})...)
	}
	channel := core.Channel{Name: "ops", Kind: core.ChannelFeishu, URL: "https://h" + secretTexts[4], Secret: secretTexts[5], Rev: 1}
	ok(t, s.PutChannel(ctx, 0, channel, core.Change{ID: 1, Name: "ops"}))
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
	opens := func(s *store.Store) {
		t.Helper()
		apps, err := s.Apps(ctx, "orders")
		ok(t, err)
		jobs := getJobs(t, s, store.Whole, 1, 2)
		channels, err := s.ListChannels(ctx)
		ok(t, err)
		if a := apps["orders"].Is; a.Token != secretTexts[0] || !a.Call.Equal(call) || !jobs[1].Def.Call.Equal(call) ||
			len(jobs[1].Def.Children) != 1 || jobs[2].Def.Command.Env["K"] != secretTexts[3] || len(channels) != 1 || !channels[0].Equal(channel) {
			t.Fatalf("read %+v, %+v, %+v", apps, jobs, channels)
		}
	}
	hidden()
	opens(open(Box(&text)))

	other := secretbox.NewKey()
	box := Box(&other)
	foreign := open(box)
	locked(t, foreign)
	// A change of something else leaves the stored secret as it is.
	apps, err := foreign.Apps(ctx, "orders")
	ok(t, err)
	stored := apps["orders"].Is
	stored.Title, stored.Rev = "new title", 2
	ok(t, foreign.PutApp(ctx, 1, stored, core.Change{ID: 2, App: "orders"}))
	got, err := foreign.Jobs.Get(ctx, store.Whole, []core.JobID{2})
	ok(t, err)
	ok(t, foreign.Jobs.Put(ctx, []store.JobPut{updates(with(*got[2].Is, func(j *core.Job) { j.Def.Title = "new title" }), 100)})...)
	other = text // an operator adds the key
	ok(t, box.Load(ctx))
	opens(foreign)
	opens(open(Box(&text)))

	rotated(t, open, &text, opens)
	hidden()
}

// locked tests the reads of secrets with a box that has another key.
func locked(t *testing.T, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	apps, err := s.Apps(ctx, "orders")
	list, other := s.ListApps(ctx)
	for _, v := range append(list, apps["orders"]) {
		if _, is := errors.AsType[*core.Locked](v.Err); !is || !strings.Contains(v.Err.Error(), "encrypted with key") ||
			v.Is.Executors == nil {
			t.Errorf("an app with another key: %+v", v)
		}
	}
	if ok(t, err, other); len(list) != 1 {
		t.Errorf("%d apps", len(list))
	}
	jobs, err := s.Jobs.Get(ctx, store.Whole, []core.JobID{1, 2})
	for id := range core.JobID(2) {
		if _, is := errors.AsType[*core.Locked](jobs[1+id].Err); !is || jobs[1+id].Is.Def.Route != core.RouteRound || err != nil {
			t.Errorf("job %d with another key: %+v, %v", 1+id, jobs[1+id], err)
		}
	}
	found, err := s.Channels(ctx, []string{"ops"})
	if ok(t, err); found["ops"].Locked() == nil {
		t.Errorf("channels with another key: %+v", found)
	}
}

// rotated replaces the key: killed after its first part, and then to its end.
func rotated(t *testing.T, open func(*secretbox.Box) *store.Store, text *string, opens func(*store.Store)) {
	t.Helper()
	ctx, box := t.Context(), Box(text)
	old := *text
	s := open(box)
	check.Call(t)(box.Begin(ctx, true))
	changed, next, err := s.Reseal(ctx, "")
	if err != nil || changed != 1 || next == "" {
		t.Fatalf("the first part: %d, %q, %v", changed, next, err)
	}
	begun, _, _ := strings.Cut(*text, " ")
	opens(s)
	box = Box(text) // of a process that was started after the kill
	s = open(box)
	opens(s)
	res, err := rotate.Key(ctx, s, core.Actor{Name: "ann"}, "")
	if err != nil || res.Changed != 3 || res.Next != "" {
		t.Fatalf("the rotation: %+v, %v", res, err)
	}
	if list, err := s.Changes(ctx, "", 0, math.MaxInt64, 10); err != nil || !slices.ContainsFunc(list, func(c core.Change) bool {
		return c.Verb == core.VerbRotated && c.By == "ann" && c.Why == "key "+res.Key
	}) {
		t.Errorf("the changes are %+v, %v", list, err)
	}
	if want := begun + "\n" + old; *text != want {
		t.Errorf("the keys are %q: expected the new key once, without a mark, before the old one: %q", *text, want)
	}
	opens(open(Box(&begun))) // no record needs the old key
	if _, err := rotate.Key(ctx, open(nil), core.Actor{Name: "ann"}, ""); core.CodeOf(err) != core.CodeRefused {
		t.Errorf("without a key: %v", err)
	}
}
