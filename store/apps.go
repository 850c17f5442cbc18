package store

import (
	"context"
	"encoding/json"

	"github.com/tickring/tickring/core"
)

// KindApp is the kind of the records of apps.
const KindApp = "app"

var apps = Sealed(Table[core.App]{Kind: KindApp,
	Name:    func(a *core.App) string { return a.Name },
	Version: func(a *core.App) int64 { return a.Rev },
	Fill:    func(a *core.App, r *Record) { a.Name, a.Rev = r.Name, r.V }})

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
	milli(&a.Pause.From, &a.Pause.To, &a.Created)
	a.Past = core.PauseHistory{}
	if rec.V != 0 {
		var was core.App
		if err := json.Unmarshal(rec.Body, &was); err != nil {
			return err
		}
		a.Past = was.Past.After(was.Pause, a.Pause)
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
