package awsengine_test

import (
	"testing"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/engine/awsengine"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/enginetest"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
)

func TestCopiedTablesHideSecrets(t *testing.T) {
	db, queues := fakeaws.New(t.Errorf)
	enginetest.Secrets(t, func(box *secretbox.Box) *engine.Engine {
		s, err := awsengine.New(db, queues, awsengine.Options{Names: fakeaws.Names, Secrets: box})
		if err != nil {
			t.Fatal(err)
		}
		return s.Engine()
	}, db.Dump)
}
