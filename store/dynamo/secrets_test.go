package dynamo_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/store/storetest"
)

func TestCopiedTablesHideSecrets(t *testing.T) {
	db, queues := fakeaws.New(t.Errorf)
	storetest.Secrets(t, func(box *secretbox.Box) *store.Store {
		s, err := dynamo.New(db, queues, dynamo.Options{Names: fakeaws.Names, Secrets: box})
		check.OK(t, err)
		return s.Store
	}, db.Dump)
}

// TestBlank: a store is blank until it has an app, without which no job is created, or a channel.
func TestBlank(t *testing.T) {
	for what, put := range map[string]func(context.Context, *dynamo.Store) error{
		"an app": func(ctx context.Context, s *dynamo.Store) error {
			return s.PutApp(ctx, 0, core.App{Name: "orders", Rev: 1}, core.Change{ID: 1, App: "orders"})
		},
		"a channel": func(ctx context.Context, s *dynamo.Store) error {
			return s.PutChannel(ctx, 0, core.Channel{Name: "team", Rev: 1}, core.Change{ID: 1})
		},
	} {
		s, ctx := newFakes(t, dynamo.Options{}).store, t.Context()
		if err := createJobs(ctx, s, []core.Job{oneJob(1)}, []core.Change{{ID: 1, App: "orders", Job: 1}})[0]; !errors.Is(err, core.ErrRefused) {
			t.Errorf("a job without an app: %v", err)
		}
		before, err := s.Blank(ctx)
		ok(t, err, put(ctx, s))
		if after, err := s.Blank(ctx); !before || after || err != nil {
			t.Errorf("%s: %t before, %t after, %v", what, before, after, err)
		}
	}
}
