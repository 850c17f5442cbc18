package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/enginetest"
	"github.com/tickring/tickring/store/sqlite"
)

// TestCopiedDataHidesSecrets searches the bytes of every file of the data directory.
func TestCopiedDataHidesSecrets(t *testing.T) {
	dir := t.TempDir()
	var e *engine.Engine
	enginetest.Secrets(t, func(box *secretbox.Box) *engine.Engine {
		if e != nil {
			check.OK(t, e.Close())
		}
		e = openDir(t, dir, sqlite.Options{Secrets: box})
		return e
	}, func() []byte {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) < 3 { // the database, its WAL and the lock
			t.Fatal(files, err)
		}
		var all [][]byte
		for _, f := range files {
			b, err := os.ReadFile(f)
			check.OK(t, err)
			all = append(all, b)
		}
		return bytes.Join(all, nil)
	})
}
