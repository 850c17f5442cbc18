package engine

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"sync"
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

// Apps reads apps by name. Callers share the returned apps and must not change them.
func (n *Nouns) Apps(ctx context.Context, names []string) (map[string]core.App, []string, error) {
	found := make(map[string]core.App, len(names))
	missing, clock := names, uint64(0)
	if n.AppCache != nil {
		if missing, clock = n.AppCache.get(names, found); len(missing) == 0 {
			return found, nil, ctx.Err()
		}
	}
	values, err := apps.Get(ctx, n.Records, n.Box, missing...)
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
			if n.AppCache != nil {
				n.AppCache.add(v.Is, clock)
			}
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

// PutApp stores an app. The condition of the write ensures that the pauses of the past continue those of the stored app.
func (n *Nouns) PutApp(ctx context.Context, seen int64, a core.App, c core.Change) error {
	old, err := n.Records.Get(ctx, store.Key{Kind: KindApp, Name: a.Name})
	if err != nil {
		return err
	}
	a.Past = core.PauseHistory{}
	if rec, is := old[store.Key{Kind: KindApp, Name: a.Name}]; is {
		was, err := apps.Decode(&rec)
		if err = errors.Join(rec.Err, err); err != nil {
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
		writes = append(writes, store.Write{Record: store.Record{Key: store.Key{Kind: KindChanged, Name: a.Name}}, Was: store.Any})
	}
	if n.AppCache != nil {
		defer n.AppCache.change()()
	}
	return n.Records.Write(ctx, store.Group{Writes: writes, Changes: []core.Change{c}})[0]
}

// AppCache caches apps by name, for an engine whose only process writes all apps through Nouns. Each run reads its app twice.
type AppCache struct {
	mu       sync.RWMutex
	apps     map[string]core.App // never changed in place
	changing int                 // writes of apps under way
	clock    uint64
}

// maxApps limits the cache. Beyond: the cache starts anew, and reads go to the store. A concurrency limit can have a list of
// a thousand names.
const maxApps = 1000

// get adds the cached apps to found and returns the names of the others, and the clock for add.
func (c *AppCache) get(names []string, found map[string]core.App) (missing []string, clock uint64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, name := range names {
		if a, ok := c.apps[name]; ok {
			found[name] = a
		} else {
			missing = append(missing, name)
		}
	}
	return missing, c.clock
}

// add caches an app that was read from the store after a get.
func (c *AppCache) add(a core.App, clock uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changing > 0 || c.clock != clock {
		return
	}
	if c.apps == nil || len(c.apps) >= maxApps {
		c.apps = map[string]core.App{}
	}
	c.apps[a.Name] = a
}

// change empties the cache, which stays empty until the returned function is called.
func (c *AppCache) change() (changed func()) {
	step := func(by int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.apps, c.changing = nil, c.changing+by
		c.clock++
	}
	step(1)
	return func() { step(-1) }
}

// Clear empties the cache after another write than PutApp.
func (c *AppCache) Clear() { c.change()() }
