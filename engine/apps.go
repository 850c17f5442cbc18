package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
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

var apps = store.Sealed(store.Table[core.App]{Kind: KindApp,
	Name:    func(a *core.App) string { return a.Name },
	Version: func(a *core.App) int64 { return a.Rev },
	Encode: func(a *core.App) ([]byte, error) {
		return json.Marshal(storedApp{Title: a.Title, Set: a.Set, Token: a.Token, Executors: a.Executors, Allow: a.Allow,
			Withheld: a.Withheld, Wait: a.WaitForExecutor, Overlap: a.Overlap, Limits: a.Limits, Call: a.Call, Notify: a.Notify,
			Pause: encodePause(a.Pause), Past: encodePast(a.Past), Created: core.Millis(a.Created)})
	},
	Decode: func(r *store.Record) (core.App, error) {
		var v storedApp
		err := json.Unmarshal(r.Body, &v)
		return core.App{Name: r.Name, Title: v.Title, Set: v.Set, Token: v.Token, Executors: v.Executors, Allow: v.Allow,
			Withheld: v.Withheld, WaitForExecutor: v.Wait, Overlap: v.Overlap, Limits: v.Limits, Call: v.Call, Notify: v.Notify, Rev: r.V,
			Pause: v.Pause.decode(), Past: v.Past.decode(), Created: core.FromMillis(v.Created)}, err
	}})

// Apps reads apps by name.
func (n *Nouns) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	found := make(map[string]core.App, len(names))
	values, err := apps.Get(ctx, n.Records, n.Box, names...)
	if err != nil {
		return found, nil, err
	}
	var bad core.UnreadableApps
	var unread []string
	for name, v := range values {
		switch {
		case errors.Is(v.Err, core.ErrThrottled):
			unread = append(unread, name)
		case v.Err != nil:
			bad.Add(name, v.Err)
		default:
			found[name] = v.Is
		}
	}
	return found, unread, bad.Err()
}

// ListApps returns all apps in the order of names.
func (n *Nouns) ListApps(ctx context.Context) (list []core.App, err error) {
	values, err := apps.All(ctx, n.Records, n.Box)
	if err != nil {
		return list, err
	}
	var bad core.UnreadableApps
	for i := range values {
		switch v := &values[i]; {
		case errors.Is(v.Err, core.ErrThrottled):
			return list, v.Err
		case v.Err != nil:
			bad.Add(v.Name, v.Err)
		default:
			list = append(list, v.Is)
		}
	}
	return list, bad.Err()
}

// KindChanged lists the apps that have change records: an app from its creation on, also after it was deleted.
const KindChanged = "changed"

// PutApp stores an app. The condition of the write ensures that no pause of the stored app is lost.
func (n *Nouns) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	rec, err := n.read(ctx, store.Key{Kind: KindApp, Name: a.Name})
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
	w, err := apps.Put(n.Box, a, seen)
	if err != nil {
		return err
	}
	writes := []store.Write{w}
	if seen == 0 {
		writes = append(writes, store.Write{Record: store.Record{Key: store.Key{Kind: KindChanged, Name: a.Name}, V: 1}, Was: store.Any})
	}
	return n.Records.Write(ctx, store.Group{Writes: writes, Changes: []core.Change{c}})[0]
}
