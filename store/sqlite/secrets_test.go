package sqlite_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
	"github.com/tickring/tickring/store/storetest"
)

// TestCopiedDataHidesSecrets searches the bytes of every file of the data directory.
func TestCopiedDataHidesSecrets(t *testing.T) {
	dir := t.TempDir()
	var s *store.Store
	storetest.Secrets(t, func(box *secretbox.Box) *store.Store {
		if s != nil {
			check.OK(t, s.Close())
		}
		s = openDir(t, dir, sqlite.Options{Secrets: box})
		return s
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
