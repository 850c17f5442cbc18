package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// A job is only created in an app that exists, and an app is only deleted without jobs, although they share no item:
// docs/internals/follow-ups.md.

// leavingFor is how long a mark counts if its owner does not respond.
const leavingFor = 30 * time.Second

// keepPasses is how long a pass stays that its owner did not remove.
const keepPasses = time.Hour

// passes are the records that a creation of jobs stores: one for each of its transactions and each app in it.
type passes struct {
	nonce  string
	stored []store.Record
	open   map[string]bool // apps that accept jobs
}

func passesOf(app string) string { return "pass#" + app }

func (p *passes) key(part int, app string) store.Key {
	return store.Key{Kind: passesOf(app), Name: fmt.Sprintf("%s#%d", p.nonce, part)}
}

// enter stores the passes for parts of creations, and reads which apps accept jobs.
func (s *Store) enter(ctx context.Context, puts []store.JobPut, parts [][]int) (*passes, error) {
	p := &passes{nonce: rand.Text(), open: map[string]bool{}}
	var apps []item
	expires := s.o.Now().Add(keepPasses)
	for k, part := range parts {
		for _, i := range part { // jobs of one app have the same pass, which is written once
			app := puts[i].Create.Def.App
			p.stored = append(p.stored, store.Record{Key: p.key(k, app), V: 1, Expires: expires})
			apps = append(apps, stateKey(store.KindApp, app))
		}
	}
	if err := s.WriteAny(ctx, p.stored, false); err != nil {
		return nil, err
	}
	return p, s.db.GetAll(ctx, s.o.Names.State, apps, func(it item) error {
		app := items.TextOf(it, "key")
		if it["leaving"] == nil {
			p.open[app] = true
			return nil
		}
		until, err := items.IntOf(it, "leaving")
		if err != nil || until >= core.Millis(s.o.Now()) {
			return err
		}
		err = s.unmark(ctx, app, until)
		p.open[app] = err == nil
		if errors.Is(err, core.ErrRefused) {
			err = nil // its owner lives, or another took it away
		}
		return err
	})
}

func (s *Store) unmark(ctx context.Context, app string, until int64) error {
	e := items.Equal("leaving", items.Number(until)).Put("leaving", nil)
	return s.db.Transact(ctx, e.To(items.Update, s.o.Names.State, stateKey(store.KindApp, app)))
}

func deletesApp(w store.Write) bool { return w.Delete && w.Kind == store.KindApp }

// deleteApp makes a group that deletes an app, after it has marked the app as being deleted until a time.
func (s *Store) deleteApp(ctx context.Context, g *store.Group, w *store.Write) error {
	until := core.Millis(s.o.Now().Add(leavingFor))
	mark := condition(w).And(items.Where("of", "exists")).Put("leaving", items.Number(until))
	if err := s.db.Transact(ctx, mark.To(items.Update, s.o.Names.State, recordKey(w.Key))); err != nil {
		return err
	}
	err := s.deleteMarked(ctx, g, w.Name, until)
	if err != nil { // so that creating a job need not wait until the mark ends; after a lost answer the app may be gone
		_ = s.unmark(ctx, w.Name, until)
	}
	return err
}

func (s *Store) deleteMarked(ctx context.Context, g *store.Group, name string, until int64) error {
	passes, err := s.List(ctx, passesOf(name), "", "", math.MaxInt32)
	if err != nil {
		return err
	}
	if err := s.WriteAny(ctx, passes, true); err != nil {
		return err
	}
	names, err := s.List(ctx, namesOf(name), "", "", 1)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return core.ErrRefused
	}
	found, err := s.Executors(ctx, []string{name})
	if err != nil {
		return err
	}
	actions := s.recordsOf(g.Writes)
	for k := range g.Writes {
		if deletesApp(g.Writes[k]) {
			actions[k].And(items.Has("leaving", items.Number(until)))
		}
	}
	actions = append(actions, s.recordsOf(s.changeWrites(g.Changes))...)
	room := max(items.ActionsPerTransact-len(actions), 0)
	for _, e := range found[name][:min(room, len(found[name]))] { // the other executors will expire without heartbeats
		actions = append(actions, items.Plain(items.Delete, s.o.Names.State, stateKey(store.KindExecutors(name), e.Address)))
	}
	return s.db.Transact(ctx, actions...)
}
