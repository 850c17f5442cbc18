//go:build unix

package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestWideFiles: a restored database becomes private to its owner, and other files that all can read are logged once.
func TestWideFiles(t *testing.T) {
	dir := t.TempDir()
	start(t, Options{Dir: dir}).stop()
	db := filepath.Join(dir, "tickring.db")
	run := func(restored bool) string {
		t.Helper()
		var log lines
		start(t, Options{Dir: dir, Restored: restored, Log: log.warnings()}).stop()
		return log.String()
	}
	if log := run(false); strings.Contains(log, "chmod") {
		t.Errorf("for its own files it logs %s", log)
	}
	token := filepath.Join(dir, TokenFile)
	for _, name := range []string{db, token} {
		check.OK(t, os.Chmod(name, 0o644))
	}
	if log := run(false); strings.Count(log, "chmod go= "+token+" "+db) != 1 {
		t.Errorf("it says %s", log)
	}
	log := run(true)
	info, err := os.Stat(db)
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(log, "chmod go= "+token+`"`) {
		t.Errorf("restored: %v %v, %s", info.Mode(), err, log)
	}
}

// TestRestoredLink: if a symbolic link stands in place of the database, its target keeps its mode.
func TestRestoredLink(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(t.TempDir(), "other")
	check.OK(t, os.WriteFile(other, nil, 0o644))
	check.OK(t, os.Symlink(other, filepath.Join(dir, "tickring.db")))
	(&Server{o: Options{Dir: dir, Restored: true}, log: slog.New(slog.DiscardHandler)}).ownFiles()
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
