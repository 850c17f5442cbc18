package sqlite_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/sqlite"
)

// TestBackup: a copy made while another process writes is complete and has every answered write, as has a copy of the data
// that a killed process left.
func TestBackup(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	c, lines := startChild(t, dir, 0)
	var mu sync.Mutex
	var made []core.RunID
	some, over := make(chan bool), make(chan bool)
	go func() {
		defer close(over)
		for lines.Scan() {
			var id core.RunID
			if _, err := fmt.Sscanf(lines.Text(), "made %d", &id); err != nil {
				continue
			}
			mu.Lock()
			if made = append(made, id); len(made) == 2000 {
				close(some)
			}
			mu.Unlock()
		}
	}()
	<-some
	for n := range 5 {
		if n == 4 {
			check.OK(t, c.Process.Kill())
			_ = c.Wait()
			<-over
		}
		mu.Lock()
		before := len(made)
		mu.Unlock()
		file := filepath.Join(copies, fmt.Sprint(n), "tickring.db")
		check.OK(t, os.Mkdir(filepath.Dir(file), 0o700))
		size, err := sqlite.Backup(t.Context(), dir, file)
		check.OK(t, err)
		info, err := os.Stat(file)
		if err != nil || info.Size() != size || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %d bytes said: %v", info, size, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
			t.Errorf("beside it: %v", left)
		}
		mu.Lock()
		ids := made[:before]
		mu.Unlock()
		copied, err := zombie.OpenConn(file, zombie.OpenReadWrite)
		check.OK(t, err)
		whole, err := sqlitex.ResultText(copied.Prep("PRAGMA integrity_check"))
		if err != nil || whole != "ok" {
			t.Errorf("%s %v", whole, err)
		}
		check.OK(t, copied.Close())
		found, err := openDir(t, filepath.Dir(file), sqlite.Options{}).Runs.Get(t.Context(), ids)
		if err != nil || len(found) != len(ids) {
			t.Errorf("copy %d has %d of the %d runs that were answered: %v", n, len(found), len(ids), err)
		}
	}
}

// TestBackupRefused: a backup that cannot be read or written returns an error and leaves no file.
func TestBackupRefused(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	openDir(t, dir, sqlite.Options{})
	taken := filepath.Join(copies, "taken")
	check.OK(t, os.WriteFile(taken, []byte("mine"), 0o600))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx      context.Context
		dir, to  string
		code     core.Code
		leftover bool
	}{
		{t.Context(), dir, taken, core.CodeInvalid, true},
		{t.Context(), dir, filepath.Join(copies, "no", "folder"), core.CodeInvalid, false},
		{t.Context(), t.TempDir(), filepath.Join(copies, "new"), core.CodeNotFound, false},
		{ended, dir, filepath.Join(copies, "new"), core.CodeInternal, false},
	} {
		_, err := sqlite.Backup(c.ctx, c.dir, c.to)
		if err == nil || core.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.to, err)
		}
		if _, err := os.Stat(c.to); (err == nil) != c.leftover {
			t.Errorf("%s: %v", c.to, err)
		}
	}
	if b, err := fs.ReadFile(os.DirFS(copies), "taken"); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
}
