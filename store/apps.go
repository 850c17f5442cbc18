package store

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"

	"github.com/tickring/tickring/core"
)

type storedApp struct {
	Title     string         `json:"title,omitempty"`
	Set       string         `json:"set,omitempty"`
	Token     string         `json:"token,omitempty"`
	Executors []string       `json:"executors,omitempty"`
	Allow     []netip.Prefix `json:"allow,omitempty"`
	Withheld  []string       `json:"withheld,omitempty"`
	Overlap   core.Overlap   `json:"overlap,omitzero"`
	Limits    core.Limits    `json:"limits,omitzero"`
	Wait      time.Duration  `json:"waitForExecutor,omitempty"`
	Call      *core.Call     `json:"call,omitempty"`
	Notify    core.Notify    `json:"notify,omitzero"`
	Pause     storedPause    `json:"pause"`
	Past      storedPast     `json:"past,omitzero"`
	Created   int64          `json:"created,omitempty"`
}

// KindApp is the kind of the records of apps.
const KindApp = "app"

var apps = Sealed(Table[core.App]{Kind: KindApp,
	Name:    func(a *core.App) string { return a.Name },
	Version: func(a *core.App) int64 { return a.Rev },
	Encode: func(a *core.App) ([]byte, error) {
		return json.Marshal(storedApp{Title: a.Title, Set: a.Set, Token: a.Token, Executors: a.Executors, Allow: a.Allow,
			Withheld: a.Withheld, Wait: a.WaitForExecutor, Overlap: a.Overlap, Limits: a.Limits, Call: a.Call, Notify: a.Notify,
			Pause: encodePause(a.Pause), Past: encodePast(a.Past), Created: core.Millis(a.Created)})
	},
	Decode: func(r *Record) (core.App, error) {
		var v storedApp
		err := json.Unmarshal(r.Body, &v)
		return core.App{Name: r.Name, Title: v.Title, Set: v.Set, Token: v.Token, Executors: v.Executors, Allow: v.Allow,
			Withheld: v.Withheld, WaitForExecutor: v.Wait, Overlap: v.Overlap, Limits: v.Limits, Call: v.Call, Notify: v.Notify, Rev: r.V,
			Pause: v.Pause.decode(), Past: v.Past.decode(), Created: core.FromMillis(v.Created)}, err
	}})

// Apps reads apps by name. Apps that do not exist are not in the result.
func (s *Store) Apps(ctx context.Context, names ...string) (map[string]Value[core.App], error) {
	return apps.Get(ctx, s, names...)
}

// ListApps returns all apps in the order of names.
func (s *Store) ListApps(ctx context.Context) ([]Value[core.App], error) {
	return apps.All(ctx, s)
}

// KindChanged lists the apps that have change records: an app from its creation on, also after it was deleted.
const KindChanged = "changed"

// PutApp stores an app on the condition that the stored Rev equals seen, so that no pause of the stored app is lost. If seen is
// 0, the app must not exist.
func (s *Store) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	rec, err := s.Read(ctx, Key{Kind: KindApp, Name: a.Name})
	if err != nil {
		return err
	}
	a.Past = core.PauseHistory{}
	if rec.V != 0 {
		was, err := apps.Decode(&rec)
		if err != nil {
			return err
		}
		a.Past = was.Past.After(was.Pause, encodePause(a.Pause).decode()) // compared in milliseconds
	}
	w, err := apps.Put(s.Box, a, seen)
	if err != nil {
		return err
	}
	writes := []Write{w}
	if seen == 0 {
		writes = append(writes, Write{Record: Record{Key: Key{Kind: KindChanged, Name: a.Name}, V: 1}, Was: Any})
	}
	return s.Records.Write(ctx, Group{Writes: writes, Changes: []core.Change{c}})[0]
}

// DeleteApp deletes an app on the condition that the stored Rev equals seen and the app has no jobs. The store also deletes
// the app's executors.
func (s *Store) DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.Write(ctx, apps.Delete(name, seen), c)
}
